"""Optimizers against their formulas written out in numpy, and against what PyTorch recorded."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from optimizer_cases import CASES, RECORDED, SHAPES, STEPS, Case, batch, initial
from read_ir import read_graphs
from wgcc.evaluate import Session
from wgcc.ir.graph import TensorType
from wgcc.ir.places import OptimizerState, optimizer_state
from wgcc.ir.program import Init, ModelTensor, Program
from wgcc.passes.pipeline import run_passes

TRAIN = """
entry train {{
  input %x: f32[4, 3]
  input %y: f32[4, 2]
  param %w: f32[3, 2]
  param %b: f32[2]
  state %opt/opt/step: u32
  %product = matmul(%x, %w)
  %bias = broadcast(%b; shape=(4, 2))
  %h = add(%product, %bias)
  %error = sub(%h, %y)
  %squares = square(%error)
  %total = sum(%squares; axes=(0, 1))
  %eight = const(value=8.0, dtype=f32)
  %loss = div(%total, %eight)
  %one = const(value=1, dtype=u32)
  %count = add(%opt/opt/step, %one)
  %step = cast(%count; dtype=f32)
  %base = const(value={rate}, dtype=f32)
  %power = pow(%base, %step)
  %peak = const(value={lr}, dtype=f32)
  %lr = mul(%peak, %power)
  %w.new, %b.new, %norm = minimize(%loss, %lr, %w, %b; optimizer=opt, {attrs})
  output loss = %loss
  output norm = %norm
  write w = %w.new
  write b = %b.new
}}
"""


def program(case: Case) -> Program:
    known = {name: value for name, value in case.settings.items() if name != "lr"}
    groups = (((1,), case.bias),) if case.bias else ()
    attrs = f"kind={case.kind}, settings={known}, dynamic=('lr',), groups={groups}"
    train = TRAIN
    if case.only_matrix:
        train = train.replace(", %b; opt", "; opt").replace(", %b.new, %", ", %")
        train = train.replace("  write b = %b.new\n", "")
    text = train.format(rate=case.decay_rate, lr=case.settings["lr"], attrs=attrs)
    return Program(
        "linear",
        params={
            name: ModelTensor(name, TensorType(shape), Init("normal"), trainable=True)
            for name, shape in SHAPES.items()
        },
        state={"opt/opt/step": ModelTensor("opt/opt/step", TensorType((), "u32"), Init("zeros"))},
        entries=read_graphs(text),
    )


def train(case: Case, stage: str) -> tuple[Session, list[float], list[float]]:
    session = Session(run_passes(program(case), until=stage, check=True), initial())
    losses, norms = [], []
    for step in range(STEPS):
        x, y = batch(step)
        found = session.call("train", {"x": x, "y": y})
        losses.append(float(found["loss"]))
        norms.append(float(found["norm"]))
    return session, losses, norms


class Formulas:
    """The formulas as their authors write them, in float64, one parameter at a time."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.set: dict[str, Any] = {
            "betas": (0.9, 0.99) if case.kind == "lion" else (0.9, 0.999),
            "eps": 1e-8,
            "weight_decay": 0.01 if case.kind == "adamw" else 0.0,
            "momentum": 0.0,
            **case.settings,
        }
        self.params = initial()
        self.averages = initial()
        self.first = {name: np.zeros(shape) for name, shape in SHAPES.items()}
        self.second = {name: np.zeros(shape) for name, shape in SHAPES.items()}
        self.sums = {name: np.zeros(shape) for name, shape in SHAPES.items()}
        self.step = self.calls = 0
        self.losses: list[float] = []
        self.norms: list[float] = []

    @staticmethod
    def knows(case: Case) -> bool:
        others = {"dampening", "amsgrad", "maximize", "clip_param_norm"}
        return case.kind in ("sgd", "adam", "adamw", "lion") and others.isdisjoint(case.settings)

    def call(self, x: np.ndarray, y: np.ndarray) -> None:
        error = x @ self.params["w"] + self.params["b"] - y
        self.losses.append(float(np.mean(error**2)))
        self.calls += 1
        every = self.set.get("accumulate", 1)
        self.sums["w"] = self.sums["w"] + x.T @ (2 * error / error.size) / every
        self.sums["b"] = self.sums["b"] + (2 * error / error.size).sum(0) / every
        self.norms.append(float(np.sqrt(sum((g**2).sum() for g in self.sums.values()))))
        if self.calls % every == 0:
            self.step += 1
            for name, g in self.sums.items():
                self.update(name, self.clipped(g))
            self.sums = {name: np.zeros(shape) for name, shape in SHAPES.items()}

    def clipped(self, g: np.ndarray) -> np.ndarray:
        if "clip_norm" in self.set:
            g = g * min(1.0, self.set["clip_norm"] / (self.norms[-1] + 1e-6))
        limit = self.set.get("clip_value", np.inf)
        return np.clip(g, -limit, limit)

    def update(self, name: str, g: np.ndarray) -> None:
        own = self.case.bias if name == "b" else {}
        lr = self.set["lr"] * self.case.decay_rate**self.step * own.get("lr_scale", 1.0)
        decay = own.get("weight_decay", self.set["weight_decay"])
        if self.case.kind in ("adamw", "lion"):
            self.params[name] = self.params[name] * (1 - lr * decay)
        else:
            g = g + decay * self.params[name]
        kind = {"sgd": self.sgd, "lion": self.lion}.get(self.case.kind, self.adam)
        self.params[name] = self.params[name] - lr * kind(name, g)
        kept = self.set.get("ema", 0.0)
        self.averages[name] = kept * self.averages[name] + (1 - kept) * self.params[name]

    def sgd(self, name: str, g: np.ndarray) -> np.ndarray:
        momentum = self.set["momentum"]
        buffer = self.first[name] = momentum * self.first[name] + g if self.step > 1 else g
        if not momentum:
            return g
        return g + momentum * buffer if self.set.get("nesterov") else buffer

    def adam(self, name: str, g: np.ndarray) -> np.ndarray:
        beta1, beta2 = self.set["betas"]
        self.first[name] = beta1 * self.first[name] + (1 - beta1) * g
        self.second[name] = beta2 * self.second[name] + (1 - beta2) * g * g
        mean = self.first[name] / (1 - beta1**self.step)
        spread = self.second[name] / (1 - beta2**self.step)
        return mean / (np.sqrt(spread) + self.set["eps"])

    def lion(self, name: str, g: np.ndarray) -> np.ndarray:
        beta1, beta2 = self.set["betas"]
        direction = np.sign(beta1 * self.first[name] + (1 - beta1) * g)
        self.first[name] = beta2 * self.first[name] + (1 - beta2) * g
        return direction


