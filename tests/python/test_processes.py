"""Threads that share a model run one after the other; forked processes get an error at once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import line_twin
import wgcc_runtime
from line_training import batches, data, refused
from trials.forks import fork
from trials.interrupts import python_path
from trials.threads import share
from wgcc_runtime import Model, Report


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return line_twin.write_bundle(tmp_path_factory.mktemp("processes") / "bundle")


@pytest.fixture(params=["lavapipe", "wasm"])
def model(bundle: Path, request: pytest.FixtureRequest) -> Iterator[Model]:
    with wgcc_runtime.load(bundle, device=request.param, threads=2) as found:
        yield found


def test_threads_share_models_and_a_device(target: str, tmp_path: Path) -> None:
    found = share(tmp_path, 20, target)
    assert not [kind for kind in found if kind.startswith("fault")]
    assert (found["calls"], found["steps"] > 50) == (160, True)


def test_forked_processes_are_refused_and_end(target: str) -> None:
    found, slowest = fork(1, target)
    assert not [kind for kind in found if kind.startswith("fault")]
    assert (len(found), slowest < 30) == (11, True)


POOL = """
import multiprocessing, sys
import adapters
adapters.use_software_drivers()
import wgcc_runtime
from line_training import batches
model = wgcc_runtime.load(sys.argv[1], device=sys.argv[2])
def train(_):
    return model.train(**batches(1)[0])
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(abs, range(-9, 0)))
    try:
        pool.map(train, range(2))
    except wgcc_runtime.WgccError as error:
        print(error.code)
print(model.train(**batches(1)[0])["loss"].shape)
"""


@pytest.mark.parametrize("device", ["lavapipe", "wasm"])
def test_pools_of_forked_workers(bundle: Path, device: str) -> None:
    """They work without the GPU, and errors are passed back to the parent."""
    done = subprocess.run(
        [sys.executable, "-c", POOL, str(bundle), device],
        timeout=120, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": python_path()}, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == [str(list(range(9, 0, -1))), "forked", "()"], done.stderr


def test_a_second_fit_does_not_wait(model: Model) -> None:
    """In another thread it is refused; in a callback it is allowed."""
    answers: list[Any] = []

    def elsewhere() -> None:
        try:
            model.fit(data(), steps=1)
        except wgcc_runtime.WgccError as error:
            answers.append(error.code)

    def callback(report: Report) -> None:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        answers.append(model.predict(x=data(8)["x"])["p"].shape)
        if report.step == 2:
            model.fit(data(), steps=1, every=1)

    model.fit(data(), steps=4, every=2, callbacks=[callback])
    assert answers == ["busy", (8,)] * 2
    # The inner step counts. On a slow machine, whose submits have one step, the outer makes less.
    done = model.steps_done
    assert done in (4, 5)
    elsewhere()
    assert (len(answers), model.steps_done) == (4, done + 1)


def test_a_model_closed_while_it_trains(model: Model) -> None:
    with refused("closed", "at step 4"):
        model.fit(data(), steps=50, every=4, callbacks=[lambda _: model.close()])
    with refused("closed", "the model was closed"):
        model.train(**batches(1)[0])
    model.close()
