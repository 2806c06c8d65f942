"""Inputs that may hold NaN and infinity (`f32?`), and what kernels make of such numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from building import build
from elaborated import problems
from web_stacks import build_web, run_job
from wgcc.compiler import read_program
from wgcc.evaluate import Session
from wgcc_runtime import WgccError
from wgcc_runtime.selftest import run_selftest

Array = np.ndarray[Any, Any]
SIZE = 70
# One result per function, of the rows of x.
FUNCTIONS = {
    "largest": ("f32[R]", "max(x, axis = 1)"),
    "smallest": ("f32[R]", "min(x, axis = 1)"),
    "of_columns": ("f32[C]", "max(x, axis = 0)"),
    "of_all": ("f32", "min(x)"),
    "halves": ("f16[R]", "max(f16(x), axis = 1)"),
    "above": ("f32[R, C]", "maximum(x, z)"),
    "below": ("f32[R, C]", "minimum(x, z)"),
    "place": ("i32[R]", "argmax(x, axis = 1)"),
    "least_place": ("i32[R]", "argmin(x, axis = 1)"),
    "log_sum": ("f32[R]", "logsumexp(x, axis = 1)"),
    "shares": ("f32[R, C]", "softmax(x, axis = 1)"),
    "clamped": ("f32[R, C]", "clamp(x, -1.0, 1.0)"),
    "positive": ("f32[R, C]", "relu(x)"),
    "pooled": ("f32[R, C / 2, 1]", "max_pool1d(reshape(x, [R, C, 1]), 2)"),
    "padded": ("f32[R, C / 2 + 1, 1]", "max_pool1d(reshape(x, [R, C, 1]), 2, pad = 1)"),
    "running": ("f32[R, C]", "cummax(x, axis = 1)[0]"),
    "not_numbers": ("bool[R, C]", "isnan(x)"),
    "infinite": ("bool[R, C]", "isinf(x)"),
    "finite": ("bool[R, C]", "isfinite(x)"),
    "filled": ("f32[R, C]", "where(isnan(x), 0.0, x)"),
    "masked": ("f32[R, C]", "softmax(z + where(isnan(x), 0.0, minimum(x, 0.0)), axis = 1)"),
}  # fmt: skip


def text() -> str:
    entries = "\n".join(
        f"  entry {name}(x: f32?[R, C], z: f32[R, C]) -> (y: {kind}) = {body}"
        for name, (kind, body) in FUNCTIONS.items()
    )
    return f"wg 1\ndim R = 5, C = {SIZE}\nmodel Special {{\n{entries}\n}}\n"


@pytest.fixture(scope="module")
def special(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("special")
    (folder / "m.wg").write_text(text())
    build(folder / "m.wg", folder / "bundle")
    return folder


def inputs() -> dict[str, Array]:
    generator = np.random.default_rng(3)
    x, z = generator.normal(size=(2, 5, SIZE)).astype(np.float32)
    x[0, 13] = np.nan
    x[1, 20], x[1, 33] = np.inf, -np.inf
    x[2] = -np.inf
    x[3, 5], x[3, 6], x[3, 50] = np.inf, np.nan, -np.nan
    return {"x": x, "z": z}


def test_nan_and_infinity_are_kept(special: Path, machine: Any) -> None:
    """Every machine gives what numpy gives, bit for bit where nothing is rounded."""
    session = Session(read_program(special / "m.wg")[1], {})
    given = inputs()
    with wgcc_runtime.load(special / "bundle", device=machine) as model:
        for name in FUNCTIONS:
            with np.errstate(all="ignore"):
                want = session.call(name, given)["y"]
            got = model.call(name, **given)["y"]
            if name == "shares":
                # exp(NaN) of adapters may be infinite, so that only some of a row are NaN.
                got, want = (np.isnan(item).any(1) for item in (got, want))
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-7, err_msg=name)


def test_rows_of_infinity_sum_as_in_pytorch(special: Path) -> None:
    """torch.logsumexp: NaN, inf, -inf; torch.softmax of a row of -inf is NaN."""
    with wgcc_runtime.load(special / "bundle", device="wasm") as model:
        sums = model.log_sum(**inputs())["y"]
        np.testing.assert_array_equal(sums[:3], np.float32([np.nan, np.inf, -np.inf]))
        rows = model.masked(**inputs())["y"]
        assert (
            np.isnan(rows[2]).all() and rows[1, 33] == 0 and np.isfinite(rows[[0, 1, 3, 4]]).all()
        )


TRAINED = """wg 1
dim B = 6
model Trained {
  param w: f32[3] ~ normal(0.0, 1.0)
  optimizer opt: sgd { lr = 0.1 }
  fn scores(x: f32[B, 3]) -> f32[B] = sum(where(isnan(x), 0.0, x) * w, axis = 1)
  entry train(x: f32?[B, 3], h: f16?[B], strict: f32[B]) -> (loss: f32) {
    loss = mse(scores(x) + where(isinf(h), 0.0, f32(h)), strict)
    minimize loss with opt
    return loss
  }
  entry predict(x: f32?[B, 3]) -> (y: f32[B], seen: bool[B, 3]) = (scores(x), isnan(x))
}
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    (folder / "m.wg").write_text(TRAINED)
    return build_web(folder / "m.wg", folder / "bundle")