@pytest.mark.parametrize("stage", ["opt", "simplified"])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if Formulas.knows(case)])
def test_formulas(name: str, stage: str) -> None:
    session, losses, norms = train(CASES[name], stage)
    expected = Formulas(CASES[name])
    for step in range(STEPS):
        expected.call(*batch(step))
    # Settings are f32 numbers in a graph, so the seventh digit differs.
    np.testing.assert_allclose(losses, expected.losses, rtol=1e-6)
    np.testing.assert_allclose(norms, expected.norms, rtol=1e-6)
    for param in SHAPES:
        np.testing.assert_allclose(session.params[param], expected.params[param], atol=1e-6)
        if "ema" in CASES[name].settings:
            average = session.state[f"opt/opt/ema/{param}"]
            np.testing.assert_allclose(average, expected.averages[param], atol=1e-6)
    assert session.state["opt/opt/step"] == expected.step


@pytest.mark.parametrize("name", json.loads(RECORDED.read_text(encoding="utf-8")))
def test_pytorch(name: str) -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))[name]
    session, losses, norms = train(CASES[name], "simplified")
    every = CASES[name].settings.get("accumulate", 1)
    np.testing.assert_allclose(losses, recorded["losses"], rtol=1e-6)
    np.testing.assert_allclose(norms[every - 1 :: every], recorded["norms"], rtol=1e-6)
    for param, shape in SHAPES.items():
        expected = np.reshape(recorded[param], shape)
        np.testing.assert_allclose(session.params[param], expected, atol=1e-6)
        if "ema" in recorded and f"opt/opt/ema/{param}" in session.state:
            average = session.state[f"opt/opt/ema/{param}"]
            np.testing.assert_allclose(
                average, np.reshape(recorded["ema"][param], shape), atol=1e-6
            )


@pytest.mark.parametrize(
    "name, state",
    [
        ("opt/adam/step", OptimizerState("adam", "step")),
        ("opt/adam/exp_avg/l1.w", OptimizerState("adam", "exp_avg", "l1.w")),
    ],
)
def test_names_of_state_say_what_it_is(name: str, state: OptimizerState) -> None:
    assert state.name == name
    assert optimizer_state(name) == state


@pytest.mark.parametrize("name", ["opt", "opt/x", "opt.step", "rng/seed", "l1.w"])
def test_other_names_belong_to_no_optimizer(name: str) -> None:
    assert optimizer_state(name) is None
