"""Constants that give infinity or NaN: WGSL refuses such constant expressions, so the compiler
computes them, and kernels give the results of numpy."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from elaborated import problems
from tint_compiler import compile_all
from wgcc.compiler import Compiled, compile_program, read_program
from wgcc.evaluate import Session
from wgcc.passes.pipeline import run_passes
from wgcc_runtime.selftest import run_selftest

X = np.array([-2.0, 0.0, 1.0, 2.5, 3.0], np.float32)
# `O` and `Z` stand for tensors of ones and zeros, `x` is the input, `w` a parameter.
EXPRESSIONS = {
    "log_zero": "log(Z)",
    "log_negative": "log(Z - 1.0)",
    "one_by_zero": "1.0 / Z",
    "three_by_zero": "(-3.0 * O) / Z",
    "zero_by_zero": "Z / Z",
    "exp": "exp(O * 1000.0)",
    "expm1": "expm1(O * 1000.0)",
    "sqrt": "sqrt(Z - 1.0)",
    "rsqrt": "rsqrt(Z)",
    "rsqrt_negative": "rsqrt(Z - 2.0)",
    "sum_of_two": "(O * 3e38) + (O * 2e38)",
    "difference": "(O * -3e38) - (O * 2e38)",
    "product": "(O * 3e38) * (O * 2e8)",
    "square": "square(O * 1e30)",
    "largest": "(O * 3.4028234e38) + 1e30",
    "power": "(O * 1e30) ** (O * 2.5)",
    "whole_power": "(O * 1e30) ** 3.0",
    "zero_power": "Z ** -1.0",
    "root_of_negative": "(Z - 2.0) ** (O * 0.5)",
    "log1p": "log1p(Z - 1.0)",
    "remainder": "O % Z",
    "of_minus_infinity": "exp(log(Z)) + softplus(log(Z)) + sigmoid(log(Z)) + relu(log(Z)) + x",
    "of_infinity": "tanh(1.0 / Z) + erf(1.0 / Z) + sign(log(Z)) + x",
    "sin": "sin(1.0 / Z)",
    "powers_of_infinity": "(x * x + 2.0) ** (1.0 / Z)",
    "sum": "sum(ones(f32[3000]) * 3e38) * x",
    "long_sum": "sum(ones(f32[2000, 1000]) * 3e38) * x",
    "prod": "prod(ones(f32[300]) * 1e3) * x",
    "largest_of": "max(log(Z)) + x",
    "matrices": "(ones(f32[5, 300]) * 3e38) @ (ones(f32[300, 5]) * 2e7) @ x",
    "product_of_inputs": "(ones(f32[5, 5]) * 3e38) @ (x * 2e7 + 1e20)",
    "added": "x + log(Z)",
    "mask": "softmax(where(arange(5) > 2, -1.0 / Z, x))",
    "log_of_mask": "softmax(x + log(f32(arange(5) <= 2)))",
    "mask_and_log": "log_softmax(where(x > 2.0, log(Z), x))",
    "maximum": "maximum(x, log(Z)) + minimum(x, 1.0 / Z)",
    "clamp": "clamp(log(Z), -1.0, 1.0) + x",
    "compared": "f32(log(Z) < -1e38) + f32(1.0 / Z == 1.0 / Z) + f32(Z / Z == Z / Z) + x",
    "truth_of_nan": "f32(bool(Z / Z)) + x",
    "by_position": "1.0 / f32(arange(5))",
    "log_by_position": "log(f32(arange(5)))",
    "exp_by_position": "exp(f32(arange(5)) * 100.0)",
    "cumulated": "cumsum(log(Z), axis = 0)",
    "looked_up": "1.0 / gather(zeros(f32[6, 5]), argmax(x))",
    "window": "exp((ones(f32[9]) * 1000.0)[argmax(x) +: 5])",
    "joined": "1.0 / concat([zeros(f32[2]), zeros(f32[3])], axis = 0)",
    "scalar": "x * log(zeros(f32))",
    "divided": "x / Z",
    "divided_by_minus_zero": "x / -Z",
    "divided_by_number": "x / 0.0",
    "remainder_of_input": "x % Z",
    "whole_quotient": "f32(i32(x) / i32(Z))",
    "whole_infinity": "f32(i32(1.0 / Z)) + f32(u32(log(Z))) + x",
    "whole_input": "f32(i32(x * 1e20))",
    "natural_input": "f32(u32(x * 1e20))",
    "byte_input": "f32(u8(x * 200.0))",
    "half": "f32(f16(O * 1e6)) + x",
    "half_sum": "f32(f16(O * 6e4) + f16(O * 6e4)) + x",
    "half_product": "f32(f16(x) * f16(6e4))",
    "half_quotient": "f32(f16(x) / f16(Z))",
    "half_log": "f32(f16(log(x)))",
    "half_root": "f32(sqrt(f16(x)))",
    "slope": "grad(sum(scaled(x * w, Z)), w)",
}
MODEL = """
layer Scaled {{
  fn forward(x: f32[5], z: f32[5]) -> f32[5] = exp(x / (z * 2.0 + 1.0)) * (1.0 / z)
}}

