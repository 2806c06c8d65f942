"""Entries that train by `grad` and `:=`, without an optimizer, behave like those that minimize."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from adapters import ROOT
from cli_runs import run
from elaborated import problems, program
from line_training import assert_same, everything, refused
from web_stacks import as_lists, build_web, run_job
from wgcc.ir.program import Program
from wgcc_runtime import Model, run_selftest

CASE = ROOT / "tests" / "cases" / "training_by_hand.wg"
BATCH = 32


def trains(found: Program) -> dict[str, bool]:
    """Which entries train according to the plan; tracing must agree with it."""
    for entry in found.entries.values():
        draws = any(node.op == "random" for node in entry.nodes)
        assert draws == entry.entry.trains, f"dropout of {entry.name}"
    return {name: entry.entry.trains for name, entry in found.entries.items()}


def test_who_trains() -> None:
    found = program(CASE.read_text(encoding="utf-8"))
    assert trains(found) == {"train": True, "slope": False, "halve": False}
    statistics = {"norm.run_mean", "norm.run_var"}
    for name, entry in found.entries.items():
        assert (statistics <= entry.writes.keys()) == (name == "train")


MODEL = """
const taken = {taken}
layer Step {{
  param w: f32[4] ~ normal(0.0, 1.0)
  fn loss(x: f32[4]) -> f32 = sum(dropout(w * x, 0.5))
  fn update(g: f32[4]) {{ w := w - 0.1 * g }}
  fn learn(x: f32[4]) -> f32 {{
    value = loss(x)
    update(grad(value, w))
    return value
  }}
}}
model M {{
  part: Step
  state kept: f32[4] = 0.0
  optimizer opt: sgd {{ lr = 0.1 }}
  entry run(x: f32[4]) -> (loss: f32) {{
    {body}
  }}
}}
"""

# Whether an entry with this body trains.
BODIES = {
    "return part.learn(x)": True,
    "loss = part.loss(x); minimize loss with opt; return loss": True,
    "loss = part.loss(x); if training { part.w := part.w - grad(loss, part.w) }; return loss": True,
    "v = part.loss(x); g = grad(v, part.w); part.w := where(g > 0.0, x, part.w); return v": True,
    "loss = part.loss(x); if taken { minimize loss with opt }; return loss": False,
    "loss = part.loss(x); kept := grad(loss, x); return loss": False,
    "loss = part.loss(x); g = grad(loss, x); part.w := x; return loss + sum(g)": False,
    "return part.loss(x)": False,
}


@pytest.mark.parametrize("body", BODIES)
def test_what_is_training(body: str) -> None:
    found = program(MODEL.format(taken="false", body=body))
    assert trains(found) == {"run": BODIES[body]}


def test_a_minimize_that_is_taken_trains() -> None:
    body = "loss = part.loss(x); if taken { minimize loss with opt }; return loss"
    assert trains(program(MODEL.format(taken="true", body=body))) == {"run": True}


def test_tracing_again_reports_nothing_twice_and_nothing_of_the_first_time() -> None:
    unused = "if not training { y = x[:, new] + x }"
    body = f"{unused}; loss = part.learn(x); return loss + nothing"
    assert problems(MODEL.format(taken="false", body=body)) == ["WG0201 18 unknown name `nothing`"]
    warned = "assert shape(x) == [4]; return part.learn(x)"
    text = MODEL.format(taken="false", body=warned).replace("model M", "dim P = 4, Q = 4\nmodel M")
    lucky = text.replace("x: f32[4]) -> (loss", "x: f32[P], z: f32[Q]) -> (loss")
    lucky = lucky.replace("assert shape(x) == [4]", "_ = x + z")
    # No entry trains with the optimizer.
    assert [found.split()[0] for found in problems(lucky)] == ["WG0907", "WG0410"]


def data(rows: int = 256) -> dict[str, Any]:
    x = np.random.default_rng(0).uniform(-1, 1, (rows, 3)).astype(np.float32)
    return {"x": x, "y": np.sin(x.sum(axis=1, keepdims=True))}


def batch(lr: float = 0.1) -> dict[str, Any]:
    return {name: array[:BATCH] for name, array in data().items()} | {"lr": np.float32(lr)}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_web(CASE, tmp_path_factory.mktemp("by_hand") / "bundle")


@pytest.fixture(scope="module")
def shared(bundle: Path, target: str) -> Iterator[Model]:
    with wgcc_runtime.load(bundle, device=target) as found:
        yield found


@pytest.fixture
def model(shared: Model) -> Model:
    shared.reset()
    return shared


def steps(count: int) -> list[dict[str, Any]]:
    return [batch() for _ in range(count)]


def test_fit_takes_it(model: Model) -> None:
    first = model.train(**batch())
    model.reset()
    history = model.fit(steps(60), steps=60, every=20)
    assert history.losses[-1] < 0.2 < float(first["loss"])
    assert history.reports[0].loss == history.reports[0].outputs["loss"]
    assert model.progress.steps == {"train": 60}
    with refused("name", "`slope` does not train"):
        model.fit(steps(1), steps=1, entry="slope")


def test_a_nan_is_reported_and_undone(model: Model) -> None:
    model.fit(steps(2), steps=2)
    before = everything(model)
    with refused("nan", "train, step 3"):
        model.train(**batch(lr=3e38) | {"y": np.full((BATCH, 1), 1e10, np.float32)})
    assert_same(everything(model), before)
    assert model.progress.steps == {"train": 2}


def test_it_resumes_to_the_bit(model: Model, tmp_path: Path) -> None:
    model.fit(steps(6), steps=6)
    whole = everything(model)
    model.reset()
    model.fit(steps(3), steps=3)
    model.save(tmp_path / "half.safetensors")
    model.reset()
    model.load(tmp_path / "half.safetensors")
    assert model.progress.steps == {"train": 3}
    model.fit(steps(3), steps=3)
    assert_same(everything(model), whole)


def test_the_self_test_makes_steps(model: Model) -> None:
    test = model.plan.selftest["entries"]["train"]
    assert test["steps"] == 3
    assert "fc.w" in test["changes"]["tensors"]
    assert all(result.passed for result in run_selftest(model))


def test_javascript_trains_the_same(bundle: Path) -> None:
    lists = [as_lists(one) for one in steps(5)]
    answer = run_job("node", bundle, "training", {"batches": lists, "together": True})
    with wgcc_runtime.load(bundle, device="swiftshader") as model:
        expected = model.fit(steps(5), steps=5, every=1).losses
    np.testing.assert_allclose(answer["losses"], expected, rtol=1e-5)
    assert answer["progress"]["steps"] == {"train": 5}


def test_show_says_that_it_trains(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "show", str(bundle))[1].splitlines()
    after = {line.split("(")[0].strip(): lines[i + 1] for i, line in enumerate(lines[:-1])}
    assert after["train"].endswith("trains by gradients of its own")
    assert "trains" not in after["slope"]
