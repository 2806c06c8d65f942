"""Local steps between two exchanges of weights: what a worker does in each round.

A round ends when the fastest worker has made its steps. The others may go on for a while (`slack`);
then they send what they have done so far, and the average weighs each by its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.distributed.agreement import Outcome, Wants
from wgcc_runtime.distributed.outer import Outer, OuterSettings
from wgcc_runtime.distributed.worker import Counters, Values, Worker

# How much longer than the fastest worker the others may take by default, as a share of its time.
SLACK = 0.5
# Others may go on for at least so long: workers of about the same speed make equally many steps,
# and so give the same bits each time, even in rounds that are short.
LEAST_SECONDS = 1.0


def allowed_seconds(first: float, slack: float) -> float:
    """How long a round may take whose first worker is ready after `first` seconds."""
    return first + max(slack * first, LEAST_SECONDS)


def ahead(outcomes: Sequence[Outcome]) -> int | None:
    """The rank whose counters all take over; None if all workers have made as many steps."""
    steps = [outcome.steps for outcome in outcomes]
    return steps.index(max(steps)) if len(set(steps)) > 1 else None


class Rounds:
    def __init__(self, settings: OuterSettings, worker: Worker) -> None:
        self._worker = worker
        self.outer = Outer(settings, worker.parameters())
        self._before: Values | None = None
        self._count = 0
        self._floats = np.zeros(0, np.float32)
        self._velocity = self.outer.velocity

    def run(
        self,
        first: int,
        stride: int,
        count: int,
        wants: Wants,
        is_over: Callable[[], bool] = lambda: False,
    ) -> Outcome:
        """`count` local steps, or fewer, with every `stride`-th batch from `first` on."""
        self._before, self._floats = self._worker.values(), self._worker.floats()
        self._velocity, self._count = self.outer.velocity, count
        positions = range(first, first + stride * count, stride)
        return self._worker.local_steps(positions, wants, is_over)

    def finish(self, average: Array, position: int, counters: Counters | None = None) -> None:
        """`counters`: of the worker that is `ahead`, if there is one."""
        assert self._before is not None
        worker = self._worker
        worker.write_floats(self.outer.step(self._floats, average))
        if counters is not None:
            worker.take_counters(counters)
        progress, entry = worker.model.progress, worker.entry.name
        progress.steps[entry] = self._before.progress.step(entry) + self._count
        progress.position = position

    def undo(self) -> None:
        """A round that failed on one worker is undone on all."""
        assert self._before is not None
        self._worker.take_over(self._before)
        self.outer.velocity = self._velocity
