"""`precision = f16`: operands of products are rounded to f16, sums are f32; as in autocast.

One product of rounded operands is exact but for the order of its sum, so what numpy makes of
rounded inputs is what kernels must make of the inputs. SwiftShader has no `shader-f16`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import wgcc_runtime
from building import TWIN, build
from test_curves import FOLDER, batch, difference, part
from tint_compiler import compile_all
from wgcc.compiler import read_program
from wgcc.evaluate import Session

ADAPTER = "llvmpipe"
# Plain products, those whose operands are transposed, and convolutions with and without groups;
# attention of heads that tiles hold, with more rows than one tile has.
MODEL = """
dim M = 37, K = 72, N = 52
model Numbers {
  precision = f16
  w: Linear[K, N](bias = false)
  turned: Linear[N, K](bias = false)
  kernel: Conv2d[8, 16](pad = 1, bias = false)
  narrow: Conv2d[16, 16](groups = 2, bias = false)

  entry plain(x: f32[M, K]) -> (y: f32[M, N]) = w(x)
  entry transposed(x: f32[M, K]) -> (y: f32[M, N]) = x @ transpose(turned.w)
  entry slopes(x: f32[M, K], g: f32[M, N]) -> (dx: f32[M, K], dw: f32[K, N]) =
    grad(sum(g * w(x)), (x, w.w))
  entry batched(x: f32[3, M, K], y: f32[3, K, N]) -> (z: f32[3, M, N]) = x @ y
  entry image(x: f32[2, 9, 7, 8]) -> (y: f32[2, 9, 7, 16]) = kernel(x)
  entry grouped(x: f32[2, 9, 7, 16]) -> (y: f32[2, 7, 5, 16]) = narrow(x)
  entry image_slopes(x: f32[2, 9, 7, 8], g: f32[2, 9, 7, 16]) -> (
    dx: f32[2, 9, 7, 8], dw: f32[3, 3, 8, 16]
  ) = grad(sum(g * kernel(x)), (x, kernel.w))
  entry attend(q: f32[2, 4, 45, 24], k: f32[2, 2, 45, 24], v: f32[2, 2, 45, 24]) -> (
    y: f32[2, 4, 45, 24]
  ) = attention(q, k, v, causal = true)
  entry attend_slopes(
    q: f32[2, 4, 45, 24], k: f32[2, 2, 45, 24], v: f32[2, 2, 45, 24], g: f32[2, 4, 45, 24]
  ) -> (dq: f32[2, 4, 45, 24], dk: f32[2, 2, 45, 24], dv: f32[2, 2, 45, 24]) =
    grad(sum(g * attention(q, k, v, causal = true)), (q, k, v))
}
"""
# Relative to the largest result: the order of sums of f32; f16's rounding of a result that another
# kernel moves to its place; and that of attention's weights, operands of its second product.
SUMS, STORED, WEIGHTS = 2e-6, 5e-4, 2e-3
PRODUCTS = ("plain", "transposed", "slopes", "batched", "image", "grouped", "image_slopes")
ATTENTION = ("attend", "attend_slopes")
GAPS = 10


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("numbers")
    (folder / "model.wg").write_text(MODEL, encoding="utf-8")
    return build(folder / "model.wg", folder / "bundle")


def half(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float16).astype(np.float32)


def drawn(model: wgcc_runtime.Model, entry: str) -> dict[str, Any]:
    rng = np.random.default_rng(len(entry))
    inputs = model.entry(entry).inputs
    return {n: rng.normal(size=t.shape).astype(np.float32) for n, t in inputs.items()}


def references(bundle: Path, model: wgcc_runtime.Model, entry: str, rounded: bool) -> Any:
    """What numpy computes in f64 of the same numbers, or of what f16 makes of them."""
    change = half if rounded else np.asarray
    _, program, _ = read_program(next(bundle.parent.glob("*.wg")))
    params = {name: change(value) for name, value in model.params().items()}
    inputs = {name: change(value) for name, value in drawn(model, entry).items()}
    return Session(gradients(program), params).call(entry, inputs)


def gradients(program: Any) -> Any:
    """`grad` is a marker that a pass replaces."""
    from wgcc.passes.pipeline import run_passes

    return run_passes(program)


def error(found: Any, wanted: Any) -> float:
    assert found.keys() == wanted.keys()
    return max(np.abs(found[n] - wanted[n]).max() / np.abs(wanted[n]).max() for n in wanted)


@pytest.mark.parametrize("entry", [*PRODUCTS, *ATTENTION])
def test_one_product(entry: str, bundle: Path) -> None:
    with wgcc_runtime.load(bundle, device=ADAPTER) as model:
        found = model.call(entry, **drawn(model, entry))
        rounded, exact = (references(bundle, model, entry, r) for r in (True, False))
    allowed = {"grouped": STORED}.get(entry, SUMS) if entry in PRODUCTS else WEIGHTS
    assert error(found, rounded) <= allowed
    assert error(found, exact) > 20 * SUMS, "nothing was rounded"


def test_all_forms_of_products_read_copies(bundle: Path) -> None:
    plan = json.loads((bundle / "plan.json").read_text(encoding="utf-8"))
    (copies,) = (i for i, b in enumerate(plan["buffers"]) if b["role"] == "copies")
    for entry in ("plain", "transposed", "slopes", "image", "grouped", "image_slopes"):
        dispatches = plan["entries"][entry]["dispatches"]
        assert any(b["buffer"] == copies for d in dispatches for b in d["bindings"]), entry


def test_tint_accepts_the_kernels(bundle: Path) -> None:
    answers = compile_all(sorted(bundle.glob("kernels/*")), halves=True)
    assert answers and not any(answers.values()), answers


def test_the_twin_rounds_nothing(bundle: Path) -> None:
    with wgcc_runtime.load(bundle, device=TWIN) as model:
        for entry in (*PRODUCTS, *ATTENTION):
            found = model.call(entry, **drawn(model, entry))
            assert error(found, references(bundle, model, entry, False)) <= 1e-5, entry


@pytest.mark.parametrize(("name", "entry"), [("mlp", "train_adam"), ("gpt", "train")])
def test_training_is_that_of_autocast(name: str, entry: str, tmp_path: Path) -> None:
    """PyTorch's own run in f16 (record_halves.py): as near to its f64 run, but for a factor.

    The first loss is that of autocast within f16's rounding.
    """
    text = (FOLDER / f"{name}.wg").read_text(encoding="utf-8")
    path = tmp_path / f"{name}.wg"
    path.write_text(re.sub(r"(model \w+ \{\n)", r"\1  precision = f16\n", text, count=1))
    record = load_file(FOLDER / f"{name}.safetensors")
    theirs = load_file(FOLDER / "halves.safetensors")[f"loss.f16/{name}"]
    exact = record[f"loss.f64/{entry}"]
    with wgcc_runtime.load(build(path, tmp_path / "bundle"), device=ADAPTER) as model:
        model.load_params(part(record, "start/"))
        found = [float(model.call(entry, **batch(record, i))["loss"]) for i in range(len(exact))]
    ours = np.asarray(found)
    allowed = GAPS * difference(theirs, exact)
    assert difference(ours, exact) <= allowed
    assert difference(ours, theirs) <= allowed
    assert difference(ours[:1], theirs[:1]) <= 1e-3
    assert difference(ours, record[f"loss.f32/{entry}"]) > 1e-6, "nothing was rounded"
