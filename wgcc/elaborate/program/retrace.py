"""Undoes the tracing of an entry, so that it can be traced again."""

from __future__ import annotations

from wgcc.elaborate.tracing.context import Context


class Attempt:
    """Begins when it is created; `undo` discards what has been traced and reported since."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._problems = len(context.report.diagnostics.items)
        self._counters = context.sites, context.remat_regions
        self._called = set(context.called)
        context.asked_for_training = False

    @property
    def asked(self) -> bool:
        """Whether something depended on `training`."""
        return self._context.asked_for_training

    @property
    def failed(self) -> bool:
        found = self._context.report.diagnostics.items[self._problems :]
        return any(problem.severity == "error" for problem in found)

    def undo(self) -> None:
        context = self._context
        context.report.diagnostics.forget(self._problems)
        context.sites, context.remat_regions = self._counters
        context.called = self._called
