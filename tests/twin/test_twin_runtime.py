"""The WebAssembly twin does in Python what kernels do, for any number of threads."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import line_twin
import wgcc_runtime
from line_training import assert_same, batches, data, everything, refused
from trials.interrupts import python_path
from wgcc_runtime import Model

THREADS = (1, 2, 5)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return line_twin.write_bundle(tmp_path_factory.mktemp("twin") / "bundle")


@pytest.fixture(params=THREADS)
def model(bundle: Path, request: pytest.FixtureRequest) -> Iterator[Model]:
    with wgcc_runtime.load(bundle, device="wasm", threads=request.param) as found:
        yield found


def test_entries_compute(model: Model) -> None:
    item, w = batches(1)[0], model.params()["w"]
    np.testing.assert_allclose(model.predict(x=item["x"])["p"], item["x"] @ w, rtol=1e-5)
    assert model.pick(ids=[3, -1, 0])["rows"].tolist() == [w[3], 0, w[0]]
    error = item["x"] @ w - item["y"]
    np.testing.assert_allclose(model.train(**item)["loss"], (error**2).mean(), rtol=1e-5)
    slope = error @ item["x"] / 4
    np.testing.assert_allclose(model.params()["w"], w - 0.1 * slope, rtol=1e-5)
    model.forget()
    assert not model.state()["opt/opt/momentum/w"].any()


def test_model_says_where_it_runs(model: Model) -> None:
    threads = model._machine.device.threads  # type: ignore[attr-defined]
    plural = "s" if threads > 1 else ""
    assert model.device_name == f"WebAssembly ({threads} thread{plural})"
    assert model.profile_name == "wasm"
    assert model.compile_ms > 0


def test_training_gives_the_same_bits_for_any_number_of_threads(bundle: Path) -> None:
    found = []
    for threads in THREADS:
        with wgcc_runtime.load(bundle, device="wasm", threads=threads) as model:
            history = model.fit(data(), steps=300, every=10, seed=4)
            assert history.losses[-1] < 1e-4 < history.losses[0]
            found.append((history.losses, everything(model)))
    for losses, values in found[1:]:
        assert losses == found[0][0]
        assert_same(values, found[0][1])


def test_many_steps_in_one_submit_are_the_same_as_single_ones(bundle: Path) -> None:
    items = batches(30)
    with wgcc_runtime.load(bundle, device="wasm") as together:
        together.fit(items, steps=30, every=30)
        with wgcc_runtime.load(bundle, device="wasm") as single:
            losses = [single.train(**item)["loss"] for item in items]
            assert_same(everything(together), everything(single))
    assert len(set(map(float, losses))) == 30


def test_a_nan_is_undone_and_blamed(model: Model) -> None:
    model.fit(data(), steps=5, every=5)
    before, good = everything(model), batches(1)[0]
    with refused("nan", "train, step 6: `loss` is inf; it first appears in `g` .kernel gradient"):
        model.train(x=good["x"] * np.float32(1e25), y=good["y"])
    assert_same(everything(model), before)
    items = [*batches(3), {"x": good["x"] * np.float32(1e25), "y": good["y"]}]
    with refused("nan", "step 9"):
        model.fit(items, steps=4, every=4)
    assert model.steps_done == 8


def test_a_nan_that_hides_from_the_loss_is_found_by_the_guard(model: Model) -> None:
    w = model.plan.tensors["opt/opt/momentum/w"]
    model._machine.write(w, np.array([0, np.inf, 0, 0], np.float32))
    with refused("nan", "`opt/opt/momentum/w` was not finite before the step"):
        model.train(**batches(1)[0])
    assert model.steps_done == 0


def test_ranges_of_inputs_are_checked(model: Model) -> None:
    with refused("range"):
        model.pick(ids=[0, 1, 9])


def test_resuming_gives_the_same_bits(bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "ck.safetensors"
    with wgcc_runtime.load(bundle, device="wasm", threads=2) as whole:
        whole.fit(data(), steps=40, every=10, seed=4)
        with wgcc_runtime.load(bundle, device="wasm") as first:
            first.fit(data(), steps=17, every=5, seed=4, checkpoint=path)
        with wgcc_runtime.load(bundle, device="wasm", threads=3) as second:
            second.fit(data(), steps=40, every=10, seed=4, checkpoint=path, resume=True)
            assert_same(everything(second), everything(whole))
            assert second.steps_done == 40


def test_checkpoints_move_between_twin_and_gpu(bundle: Path, adapter: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.safetensors" for number in range(3)]
    with (
        wgcc_runtime.load(bundle, device="wasm") as twin,
        wgcc_runtime.load(bundle, device=adapter) as gpu,
    ):
        for path, (here, there) in zip(paths, [(twin, gpu), (gpu, twin), (twin, gpu)], strict=True):
            here.fit(data(), steps=7, every=7, seed=4)
            here.save(path)
            there.load(path)
            assert_same(everything(there), everything(here))
            assert there.steps_done == here.steps_done
            again = tmp_path / "again.safetensors"
            there.save(again)
            assert again.read_bytes() == path.read_bytes()


def test_losses_agree_with_the_gpu(bundle: Path, adapter: str) -> None:
    losses = []
    for device in ("wasm", adapter):
        with wgcc_runtime.load(bundle, device=device) as model:
            losses.append(model.fit(data(), steps=20, every=1, seed=4).losses)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


def test_selftest_and_profile(model: Model) -> None:
    results = wgcc_runtime.run_selftest(model)
    assert results and all(result.passed for result in results)
    before = everything(model)
    profile = model.profile("train", repeat=2)
    assert [row.kernel for row in profile.rows] == ["predict", "gradient", "update"]
    assert profile.method == "one call per kernel" and profile.total_ms > 0
    assert_same(everything(model), before)


def test_nothing_can_be_tuned(bundle: Path) -> None:
    with (
        wgcc_runtime.load(bundle, device="wasm") as model,
        refused("tune", "one kernel for each dispatch"),
    ):
        model.tune(1.0)


def trap(model: Model) -> None:
    x = batches(1)[0]["x"].copy()
    x[0, 0] = line_twin.TRAP
    model.train(x=x, y=batches(1)[0]["y"])


def test_a_trap_is_a_lost_device(model: Model) -> None:
    """Threads that wait for the one that trapped are released."""
    model.fit(data(), steps=5, every=5, seed=4)
    model.snapshot()
    before = everything(model)
    started = time.monotonic()
    with refused("device-lost", "while running `train` .*unreachable.*the last checkpoint"):
        trap(model)
    assert time.monotonic() - started < 5
    assert model.steps_done == 5
    with refused("device-lost"):
        model.params()
    model.recover()
    assert_same(everything(model), before)
    model.fit(data(), steps=5, every=5)
    assert model.steps_done == 10


def test_a_training_recovers_from_a_trap(bundle: Path) -> None:
    items = batches(9)
    with wgcc_runtime.load(bundle, device="wasm", threads=3) as right:
        right.fit(lambda step: items[step % 9], steps=20, every=20)
        wanted = everything(right)
    left = [13]

    def item(step: int) -> Any:
        if step in left:
            left.clear()
            return {**items[0], "x": np.full_like(items[0]["x"], line_twin.TRAP)}
        return items[step % 9]

    with wgcc_runtime.load(bundle, device="wasm", threads=3) as model:
        model.fit(item, steps=20, every=4, recover=True)
        assert not left
        assert_same(everything(model), wanted)


def test_closed_models_are_refused_and_their_threads_end(bundle: Path) -> None:
    before = set(threading.enumerate())
    model = wgcc_runtime.load(bundle, device="wasm", threads=4)
    assert len(started_since(before)) == 1  # no others before the first call
    model.train(**batches(1)[0])
    threads = started_since(before)
    assert len(threads) == 4  # the first call of an entry is not the caller's
    model.close()
    assert_ended(threads)
    with refused("closed"):
        model.train(**batches(1)[0])
    model.close()


def test_threads_of_a_forgotten_model_end(bundle: Path) -> None:
    before = set(threading.enumerate())
    model = wgcc_runtime.load(bundle, device="wasm", threads=4)
    model.train(**batches(1)[0])
    threads = started_since(before)
    del model
    gc.collect()
    assert_ended(threads)


EXIT = """
import sys, threading, time
import wgcc_runtime
from line_training import batches
closed = wgcc_runtime.load(sys.argv[1], device="wasm")
closed.close()
model = wgcc_runtime.load(sys.argv[1], device="wasm", threads=3)
def train():
    while True:
        model.train(**batches(1)[0])
threading.Thread(target=train, daemon=True).start()
while not model.steps_done:
    time.sleep(0.01)
"""


def test_programs_end_in_silence(bundle: Path) -> None:
    """With a model that is closed, one that is not, and a thread that trains it."""
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", EXIT, str(bundle)],
            env={**os.environ, "PYTHONPATH": python_path()},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def started_since(before: set[threading.Thread]) -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread not in before}


def assert_ended(threads: set[threading.Thread]) -> None:
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
