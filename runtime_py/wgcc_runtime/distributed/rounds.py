"""Local steps between two exchanges of weights: what a worker does in each round."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.distributed.agreement import Outcome, Wants
from wgcc_runtime.distributed.outer import Outer, OuterSettings
from wgcc_runtime.distributed.worker import Values, Worker
from wgcc_runtime.weights import load_weights, save_weights

VELOCITY = "velocity"


class Rounds:
    def __init__(self, settings: OuterSettings, worker: Worker) -> None:
        self._worker, self._settings = worker, settings
        self.outer = Outer(settings, worker.parameters())
        self._before: Values | None = None
        self._floats = np.zeros(0, np.float32)

    def run(self, first: int, stride: int, count: int, wants: Wants) -> Outcome:
        """`count` local steps, with every `stride`-th batch from `first` on."""
        self._before, self._floats = self._worker.values(), self._worker.floats()
        positions = range(first, first + stride * count, stride)
        return self._worker.local_steps(positions, wants)

    def finish(self, average: Array, position: int) -> None:
        self._worker.write_floats(self.outer.step(self._floats, average))
        self._worker.model.progress.position = position

    def undo(self) -> None:
        """A round that failed on one worker is undone on all."""
        assert self._before is not None
        self._worker.take_over(self._before)

    def write_velocity(self, checkpoint: Path) -> None:
        if self._settings.momentum:
            steps = dict(self._worker.model.progress.steps)
            save_weights(beside(checkpoint), {VELOCITY: self.outer.velocity}, {"steps": steps})

    def read_velocity(self, checkpoint: Path, step: int) -> Array | None:
        """What was saved with a checkpoint, or None."""
        path = beside(checkpoint)
        if not self._settings.momentum or not path.exists():
            return None
        arrays, facts = load_weights(path)
        velocity = arrays.get(VELOCITY)
        fits = velocity is not None and velocity.shape == self.outer.velocity.shape
        is_of_step = facts.get("steps", {}).get(self._worker.entry.name) == step
        return velocity if fits and is_of_step else None


def beside(checkpoint: Path) -> Path:
    """The file of the outer momentum."""
    return checkpoint.with_name(f"{checkpoint.stem}-outer.safetensors")