model M {{
  param w: f32[5] = 1.0
  remat scaled: Scaled
{entries}
}}
"""


def model_text() -> str:
    lines = [
        f"  entry {name}(x: f32[5]) -> (y: f32[5]) = {text}" for name, text in EXPRESSIONS.items()
    ]
    filled = "\n".join(lines).replace("Z", "zeros(f32[5])").replace("O", "ones(f32[5])")
    return MODEL.format(entries=filled)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Compiled, Session, Path]:
    folder = tmp_path_factory.mktemp("not_finite")
    (folder / "model.wg").write_text(model_text(), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        source, traced, diagnostics = read_program(folder / "model.wg")
        found = compile_program(source, traced, diagnostics)
        found.write(folder / "bundle")
    session = Session(run_passes(traced, until="opt"), {}, dtype="f32")
    return found, session, folder / "bundle"


def test_tint_accepts_the_kernels(compiled: tuple[Compiled, Session, Path]) -> None:
    refused = {p: t for p, t in compile_all((compiled[2] / "kernels").iterdir()).items() if t}
    assert not refused


def test_kernels_give_what_numpy_gives(
    compiled: tuple[Compiled, Session, Path], device: Any
) -> None:
    _, session, bundle = compiled
    with wgcc_runtime.load(bundle, device=device) as model:
        model.check_finite = False
        for name in EXPRESSIONS:
            wanted = session.call(name, {"x": X})["y"]
            got = model.call(name, x=X)["y"]
            np.testing.assert_allclose(got, wanted, 1e-5, err_msg=name)


def test_the_self_test_passes(compiled: tuple[Compiled, Session, Path], device: Any) -> None:
    """It leaves out what f32 cannot hold."""
    with wgcc_runtime.load(compiled[2], device=device) as model:
        model.check_finite = False
        assert [str(result) for result in run_selftest(model) if not result.passed] == []


OPTIMIZER = "optimizer o: adamw {{ lr = 0.1\n {} }}"
REFUSED = [
    ("x * inf", "", "WG0504"),
    ("where(x > 0.0, x, -inf)", "", "WG0504"),
    ("clamp(x, 0.0, inf)", "", "WG0504"),
    ("layer_norm(x, x, x, eps = inf)", "", "WG0504"),
    ("rms_norm(x, x, eps = 1e39)", "", "WG0504"),
    ("normalize(x, eps = 1e200)", "", "WG0504"),
    ("attention(q, q, q, scale = inf)[0, 0, 0]", "", "WG0504"),
    ("attention(q, q, q, scale = -1e39)[0, 0, 0]", "", "WG0504"),
    ("x * w", "param w: f32[5] ~ normal(0.0, inf)", "WG0504"),
    ("x * w", "param w: f32[5] ~ uniform(0.0, 1e39)", "WG0504"),
    ("x * w", "param w: f32[5] = 1.0 / zeros(f32[5])", "WG0220"),
    ("x * w", "state w: f32[5] = exp(f32(arange(5)) * 100.0)", "WG0220"),
    ("x * f32(w)", "state w: f16[5] = f16(ones(f32[5]) * 1e6)", "WG0220"),
    ("x", "optimizer o: sgd { lr = 1e39 }", "WG0504"),
    ("x", OPTIMIZER.format("weight_decay = 1e39"), "WG0504"),
    ("x", OPTIMIZER.format("clip_norm = 1e39"), "WG0504"),
    ("x", OPTIMIZER.format("eps = 1e39"), "WG0504"),
]


@pytest.mark.parametrize(("text", "member", "code"), REFUSED)
def test_numbers_that_f32_cannot_hold_are_refused(text: str, member: str, code: str) -> None:
    """WebGPU does not promise that kernels see an infinity, and a large number does as well."""
    body = f"q = reshape(x, [1, 1, 1, 5])\n return {text}"
    found = problems(f"model M {{ {member}\n entry f(x: f32[5]) -> (y: f32[5]) {{ {body} }} }}")
    assert [item.split()[0] for item in found if "WG09" not in item] == [code]
