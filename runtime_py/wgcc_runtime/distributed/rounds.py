"""Local steps between two exchanges of weights: what a worker does in each round."""

from __future__ import annotations

from collections.abc import Mapping
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
        self._worker = worker
        self.outer = Outer(settings, worker.parameters())
        self._before: Values | None = None
        self._floats = np.zeros(0, np.float32)
        self._velocity = self.outer.velocity

    def run(self, first: int, stride: int, count: int, wants: Wants) -> Outcome:
        """`count` local steps, with every `stride`-th batch from `first` on."""
        self._before, self._floats = self._worker.values(), self._worker.floats()
        self._velocity = self.outer.velocity
        positions = range(first, first + stride * count, stride)
        return self._worker.local_steps(positions, wants)

    def finish(self, average: Array, position: int) -> None:
        self._worker.write_floats(self.outer.step(self._floats, average))
        self._worker.model.progress.position = position

    def undo(self) -> None:
        """A round that failed on one worker is undone on all."""
        assert self._before is not None
        self._worker.take_over(self._before)
        self.outer.velocity = self._velocity


def write_velocity(
    checkpoint: Path, settings: OuterSettings, velocity: Array, steps: Mapping[str, int]
) -> None:
    """Saves the momentum of the outer step with a checkpoint, if there is one."""
    if settings.momentum:
        save_weights(beside(checkpoint), {VELOCITY: velocity}, {"steps": dict(steps)})


def read_velocity(checkpoint: Path, settings: OuterSettings, entry: str, step: int) -> Array | None:
    """What was saved with the checkpoint of this step, or None."""
    path = beside(checkpoint)
    if not settings.momentum or not path.exists():
        return None
    arrays, facts = load_weights(path)
    is_of_step = facts.get("steps", {}).get(entry) == step
    return arrays.get(VELOCITY) if is_of_step else None


def beside(checkpoint: Path) -> Path:
    """The file of the outer momentum."""
    return checkpoint.with_name(f"{checkpoint.stem}-outer.safetensors")
