"""A device lost at any point of a run: reported at once, nothing wrong saved, training resumes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import line_bundle
import line_twin
import wgcc_runtime
from adapters import ROOT, environment
from line_training import assert_same, batches, data, everything, refused
from wgcc_runtime import Model, recovery
from wgcc_runtime.blame import blame
from wgcc_runtime.gpu_machine import GpuMachine
from wgcc_runtime.weights import load_weights

STEPS = 20


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return line_twin.write_bundle(tmp_path_factory.mktemp("loss") / "bundle")


@pytest.fixture(scope="module")
def undisturbed(bundle: Path, target: str) -> list[dict[str, Any]]:
    """Everything of the model after each number of steps."""
    found = []
    with wgcc_runtime.load(bundle, device=target) as model:
        for _ in range(STEPS + 1):
            found.append(everything(model))
            model.fit(data(), steps=1, every=1, seed=4)
    return found


def lose(model: Model) -> None:
    """Destroys the GPU device; makes the twin trap."""
    machine = model._machine
    if isinstance(machine, GpuMachine):
        machine.device.gpu.destroy()
        return
    tensor = machine.plan.tensors["predict/x"]
    machine.write(tensor, np.full(tensor.shape, line_twin.TRAP, np.float32))
    encoder = machine.encoder()
    machine.run(encoder, "predict")
    machine.submit(encoder)


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_lost_after_each_step(
    bundle: Path, target: str, undisturbed: list[dict[str, Any]], tmp_path: Path, step: int
) -> None:
    path = tmp_path / "ck.safetensors"
    model = wgcc_runtime.load(bundle, device=target)
    lost_at: list[float] = []

    def callback(report: Any) -> None:
        if report.step == step:
            lose(model)
            lost_at.append(time.monotonic())

    with refused("device-lost", "continue from the last checkpoint"):
        model.fit(data(), steps=STEPS, every=1, seed=4, callbacks=[callback], checkpoint=path,
                  checkpoint_every=3)  # fmt: skip
    assert time.monotonic() - lost_at[0] < 5  # no waiting for results that never come
    assert model.steps_done == step
    if path.exists():
        arrays, facts = load_weights(path)
        assert facts["steps"]["train"] <= step
        np.testing.assert_array_equal(arrays["w"], undisturbed[facts["steps"]["train"]]["w"])
    with wgcc_runtime.load(bundle, device=target) as fresh:
        fresh.fit(data(), steps=STEPS, every=5, seed=4, checkpoint=path, resume=True)
        assert_same(everything(fresh), undisturbed[STEPS])


@pytest.mark.parametrize("step", [1, 7, 19, 20])
def test_recovery_gives_the_same_bits(
    bundle: Path, target: str, undisturbed: list[dict[str, Any]], tmp_path: Path, step: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(recovery, "COPY_SECONDS", 0.0)
    left = [step]

    def callback(report: Any) -> None:
        if report.step in left:
            left.clear()
            lose(model)

    model = wgcc_runtime.load(bundle, device=target)
    log = tmp_path / "log.jsonl"
    history = model.fit(data(), steps=STEPS, every=1, seed=4, callbacks=[callback], recover=True,
                        log=log)  # fmt: skip
    assert not left
    assert history.steps == list(range(1, STEPS + 1))
    assert len(log.read_text().splitlines()) == STEPS
    assert_same(everything(model), undisturbed[STEPS])


def test_recovery_goes_back_to_the_start(
    bundle: Path, target: str, undisturbed: list[dict[str, Any]]
) -> None:
    model = wgcc_runtime.load(bundle, device=target)
    lose(model)
    with refused("device-lost"):
        model.params()
    model.recover()
    assert_same(everything(model), undisturbed[0])
    model.fit(data(), steps=3, every=3, seed=4)
    assert_same(everything(model), undisturbed[3])


def test_a_training_that_could_recover_ends_with_a_copy(
    bundle: Path, target: str, undisturbed: list[dict[str, Any]]
) -> None:
    model = wgcc_runtime.load(bundle, device=target)
    model.fit(data(), steps=4, every=3, seed=4, recover=True)
    lose(model)
    with refused("device-lost"):
        model.params()
    model.recover()
    assert model.steps_done == 4
    assert_same(everything(model), undisturbed[4])


def test_iterators_cannot_be_recovered(bundle: Path, target: str) -> None:
    model = wgcc_runtime.load(bundle, device=target)
    with refused("device-lost"):
        model.fit(iter(batches(9)), every=1, callbacks=[lambda _: lose(model)], recover=True)


def test_a_step_that_always_loses_the_device_ends(
    bundle: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = wgcc_runtime.load(bundle, device=target)
    calls = []

    def callback(report: Any) -> None:
        calls.append(report.step)
        lose(model)

    with refused("device-lost"):
        model.fit(data(), steps=9, every=1, callbacks=[callback], recover=True)
    assert len(calls) == 2


def test_lost_while_the_gpu_works(
    bundle: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a submit and its results: the steps do not count."""
    model = wgcc_runtime.load(bundle, device=target)
    model.fit(data(), steps=5, every=5)
    results = type(model._machine.results(4))
    fetch = results.fetch

    def losing(self: Any, size: int) -> Any:
        lose(model)
        return fetch(self, size)

    monkeypatch.setattr(results, "fetch", losing)
    with refused("device-lost"):
        model.fit(data(), steps=5, every=5)
    assert model.steps_done == 5


