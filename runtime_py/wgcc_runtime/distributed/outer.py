"""The step that follows averaged weights, when workers exchange them rarely.

DiLoCo (Douillard et al. 2023): the difference that a round of local steps made is a gradient for
SGD with Nesterov momentum. A rate of 1 without momentum takes over the average: local SGD.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.errors import WgccError


@dataclass(frozen=True, slots=True)
class OuterSettings:
    lr: float = 1.0
    momentum: float = 0.0

    def check(self) -> None:
        if not (np.isfinite(self.lr) and self.lr > 0):
            raise WgccError("range", f"outer_lr is above 0, not {self.lr}", "outer_lr")
        if not 0 <= self.momentum < 1:
            text = f"outer_momentum is from 0 to below 1, not {self.momentum}"
            raise WgccError("range", text, "outer_momentum")


class Outer:
    """`velocity` has a number for each of the floats; it is zero where none is a parameter."""

    def __init__(self, settings: OuterSettings, parameters: Array) -> None:
        self._settings, self._parameters = settings, parameters
        self.velocity = np.zeros(parameters.size, np.float32)

    def resume(self, velocity: Array | None) -> None:
        """Continues with the momentum of a checkpoint, or of another worker."""
        if velocity is None or not self._settings.momentum:
            return
        if velocity.shape != self.velocity.shape:
            text = f"the outer momentum has {velocity.size} numbers; the model has"
            raise WgccError("weights", f"{text} {self.velocity.size} floats")
        self.velocity = np.array(velocity, np.float32)

    @property
    def saved_velocity(self) -> Array | None:
        """The velocity that a checkpoint keeps; None without momentum."""
        return self.velocity if self._settings.momentum else None

    def step(self, before: Array, average: Array) -> Array:
        """The new floats from those before the round, and their average after it."""
        lr, momentum = np.float32(self._settings.lr), np.float32(self._settings.momentum)
        if lr == 1 and momentum == 0:
            return average
        gradient = before - average
        velocity = momentum * self.velocity + gradient
        new = before - lr * (gradient + momentum * velocity)
        if not np.isfinite(new).all():
            raise WgccError("nan", "the outer step is not finite: lower outer_lr or outer_momentum")
        self.velocity = np.where(self._parameters, velocity, np.float32(0))
        return np.where(self._parameters, new, average)
