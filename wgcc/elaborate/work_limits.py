"""How much checking one program may take: what asks for more is refused, so that `check` ends."""

from __future__ import annotations

from wgcc.elaborate.report import Place, Report

# Expressions that are evaluated, each as often as it is reached: seconds.
MOST_STEPS = 400_000
# Operations of all graphs, before gradients. A language model of 48 layers has a few thousand.
MOST_NODES = 30_000
# What numpy may do for tests and first values: about a second.
MOST_EFFORT = 40_000_000


# A model or entry takes as long as so many operations, before its first one.
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
        """One more expression. Code that nobody uses may end unchecked, without a word."""
        self._steps += cost
        if self._steps > MOST_STEPS:
            raise self._exhausted(f"more than {MOST_STEPS:,} expressions", at, is_silent)

    def node(self, at: Place, is_silent: bool, cost: int = 1) -> None:
        self._nodes += cost
        if self._nodes > MOST_NODES:
            raise self._exhausted(f"more than {MOST_NODES:,} operations", at, is_silent)

    def afford(self, effort: int) -> bool:
        """Whether numpy may still do so much; then it is counted."""
        if self._effort + effort > MOST_EFFORT:
            return False
        self._effort += effort
        return True

    def _exhausted(self, what: str, at: Place, is_silent: bool) -> Exhausted:
        if not is_silent:
            text = f"this program unrolls to {what}"
            found = self._report.error("WG0804", text, at, "it was left here")
            found.help("loops are unrolled and functions inlined: fewer rounds, or smaller models")
        return Exhausted()