def test_lost_while_a_nan_is_undone(
    bundle: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = wgcc_runtime.load(bundle, device=target)
    good = batches(1)[0]
    model.train(**good)

    def losing(*arguments: Any) -> str:
        lose(model)
        return blame(*arguments)

    monkeypatch.setattr("wgcc_runtime.blame.blame", losing)
    with refused("device-lost"):
        model.train(x=good["x"] * np.float32(1e25), y=good["y"])
    assert model.steps_done == 1


@pytest.mark.parametrize("use", ["train", "params", "save", "load", "reset", "profile", "map"])
def test_whatever_is_asked_of_a_lost_device(
    use: str, bundle: Path, target: str, tmp_path: Path
) -> None:
    model = wgcc_runtime.load(bundle, device=target)
    path = tmp_path / "w.safetensors"
    model.save(path)
    old = path.read_bytes()
    model.train(**batches(1)[0])
    lose(model)
    uses = {
        "train": lambda: model.train(**batches(1)[0]), "params": model.params,
        "save": lambda: model.save(path), "load": lambda: model.load(path), "reset": model.reset,
        "profile": lambda: model.profile("train", repeat=1),
        "map": lambda: model.map("predict", x=data()["x"]),
    }  # fmt: skip
    if use == "profile":
        uses[use]()  # on a separate device
        return
    with refused("device-lost"):
        uses[use]()
    assert path.read_bytes() == old
    model.close()


OUT_OF_MEMORY = """
import resource, sys
import adapters
adapters.use_software_drivers()
import wgcc_runtime
resource.setrlimit(resource.RLIMIT_AS, (4 << 30,) * 2)
try:
    wgcc_runtime.load(sys.argv[1], device=sys.argv[2], max_bytes=1 << 40)
except wgcc_runtime.WgccError as error:
    print(error)
"""


def test_out_of_memory(adapter: str, tmp_path: Path) -> None:
    plan = line_bundle.make_plan()
    count, size = 40, 1 << 28
    plan["buffers"] += [{"name": f"b{i}", "bytes": size, "role": "temp"} for i in range(count)]
    plan["memory"]["temps"] += count * size
    plan["memory"]["peak"] += count * size
    bundle = line_bundle.write_bundle(tmp_path / "bundle", **plan)
    paths = [str(ROOT / "tests" / "support"), str(ROOT / "runtime_py")]
    done = subprocess.run(
        [sys.executable, "-c", OUT_OF_MEMORY, str(bundle), adapter],
        env={**environment("lavapipe", "swiftshader"), "PYTHONPATH": ":".join(paths)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.startswith(
        "memory: the GPU does not have enough memory for a buffer of 268,435,456"
    )
    assert "smaller batch" in done.stdout
