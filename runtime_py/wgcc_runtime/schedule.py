"""At which steps a training reports, evaluates, saves and ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wgcc_runtime.errors import WgccError


@dataclass(frozen=True, slots=True)
class Schedule:
    """`last` is the number of the last step, if it is known."""

    last: int | None
    every: int
    eval_every: int
    checkpoint_every: int | None

    def after(self, steps: int) -> Schedule:
        """The same, counted from a later step."""
        return self if self.last is None else replace(self, last=self.last + steps)

    def until_next(self, step: int) -> int:
        """Steps until results are needed on the host."""
        periods = [self.every, self.eval_every, *filter(None, [self.checkpoint_every])]
        steps = [period - step % period for period in periods]
        if self.last is not None:
            steps.append(self.last - step)
        return min(steps)

    def is_due(self, period: int, step: int) -> bool:
        # The step may be past the last one, if a callback has trained as well.
        return step % period == 0 or (self.last is not None and step >= self.last)


def make_schedule(steps: Any, every: Any, eval_every: Any, checkpoint_every: Any) -> Schedule:
    """The schedule from the arguments of `fit`."""
    period = checked_count("every", every)
    return Schedule(
        None if steps is None else checked_count("steps", steps),
        period,
        period if eval_every is None else checked_count("eval_every", eval_every),
        None if checkpoint_every is None else checked_count("checkpoint_every", checkpoint_every),
    )


def checked_count(name: str, value: Any, caller: str = "fit") -> int:
    """A count that a caller gave; raises an error unless it is a whole number above 0."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or value < 1:
        raise WgccError(
            "range", f"{caller}: `{name}` is a whole number above 0, not {value!r}", name
        )
    return int(value)
