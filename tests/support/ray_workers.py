"""Workers of Ray for tests: a slow one, and one that dies or loses its device in any call.

Actors import this module by its name, so they find the classes as they are here.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wgcc_runtime import WgccError
from wgcc_runtime.distributed.ray_worker import RayWorker

# The variable with the folder in which tests say where a worker shall die.
DEATHS = "WGCC_TEST_DEATHS"
# What the slow worker needs for each batch, beside its work.
SLOW_SECONDS = 0.3


class SlowWorker(RayWorker):
    """Rank 1 is slow."""

    def local_steps(self, *arguments: Any) -> Any:
        take = self._worker._take

        def slowly(position: int) -> Any:
            time.sleep(SLOW_SECONDS if self._worker.rank == 1 else 0)
            return take(position)

        self._worker._take = slowly  # type: ignore[method-assign]
        try:
            return super().local_steps(*arguments)
        finally:
            self._worker._take = take  # type: ignore[method-assign]


def die(place: str) -> None:
    """The first worker that is there dies, if a test asked for it."""
    with contextlib.suppress(FileNotFoundError):
        (Path(os.environ[DEATHS]) / place).unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def order_death(place: str) -> None:
    (Path(os.environ[DEATHS]) / place).touch()


def lose_device(worker: RayWorker, place: str) -> None:
    """As if the driver of the GPU had failed."""
    with contextlib.suppress(FileNotFoundError):
        (Path(os.environ[DEATHS]) / place).unlink()
        worker._worker.model._machine._failure = WgccError("device-lost", "the device is lost")  # type: ignore[attr-defined]


def _mortal(name: str) -> Callable[..., Any]:
    method = getattr(RayWorker, name)

    @functools.wraps(method)
    def call(self: Any, *arguments: Any) -> Any:
        die(f"before {name}")
        lose_device(self, f"no device in {name}")
        result = method(self, *arguments)
        die(f"after {name}")
        return result

    return call


CALLS = ("join", "start", "assign", "everything", "gradients", "reduce", "apply", "local_steps",
         "floats", "finish_round")  # fmt: skip
MortalWorker = type("MortalWorker", (RayWorker,), {name: _mortal(name) for name in CALLS})
MortalWorker.__module__ = __name__
