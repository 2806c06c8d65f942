"""Run by `mpiexec`: what happens if one process fails, in every part of a training.

With a folder alone, all failures that processes agree on, one after the other; rank 0 prints what
each process raised. With the name of another failure, that one, which ends all processes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from safetensors.numpy import load_file

import wgcc_runtime
from wgcc_runtime import WgccError, mpi
from wgcc_runtime.distributed.worker import Worker
from wgcc_runtime.flight import HalvesRunner
from wgcc_runtime.model import Model

Options = dict[str, Any]


def failing(_: object) -> None:
    raise ValueError("injected")


@contextlib.contextmanager
def broken(
    owner: Any, name: str, after: int = 0, error: type[BaseException] = ValueError
) -> Iterator[None]:
    """A function that works so many times."""
    original, calls = getattr(owner, name), []

    def function(*given: Any, **options: Any) -> Any:
        calls.append(name)
        if len(calls) > after:
            raise error("injected")
        return original(*given, **options)

    with mock.patch.object(owner, name, function):
        yield


@contextlib.contextmanager
def wrong_numbers() -> Iterator[None]:
    original = Model.call_prepared

    def function(self: Model, entry: str, **inputs: Any) -> Any:
        found = original(self, entry, **inputs)
        return {name: value + np.float32(1) for name, value in found.items()}

    with mock.patch.object(Model, "call_prepared", function):
        yield


# What fails on rank 1: a part of the code, or an option that only this rank has.
RANK_1: dict[str, Callable[[], Any] | Options] = {
    "options": {"steps": 0},
    "other options": {"steps": 5},
    "worker": lambda: broken(mpi, "make_worker"),
    "data digest": lambda: broken(mpi, "describe_arrays"),
    "bundle digest": lambda: broken(mpi, "identity"),
    "self-test": wrong_numbers,
    "take over": lambda: broken(Worker, "take_over", 1),
    "gradients": lambda: broken(Model, "_gradients", 2),
    "apply": lambda: broken(Model, "apply", 2),
    "state": lambda: broken(HalvesRunner, "collect", 2),
    "even out": lambda: broken(Worker, "digest", 1),
    "local steps": lambda: broken(Worker, "_take", 3),
    "finish of a round": lambda: broken(Worker, "write_floats", 1),
}
RANK_0: dict[str, Callable[[], Any] | Options] = {
    "checkpoint": {"checkpoint": f"{__file__}/all.safetensors"},
    "start": lambda: broken(mpi, "start"),
    "callback": {"callbacks": [failing]},
    "evaluation": {},
    "save": lambda: broken(Worker, "save", 1),
}
RARE = ("local steps", "finish of a round")
# What ends all processes: a call that nothing of all processes follows at once.
ENDING: dict[str, Callable[[], Any]] = {
    "values": lambda: broken(Worker, "values", 3),
    "finish": lambda: broken(Worker, "_write_floats", 3),
    "interrupt": lambda: broken(Worker, "_take", 3, KeyboardInterrupt),
}


def digest(model: Model) -> str:
    """Of all but the seed, which each worker has of its own."""
    values = {**model.params(), **model.state()}
    del values["rng/seed"]
    return hashlib.sha256(b"".join(value.tobytes() for value in values.values())).hexdigest()


class Job:
    def __init__(self, folder: Path) -> None:
        self.own = mpi.Processes()
        self.folder, self.bundle = folder, folder / "noisy4"
        self.data = load_file(folder / "noisy.safetensors")

    def fit(self, model: Model, **options: Any) -> None:
        steps = {"steps": 6, "every": 2, "checkpoint_every": 2, **options}
        mpi.fit(model, self.bundle, self.data, self.own, **steps)

    def open(self) -> Model:
        return wgcc_runtime.load(self.bundle, device="wasm", threads=1)

    def raised(self, name: str, rank: int, failure: Any) -> dict[str, Any]:
        """What this process raised, the steps it has made, and a digest of its values."""
        out = self.folder / f"{name}.safetensors"
        mine = self.own.rank == rank
        options = failure if isinstance(failure, dict) and mine else {}
        breaks = failure() if callable(failure) and mine else contextlib.nullcontext()
        more: Options = {"sync_every": 2} if name in RARE else {}
        more |= {"eval": failing} if name == "evaluation" else {}
        with self.open() as model:
            error = ""
            try:
                with breaks:
                    self.fit(model, **{"checkpoint": out, **more, **options})
            except WgccError as found:
                error = str(found)
            return {"error": error, "steps": model.steps_done, "digest": digest(model)}


def agreed(job: Job) -> dict[str, list[Any]]:
    cases = [(name, 1, failure) for name, failure in RANK_1.items()]
    cases += [(name, 0, failure) for name, failure in RANK_0.items()]
    return {case[0]: job.own.comm.allgather(job.raised(*case)) for case in cases}


def unequal_data(job: Job) -> str:
    if job.own.rank == 1:
        job.data["x"][-1, -1] += 1
    with job.open() as model:
        try:
            job.fit(model)
        except WgccError as error:
            return str(error)
    return ""


def own_folder(job: Job) -> int:
    """Only rank 0 needs the folder of the checkpoint."""
    names = ("lone.safetensors", "noisy.safetensors/lone.safetensors")
    with job.open() as model:
        job.fit(model, checkpoint=job.folder / names[job.own.rank])
        return model.steps_done


def main(folder: Path, case: str = "") -> None:
    job = Job(folder)
    if case:
        breaks = ENDING[case]() if job.own.rank == 1 else contextlib.nullcontext()
        rare = {"sync_every": 2} if case == "values" else {}
        with job.open() as model, breaks:
            job.fit(model, checkpoint=folder / f"{case}.safetensors", **rare)
        return
    found: dict[str, Any] = {"agreed": agreed(job), "folder": own_folder(job)}
    found["data"] = job.own.comm.allgather(unequal_data(job))
    if job.own.rank == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
