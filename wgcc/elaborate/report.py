"""Reports errors: at which line, when not to report again, and what the user may have meant.

Limits on the work of checking one program, so that `check` always ends soon.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from wgcc.elaborate.from_pytorch import counterpart
from wgcc.errors import Diagnostic, Diagnostics, Source, Span
from wgcc.spelling import LONGEST, did_you_mean
from wgcc.syntax.ast import Syntax
from wgcc.syntax.explain import affected_lines

Place = Span | Syntax

SYNONYMS = {
    "learning_rate": "lr", "step_size": "lr", "wd": "weight_decay", "decay": "weight_decay",
    "l2": "weight_decay", "grad_clip": "clip_norm", "max_grad_norm": "clip_norm",
    "clip": "clip_norm", "grad_accum": "accumulate", "beta1": "betas", "beta2": "betas",
    "epsilon": "eps", "kernel": "k", "kernel_size": "k", "padding": "pad", "dim": "axis",
    "keepdim": "keep", "keepdims": "keep", "ignore_index": "ignore", "pad_id": "ignore",
    "label_smoothing": "smoothing", "strides": "stride", "dropout": "p", "rate": "p",
    "input": "x", "dims": "axis", "shifts": "shift", "min": "low", "max": "high",
    "negative_slope": "slope", "weight": "w", "num_classes": "size", "output_padding": "output_pad",
}  # fmt: skip

# Suggestions per run: each of them compares a name with all visible names, pair by pair of letters.
MOST_GUESSES, MOST_COMPARED = 100, 10_000_000


class Stop(Exception):
    """Abandons one expression or statement whose error has been reported.

    It takes a diagnostic only so that one can write `raise Stop(report.error(…).help(…))`.
    """


class Report:
    """Errors and warnings of one run. `inside` keeps the stack of calls that led here.

    `strict_dims`: dims that agree by coincidence are an error, not a warning.
    """

    def __init__(self, diagnostics: Diagnostics, strict_dims: bool = False) -> None:
        self.diagnostics = diagnostics
        self.strict_dims = strict_dims
        self.library: set[Source] = set()
        self.root: Source | None = None
        self._calls: list[Span] = []
        self._guesses = 0
        self._compared = 0
        self._damaged: tuple[int, set[tuple[Source, int]]] = (0, set())

    def error(self, code: str, message: str, at: Place, label: str = "") -> Diagnostic:
        """Report an error, unless its line did not parse: then it has its error already."""
        span = place(at)
        if (span.source, span.line) in self._damaged_lines():
            return Diagnostic("error", code, message, span, label)
        user = self.user_span(span)
        if user is not span:
            problem = self.diagnostics.error(code, message, user)
            return problem.also(span, label or "here, in the library")
        problem = self.diagnostics.error(code, message, span, label)
        reached = (call for call in reversed(self._calls) if call.source is self.root)
        cause = None if span.source is self.root else next(reached, None)
        return problem.also(cause, "reached from here") if cause is not None else problem

    def warning(self, code: str, message: str, at: Place, label: str = "") -> Diagnostic:
        return self.diagnostics.warning(code, message, self.user_span(place(at)), label)

    def unknown(
        self, code: str, what: str, name: str, options: Iterable[str], at: Place,
        label: str = "not found",
    ) -> Diagnostic:  # fmt: skip
        """``unknown WHAT `name` ``, with the option that was probably meant."""
        problem = self.error(code, f"unknown {what} `{name}`", at, label)
        known = counterpart(name) if what in ("name", "function", "layer") else None
        if known is not None:
            return problem.help(f"coming from PyTorch: {known.advice()}")
        near = self.similar_names(
            name, (option for option in options if not option.startswith("_"))
        )
        return problem.help(f"did you mean `{near[0]}`?", (place(at), near[0])) if near else problem

    def similar_names(self, name: str, options: Iterable[str]) -> list[str]:
        """The `options` that are spelt alike; none after many guesses, because they take long."""
        self._guesses += 1
        if self._guesses > MOST_GUESSES or self._compared > MOST_COMPARED:
            return []
        names = list(options)
        if SYNONYMS.get(name) in names:
            return [SYNONYMS[name]]
        self._compared += len(names) * min(1 + len(name), LONGEST) ** 2
        return did_you_mean(name, names) if self._compared <= MOST_COMPARED else []

    @contextmanager
    def inside(self, call: Span) -> Iterator[None]:
        """Errors inside are caused by the call at this place."""
        self._calls.append(call)
        try:
            yield
        finally:
            self._calls.pop()

    def user_span(self, span: Span) -> Span:
        """The place to report: `span`, or the innermost call in the user's files that led there."""
        if span.source not in self.library:
            return span
        users = (call for call in reversed(self._calls) if call.source not in self.library)
        return next(users, span)

    def _damaged_lines(self) -> set[tuple[Source, int]]:
        count, lines = self._damaged
        items = self.diagnostics.items
        if count > len(items):
            count, lines = 0, set()
        if count < len(items):
            syntax = [item for item in items[count:] if item.code.startswith("WG01")]
            lines |= {(item.span.source, line) for item in syntax for line in affected_lines(item)}
            self._damaged = len(items), lines
        return lines


def place(at: Place) -> Span:
    return at if isinstance(at, Span) else at.span


# Evaluations of expressions: this many take seconds.
MOST_STEPS = 400_000
# Nodes of all graphs, before gradients. Five entries of a packed language model of 30 layers have
# 40,000.
MOST_NODES = 100_000
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
            raise self._report_exhaustion(f"more than {MOST_STEPS:,} expressions", at, is_silent)

    def node(self, at: Place, is_silent: bool, cost: int = 1) -> None:
        self._nodes += cost
        if self._nodes > MOST_NODES:
            raise self._report_exhaustion(f"more than {MOST_NODES:,} operations", at, is_silent)

    def afford(self, effort: int) -> bool:
        """Whether numpy may still do this much; if so, it is counted."""
        if self._effort + effort > MOST_EFFORT:
            return False
        self._effort += effort
        return True

    def _report_exhaustion(self, what: str, at: Place, is_silent: bool) -> Exhausted:
        if not is_silent:
            text = f"this program unrolls to {what}"
            problem = self._report.error("WG0804", text, at, "the check stopped here")
            problem.help(
                "loops are unrolled and functions inlined: use fewer iterations or smaller models"
            )
        return Exhausted()
