"""Limits on the work of checking one program, so that `check` always ends soon."""

from __future__ import annotations

from wgcc.elaborate.report import Place, Report

# Evaluations of expressions: this many take seconds.
MOST_STEPS = 400_000
# Nodes of all graphs, before gradients. A language model of 48 layers has a few thousand.
MOST_NODES = 30_000
# Element operations in numpy, for tests and initial values: this many take about a second.
MOST_EFFORT = 40_000_000


# The cost of a model or an entry itself, in nodes.
MODEL = ENTRY = 10


class Exhausted(Exception):
    """Ends the check of a program at once; the error has been reported."""


class Budget:
    def __init__(self, report: Report) -> None:
        self._report = report
        self._steps = 0
        self._nodes = 0
        self._effort = 0

    def step(self, at: Place, is_silent: bool, cost: int = 1) -> None:
        """Count an expression. With `is_silent` (unused code) the check just ends at the limit."""
        self._steps += cost
        if self._steps > MOST_STEPS:
            raise self._exhausted(f"more than {MOST_STEPS:,} expressions", at, is_silent)

    def node(self, at: Place, is_silent: bool, cost: int = 1) -> None:
        self._nodes += cost
        if self._nodes > MOST_NODES:
            raise self._exhausted(f"more than {MOST_NODES:,} operations", at, is_silent)

    def afford(self, effort: int) -> bool:
        """Whether numpy may still do this much; if so, it is counted."""
        if self._effort + effort > MOST_EFFORT:
            return False
        self._effort += effort
        return True

    def _exhausted(self, what: str, at: Place, is_silent: bool) -> Exhausted:
        if not is_silent:
            text = f"this program unrolls to {what}"
            found = self._report.error("WG0804", text, at, "the check stopped here")
            found.help(
                "loops are unrolled and functions inlined: use fewer iterations or smaller models"
            )
        return Exhausted()
