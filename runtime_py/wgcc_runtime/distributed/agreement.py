"""Workers report after a step, and all of them draw the same conclusions from the reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.distributed.averaging import mean
from wgcc_runtime.errors import WgccError

# The code of errors that are none of the runtime.
UNFORESEEN = "worker"
LOST_DEVICE = "device-lost"


@dataclass(frozen=True, slots=True)
class Wants:
    """The requests of a worker after the next step; only `save` and `lines` of rank 0 count."""

    stop: bool = False
    save: bool = False
    lines: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """`own`: the worker's own gradients were bad, not those of another."""

    code: str
    message: str
    own: bool

    @property
    def is_unforeseen(self) -> bool:
        return self.code == UNFORESEEN

    @property
    def is_lost_device(self) -> bool:
        return self.code == LOST_DEVICE

    @classmethod
    def of(cls, error: BaseException, own: bool) -> Failure:
        if isinstance(error, WgccError):
            return cls(error.code, error.message, own)
        return cls(UNFORESEEN, f"{type(error).__name__}: {error}".removesuffix(": "), own)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a step, or a round of `steps`, on one worker. Its `rows` are its weight."""

    rank: int
    adapter: str
    wants: Wants
    rows: int
    outputs: dict[str, float] = field(default_factory=dict)
    state: Array = field(default_factory=lambda: np.zeros(0, np.float32))
    failure: Failure | None = None
    steps: int = 1


class OutcomeNumbers:
    """Outcomes of steps without a failure as arrays of one length, which need not be pickled."""

    FIXED = 5

    def __init__(self, outputs: Sequence[str], state_size: int) -> None:
        self._outputs = tuple(outputs)
        self._length = self.FIXED + len(self._outputs) + state_size

    def write(self, outcome: Outcome) -> Array:
        if outcome.failure:
            return np.ones(self._length)
        wants, values = outcome.wants, (outcome.outputs[name] for name in self._outputs)
        fixed = (0, wants.stop, wants.save, wants.lines, outcome.rows)
        return np.concatenate([(*fixed, *values), outcome.state], dtype=np.float64)

    def read(self, rows: Array) -> list[Outcome] | None:
        """`rows` has a row for each rank. None if one of them failed."""
        if rows[:, 0].any():
            return None
        return [self._outcome(rank, row) for rank, row in enumerate(rows)]

    def _outcome(self, rank: int, row: Array) -> Outcome:
        state_at = self.FIXED + len(self._outputs)
        _, stop, save, lines, rows, *values = row[:state_at].tolist()
        outputs = dict(zip(self._outputs, values, strict=True))
        state = row[state_at:].astype(np.float32)
        return Outcome(
            rank, "", Wants(bool(stop), bool(save), bool(lines)), int(rows), outputs, state
        )


@dataclass(frozen=True, slots=True)
class Agreement:
    """The same on all workers: outputs and state are means."""

    stop: bool
    save: bool
    outputs: dict[str, float]
    state: Array
    error: WgccError | None = None
    lines: bool = False


def agreement_of(outcomes: Sequence[Outcome]) -> Agreement:
    """`outcomes` in the order of ranks. A step that failed on one worker has failed on all."""
    failed = [outcome for outcome in outcomes if outcome.failure]
    stop = any(outcome.wants.stop for outcome in outcomes)
    if failed:
        return Agreement(stop, False, {}, np.zeros(0, np.float32), _error(failed))
    rows = [outcome.rows for outcome in outcomes]
    outputs = {
        name: sum(outcome.outputs[name] * outcome.rows for outcome in outcomes) / sum(rows)
        for name in outcomes[0].outputs
    }
    state = mean([outcome.state for outcome in outcomes], rows)
    first = outcomes[0].wants
    return Agreement(stop, first.save, outputs, state, lines=first.lines)


def _error(failed: Sequence[Outcome]) -> WgccError:
    """The error of the worker that caused the failure."""
    own = [outcome for outcome in failed if outcome.failure and outcome.failure.own]
    first = (own or failed)[0]
    assert first.failure is not None
    place = f"worker {first.rank} ({first.adapter})"
    return WgccError(first.failure.code, f"{place}: {first.failure.message}; undone on all workers")
