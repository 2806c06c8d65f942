"""Every kind of optimizer on GPUs and on the twin: schedules, groups, accumulation, clipping."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import wgcc_runtime
from building import build
from elaborated import program
from tint_compiler import compile_all
from wgcc.evaluate import Session
from wgcc.ops.optimizers import OPTIMIZERS
from wgcc.passes.pipeline import run_passes
from wgcc_runtime import WgccError

KINDS = {
    "muon": "lr = 0.05; accumulate = 2",
    "adafactor": "lr = 0.1; clip_param_norm = 0.5; accumulate = 2; weight_decay = 0.1",
    "radam": "lr = 0.01 / step; accumulate = 2; ema = 0.9; group if axes < 2 { weight_decay = 0.1}",
    "nadam": "lr = 0.01; clip_value = 0.5; accumulate = 2; decoupled_weight_decay = true",
    "adadelta": "lr = 1.0; clip_norm = 0.5",
    "adagrad": "lr = 0.01; initial_accumulator_value = 0.1; lr_decay = 0.1",
    "rmsprop": "lr = 0.01; centered = true; momentum = 0.9; maximize = true",
    "sgd": "lr = 0.01; momentum = 0.9; dampening = 0.1; clip_param_norm = 0.1; accumulate = 2",
    "adamw": "lr = 0.01; amsgrad = true",
    "adam": "lr = 0.01",
    "lion": "lr = 0.01; maximize = true",
}
STEPS = 6


def text() -> str:
    lines = ["dim B = 4", "model M {", "  fc1: Linear[3, 8]", "  fc2: Linear[8, 3]"]
    lines.append("  fn loss(x: f32[B, 3], y: f32[B, 3]) -> f32 = mse(x |> fc1 |> tanh |> fc2, y)")
    for kind, settings in KINDS.items():
        over = ' over "*.w"' if kind == "muon" else ""
        lines += [
            f"  optimizer opt_{kind}: {kind} {{ {settings} }}",
            f"  entry by_{kind}(x: f32[B, 3], y: f32[B, 3]) -> (value: f32, norm: f32) {{",
            f"    value = loss(x, y); minimize value with opt_{kind}{over}",
            f"    return value, opt_{kind}.grad_norm",
            "  }",
        ]
    # The usual pair: matrices by one optimizer, the rest by another.
    lines += [
        "  entry by_two(x: f32[B, 3], y: f32[B, 3]) -> (value: f32) {",
        '    value = loss(x, y); minimize value with opt_muon over "*.w"',
        '    minimize value with opt_adamw over "*.b"; return value',
        "  }",
        "}",
    ]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kinds")
    (folder / "model.wg").write_text(text(), encoding="utf-8")
    return build(folder / "model.wg", folder / "bundle")


def test_every_kind_is_tried() -> None:
    assert KINDS.keys() == OPTIMIZERS.keys()


def test_kinds_agree_with_the_reference(bundle: Path, target: str) -> None:
    rng = np.random.default_rng(2)
    batch = {
        "x": rng.normal(size=(4, 3)).astype(np.float32),
        "y": rng.normal(size=(4, 3)).astype(np.float32),
    }
    done = run_passes(program(text()))
    with wgcc_runtime.load(bundle, device=target) as model:
        session = Session(done, model.params(), model.state())
        for entry in done.entries:
            for _ in range(STEPS):
                found, expected = model.call(entry, **batch), session.call(entry, batch)
                for name, number in expected.items():
                    np.testing.assert_allclose(found[name], number, rtol=3e-4, err_msg=entry)
            arrays = {**session.params, **session.state}
            for name, array in {**model.params(), **model.state()}.items():
                expected = arrays[name]
                np.testing.assert_allclose(
                    array, expected, rtol=1e-4, atol=2e-4, err_msg=f"{entry}: {name}"
                )


def test_a_step_that_gives_nan_is_undone(bundle: Path, target: str) -> None:
    bad = {"x": np.full((4, 3), np.nan, np.float32), "y": np.zeros((4, 3), np.float32)}
    with wgcc_runtime.load(bundle, device=target) as model:
        before = {**model.params(), **model.state()}
        for entry in ("by_muon", "by_adafactor", "by_nadam", "by_adagrad"):
            for _ in range(2):
                with pytest.raises(WgccError):
                    model.call(entry, **bad)
        after = {**model.params(), **model.state()}
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array, err_msg=name)


def test_names_of_state_are_those_of_pytorch() -> None:
    named = run_passes(program(text())).state
    kinds: dict[str, set[str]] = {}
    for name in named:
        if name.startswith("opt/"):
            _, optimizer, what, *_ = name.split("/")
            kinds.setdefault(optimizer.removeprefix("opt_"), set()).add(what)
    own = {"step", "micro", "acc", "ema"}
    assert {kind: found - own for kind, found in kinds.items()} == {
        "muon": {"momentum_buffer"},
        "adafactor": {"row_var", "col_var", "variance"},
        "radam": {"exp_avg", "exp_avg_sq"},
        "nadam": {"exp_avg", "exp_avg_sq", "mu_product"},
        "adadelta": {"square_avg", "acc_delta"},
        "adagrad": {"sum"},
        "rmsprop": {"square_avg", "grad_avg", "momentum_buffer"},
        "sgd": {"momentum"},
        "adamw": {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
        "adam": {"exp_avg", "exp_avg_sq"},
        "lion": {"exp_avg"},
    }


def test_tint_accepts_every_kernel(bundle: Path) -> None:
    kernels = sorted(bundle.rglob("*.wgsl"))
    assert len(kernels) > len(KINDS)
    assert {path: found for path, found in compile_all(kernels).items() if found} == {}


STACKED = """
model M {
  a: Linear[3, 4]
  b[3]: Linear[4, 4](bias = false)
  c: Linear[4, 3]
  optimizer mu: muon { lr = 0.1 }
  optimizer mu_a: muon { lr = 0.1 }
  optimizer mu_c: muon { lr = 0.1 }
  optimizer mu_0: muon { lr = 0.1 }
  optimizer mu_1: muon { lr = 0.1 }
  optimizer mu_2: muon { lr = 0.1 }
  fn loss(x: f32[5, 3]) -> f32 {
    h = tanh(a(x))
    for f in b { h = tanh(f(h)) }
    return mean(square(c(h) - 1.0))
  }
  entry together(x: f32[5, 3]) -> (l: f32) {
    l = loss(x)
    minimize l with mu over "*.w"
    return l
  }
  entry one_by_one(x: f32[5, 3]) -> (l: f32) {
    l = loss(x)
    minimize l with mu_a over "a.w"
    minimize l with mu_c over "c.w"
    minimize l with mu_0 over "b.0.w"
    minimize l with mu_1 over "b.1.w"
    minimize l with mu_2 over "b.2.w"
    return l
  }
}
"""


def test_matrices_of_one_shape_are_updated_together_as_if_alone() -> None:
    done, rng = run_passes(program(STACKED)), np.random.default_rng(8)
    start = {t.name: rng.normal(size=t.type.shape) for t in done.params.values()}
    sessions = {entry: Session(done, start) for entry in done.entries}
    x = rng.normal(size=(5, 3))
    for _ in range(3):
        losses = [session.call(entry, {"x": x})["l"] for entry, session in sessions.items()]
        np.testing.assert_allclose(losses[0], losses[1])
    for name, array in sessions["together"].params.items():
        np.testing.assert_allclose(array, sessions["one_by_one"].params[name], err_msg=name)
    products = [node for node in done.entries["together"].nodes if node.op == "matmul"]
    stacked = {node.output.shape for node in products if len(node.output.shape) == 3}
    assert stacked == {(2, 3, 3), (2, 3, 4), (3, 4, 4)}
