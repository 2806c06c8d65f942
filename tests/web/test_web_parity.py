"""The same bundle, weights and batches on every stack: Python, Node, Deno and Chromium agree.

Python and Deno run wgpu (naga) on lavapipe, Node and Chromium run Dawn (Tint) on SwiftShader: the
same bits within each pair. On SwiftShader, Tint and naga give the same bits, in these models here
and in all examples by `python tests/reliability compilers`; between the two drivers losses
differ in their last bits, because each has its own exp, log and so on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from adapters import ROOT
from web_stacks import as_lists, build_web, from_base64, run_job, to_base64
from wgcc_runtime.checkpoint import save_checkpoint

STEPS = 12
# Losses of a few steps on different adapters, relative to 1 + |loss|.
TOLERANCE = 1e-5
STACKS = ("node", "deno", "chrome")

Batch = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("parity")
    golden = ROOT / "tests" / "golden"
    names = ("regression", "tokens")
    return {name: build_web(golden / f"{name}.wg", folder / name) for name in names}


def batches(name: str, count: int = STEPS) -> list[Batch]:
    draw = np.random.default_rng(5)
    if name == "tokens":
        ids = draw.integers(0, 7, (2, 5)).astype(np.int32)
        return [{"ids": ids, "labels": (ids + 1) % 7} for _ in range(count)]
    found = []
    for _ in range(count):
        x = draw.uniform(-1, 1, (6, 3)).astype(np.float32)
        found.append({"x": x, "y": np.sin(x.sum(axis=1, keepdims=True))})
    return found


def in_python(bundle: Path, data: list[Batch], device: str) -> list[float]:
    with wgcc_runtime.load(bundle, device=device) as model:
        return [float(model.train(**batch)["loss"]) for batch in data]


def different_bits(left: list[float], right: list[float]) -> int:
    pairs = (np.asarray(side, np.float32).view(np.int32).astype(np.int64) for side in (left, right))
    a, b = pairs
    return int(np.abs(a - b).max())


@pytest.mark.parametrize("name", ["regression", "tokens"])
def test_losses_agree(bundles: dict[str, Path], name: str) -> None:
    data = batches(name)
    lists = [as_lists(batch) for batch in data]
    found = {
        stack: run_job(stack, bundles[name], "training", {"batches": lists})["losses"]
        for stack in STACKS
    }
    found |= {
        device: in_python(bundles[name], data, device) for device in ("llvmpipe", "swiftshader")
    }
    for stack, losses in found.items():
        gap = np.abs(np.subtract(losses, found["llvmpipe"])) / (1 + np.abs(losses))
        assert gap.max() <= TOLERANCE, (stack, gap)
    assert different_bits(found["deno"], found["llvmpipe"]) == 0
    assert different_bits(found["node"], found["chrome"]) == 0
    assert different_bits(found["node"], found["swiftshader"]) == 0
    assert losses[-1] < losses[0]


def test_several_steps_per_submit(bundles: dict[str, Path]) -> None:
    lists = [as_lists(batch) for batch in batches("regression")]
    one = run_job("node", bundles["regression"], "training", {"batches": lists, "profile": "gpu"})
    many = run_job("node", bundles["regression"], "training", {"batches": lists, "together": True})
    assert one["losses"] == many["losses"]
    assert one["adapter"]["profile"] == many["adapter"]["profile"] == "gpu"


def test_shuffled_arrays_give_the_same_batches(bundles: dict[str, Path]) -> None:
    draw = np.random.default_rng(1)
    x = draw.uniform(-1, 1, (45, 3)).astype(np.float32)
    data = {"x": x, "y": x[:, :1] ** 2}
    options = {"steps": 20, "every": 1, "seed": 9}
    answer = run_job(
        "deno", bundles["regression"], "training", {"data": as_lists(data), "options": options}
    )
    with wgcc_runtime.load(bundles["regression"], device="llvmpipe") as model:
        history = model.fit(data, **options)
    assert answer["losses"] == [report.loss for report in history.reports]


WEIGHTED = """
model M {
  param w: f32[3] = 1.0
  optimizer opt: sgd { lr = 0.1 }
  entry train(x: f32[4, 3], weights: f32[12], marks: i8[4, 5]) -> (loss: f32) {
    loss = mean(square(x * w) * reshape(weights, [4, 3])) + 0.01 * mean(f32(marks) * w[0])
    minimize loss with opt
    return loss
  }
}
"""


def test_memory_of_batches_is_used_again_but_not_that_of_constants(tmp_path: Path) -> None:
    """Batches and an input that is the same in every step have as many words; rows of bytes do not
    end with a word."""
    (tmp_path / "m.wg").write_text(WEIGHTED)
    bundle = build_web(tmp_path / "m.wg", tmp_path / "bundle")
    draw = np.random.default_rng(1)
    data = {"x": draw.uniform(-1, 1, (45, 3)), "weights": draw.uniform(1, 2, 12)}
    data = {name: array.astype(np.float32) for name, array in data.items()}
    data["marks"] = draw.integers(-128, 128, (45, 5)).astype(np.int8)
    options = {"steps": 160, "every": 16, "seed": 9}  # several steps per submit
    arguments = {"data": as_lists(data), "options": options, "device": "wasm"}
    losses = run_job("node", bundle, "training", arguments)["losses"]
    with wgcc_runtime.load(bundle, device="wasm") as model:
        history = model.fit(data, **options)
    assert losses == [report.loss for report in history.reports]


@pytest.mark.parametrize("stack", ["deno", "chrome"])
def test_checkpoints_travel(bundles: dict[str, Path], tmp_path: Path, stack: str) -> None:
    """Half in Python, half in JavaScript, and vice versa: one curve, one file."""
    bundle, data = bundles["tokens"], batches("tokens")
    lists = [as_lists(batch) for batch in data]
    half = STEPS // 2
    device = {"deno": "llvmpipe", "chrome": "swiftshader"}[stack]
    whole = in_python(bundle, data, device)
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    with wgcc_runtime.load(bundle, device=device) as model:
        begun = [float(model.train(**batch)["loss"]) for batch in data[:half]]
        # As of workers that exchange rarely, whose momentum is no tensor of the model.
        values, momentum = {**model.params(), **model.state()}, np.ones(3, np.float32)
        save_checkpoint(first, model.plan, values, model.progress, velocity=momentum)
    arguments = {"batches": lists[half:], "checkpoint": to_base64(first.read_bytes())}
    there = run_job(stack, bundle, "training", arguments)
    assert there["progress"]["steps"] == {"train": STEPS}
    back = run_job(stack, bundle, "training", {"batches": lists[:half]})
    second.write_bytes(from_base64(back["checkpoint"]))
    with wgcc_runtime.load(bundle, device=device) as model:
        model.load(second)
        assert model.progress.steps == {"train": half}
        rest = [float(model.train(**batch)["loss"]) for batch in data[half:]]
    for losses in (begun + there["losses"], back["losses"] + rest):
        np.testing.assert_allclose(losses, whole, rtol=TOLERANCE)
        assert stack != "deno" or losses == whole


def test_checkpoint_is_the_same_file(bundles: dict[str, Path], tmp_path: Path) -> None:
    """To the byte, if the values are the same to the bit."""
    bundle, data = bundles["tokens"], batches("tokens", 3)
    answer = run_job("deno", bundle, "training", {"batches": [as_lists(b) for b in data]})
    with wgcc_runtime.load(bundle, device="llvmpipe") as model:
        for batch in data:
            model.train(**batch)
        model.save(tmp_path / "python.safetensors")
    assert from_base64(answer["checkpoint"]) == (tmp_path / "python.safetensors").read_bytes()


@pytest.mark.parametrize("name", ["regression", "tokens", "mixed"])
def test_twins_give_the_same_bits_in_every_engine(name: str, tmp_path: Path) -> None:
    """V8 in three programs, Firefox and wasmtime, on one thread and on several."""
    folder = ROOT / "tests" / ("web" if name == "mixed" else "golden")
    bundle = build_web(folder / f"{name}.wg", tmp_path / name)
    data = mixed_batches() if name == "mixed" else batches(name)
    arguments = {"batches": [as_lists(batch) for batch in data], "device": "wasm"}
    found = {}
    with wgcc_runtime.load(bundle, device="wasm", threads=1) as model:
        for batch in data:
            model.train(**batch)
        model.save(tmp_path / "python.safetensors")
    wanted = (tmp_path / "python.safetensors").read_bytes()
    runs = [("node", 1), ("node", 3)]
    if name == "mixed":
        runs += [("deno", 2), ("chrome", 2), ("firefox", 2)]
    for stack, threads in runs:
        answer = run_job(stack, bundle, "training", {**arguments, "threads": threads})
        assert answer["adapter"]["threads"] == threads
        found[stack, threads] = from_base64(answer["checkpoint"])
    assert [run for run, checkpoint in found.items() if checkpoint != wanted] == []


def mixed_batches() -> list[Batch]:
    draw = np.random.default_rng(2)
    return [
        {
            "ids": draw.integers(0, 11, (2, 8)).astype(np.int32),
            "noise": draw.normal(0, 3, (8, 16)).astype(np.float32),
            "keep": draw.integers(0, 2, 8).astype(bool),
        }
        for _ in range(4)
    ]


def test_constants_and_every_element_type(tmp_path: Path) -> None:
    """Tables folded at compile time, dropout, and a checkpoint with f16, i8, u8 and bool."""
    bundle = build_web(ROOT / "tests" / "web" / "mixed.wg", tmp_path / "mixed")
    assert (bundle / "constants.safetensors").exists()
    data = mixed_batches()
    answer = run_job("deno", bundle, "training", {"batches": [as_lists(b) for b in data]})
    tint = run_job("node", bundle, "training", {"batches": [as_lists(b) for b in data]})
    with wgcc_runtime.load(bundle, device="llvmpipe") as model:
        losses = [float(model.train(**batch)["loss"]) for batch in data]
        model.save(tmp_path / "python.safetensors")
    assert answer["losses"] == losses
    assert from_base64(answer["checkpoint"]) == (tmp_path / "python.safetensors").read_bytes()
    np.testing.assert_allclose(tint["losses"], losses, rtol=TOLERANCE)
    again = run_job("deno", bundle, "training", {"batches": [], "checkpoint": answer["checkpoint"]})
    assert again["checkpoint"] == answer["checkpoint"]


def test_other_entries_agree(tmp_path: Path) -> None:
    """State, random numbers, booleans and integers."""
    bundle = build_web(ROOT / "tests" / "golden" / "memory.wg", tmp_path / "memory")
    found = {stack: run_job(stack, bundle, "memory") for stack in ("deno", "node")}
    with wgcc_runtime.load(bundle, device="llvmpipe", seed=3) as model:
        model.push(row=[1.0, 2.0, 3.0])
        wanted: dict[str, Any] = model.push(row=[4.0, 5.0, 6.0])
        keep = np.array([1, 1, 0, 1, 0, 1], bool)
        wanted |= model.look(keep=keep)
    for answer in found.values():
        assert answer.keys() == wanted.keys()
        for name, array in wanted.items():
            np.testing.assert_allclose(answer[name], array.ravel(), rtol=1e-5, atol=1e-6)
