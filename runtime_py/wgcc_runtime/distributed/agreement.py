"""What workers say after a step, and what follows from it for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.distributed.averaging import mean
from wgcc_runtime.errors import WgccError

# The code of errors that are none of the runtime.
UNFORESEEN = "worker"


@dataclass(frozen=True, slots=True)
class Wants:
    """What a worker asks for after the next step; of `save` and `lines`, those of rank 0 count."""

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

    @classmethod
    def of(cls, error: BaseException, own: bool) -> Failure:
        if isinstance(error, WgccError):
            return cls(error.code, error.message, own)
        return cls(UNFORESEEN, f"{type(error).__name__}: {error}".removesuffix(": "), own)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step, or a round of `steps`, gave on one worker. `rows` it computed are its weight."""

    rank: int
    adapter: str
    wants: Wants
    rows: int
    outputs: dict[str, float] = field(default_factory=dict)
    state: Array = field(default_factory=lambda: np.zeros(0, np.float32))
    failure: Failure | None = None
    steps: int = 1


@dataclass(frozen=True, slots=True)
class Agreement:
    """The same on all workers: outputs and state are means."""

    stop: bool
    save: bool
    outputs: dict[str, float]
    state: Array
    error: WgccError | None = None
    lines: bool = False


def agreed(outcomes: Sequence[Outcome]) -> Agreement:
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
    """That of the worker that caused it."""
    own = [outcome for outcome in failed if outcome.failure and outcome.failure.own]
    first = (own or failed)[0]
    assert first.failure is not None
    place = f"worker {first.rank} ({first.adapter})"
    return WgccError(first.failure.code, f"{place}: {first.failure.message}; undone on all workers")