X = np.float32([[1, np.nan, 2], [0, 1, 3]] * 3)
H = np.float32([np.inf, 0.5, -np.inf, 0.25, 0, 1])


def test_plan_says_which_inputs(trained: Path) -> None:
    tensors = json.loads((trained / "plan.json").read_text())["tensors"]
    marked = {name for name, tensor in tensors.items() if tensor.get("any_float")}
    assert marked == {"train/x", "train/h", "predict/x"}


def test_missing_values_train(trained: Path, machine: Any) -> None:
    with wgcc_runtime.load(trained, device=machine) as model:
        strict = np.ones(6, np.float32)
        first = model.train(x=X, h=H, strict=strict)["loss"]
        assert model.train(x=X, h=H, strict=strict)["loss"] < first
        data = {"x": np.tile(X, (4, 1)), "h": np.tile(H, 4), "strict": np.tile(strict, 4)}
        model.fit(data, steps=8)
        assert model.predict(x=np.tile(X, (3, 1)))["seen"].sum() == 9, "any number of rows"
        with pytest.raises(WgccError, match="declare the input as `f32\\?`") as caught:
            model.train(x=X, h=H, strict=np.full(6, np.nan))
        assert caught.value.code == "not-finite"
        assert run_selftest(model)


def test_guard_blames_the_kernel_not_the_input(trained: Path) -> None:
    with wgcc_runtime.load(trained, device="wasm") as model:
        before = model.params()["w"]
        with pytest.raises(WgccError) as caught:
            model.train(x=np.where(np.isnan(X), np.inf, X), h=H, strict=np.ones(6, np.float32))
        assert caught.value.code == "nan" and "before the step" not in str(caught.value)
        np.testing.assert_array_equal(model.params()["w"], before)


@pytest.mark.parametrize(("stack", "device"), [("node", "wasm"), ("node", None), ("chrome", None)])
def test_javascript_takes_them_too(trained: Path, stack: str, device: str | None) -> None:
    seen = run_job(stack, trained, "any_floats", {"device": device} if device else {})
    with wgcc_runtime.load(trained, device="wasm") as model:
        want = model.predict(x=X)["y"]
        loss = float(model.train(x=X, h=H, strict=np.ones(6, np.float32))["loss"])
    assert seen["y"] == pytest.approx(want.tolist(), rel=1e-5)
    assert seen["loss"] == pytest.approx(loss, rel=1e-5) and 0 < seen["fitted"] < loss
    assert seen["rows"] == 9
    assert (
        seen["refused"][0] == "not-finite" and "declare the input as `f32?`" in seen["refused"][1]
    )
    assert seen["blamed"][0] == "nan" and "before the step" not in seen["blamed"][1]


WRONG = {
    "param w: f32?[2] ~ zeros\nentry predict(x: f32[2]) -> (y: f32[2]) = x + w": "only an input",
    "fn f(x: f32?[2]) -> f32[2] = x\nentry predict(x: f32[2]) -> (y: f32[2]) = f(x)": "an input",
    "entry predict(x: f32[2]) -> (y: f32?[2]) = x": "only an input",
    "entry predict(x: i32?[2]) -> (y: i32[2]) = x": "i32 has neither NaN nor infinity",
}


@pytest.mark.parametrize("body", WRONG)
def test_mark_of_anything_else_is_refused(body: str) -> None:
    (problem,) = problems(f"wg 1\nmodel M {{\n{body}\n}}\n")
    assert problem.startswith("WG0611") and WRONG[body] in problem
