"""Products of all layouts and awkward sizes: each way to load, share and store is right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from wgcc.compiler import compile_file

# (rows, inner, cols): vectors along every axis or none, tiles that fit or not, thin and large ones.
SIZES = (
    (64, 64, 64), (33, 20, 12), (20, 13, 65), (130, 52, 68), (7, 5, 3), (512, 48, 4), (4, 512, 64),
    (48, 768, 48), (256, 40, 272), (136, 9, 8), (515, 36, 516),
)  # fmt: skip
FORMS = ("a @ b", "transpose(a) @ b", "a @ transpose(b)", "transpose(a) @ transpose(b)")
# Sums of hundreds of terms, relative to the largest result.
ALLOWED = 1e-5


def entries() -> list[tuple[str, str, tuple[int, int], tuple[int, int], tuple[int, int]]]:
    """(name, expression, shapes of a, b and the result)."""
    found = []
    for i, (rows, inner, cols) in enumerate(SIZES):
        for j, form in enumerate(FORMS):
            a = (inner, rows) if "transpose(a)" in form else (rows, inner)
            b = (cols, inner) if "transpose(b)" in form else (inner, cols)
            found.append((f"p{i}_{j}", form, a, b, (rows, cols)))
    return found


def source() -> str:
    lines = []
    for name, form, a, b, y in entries():
        inputs = f"a: f32{list(a)}, b: f32{list(b)}, c: f32{list(y)}, s: f32[{y[1]}]"
        # What is done to results needs other tensors in the same layout.
        lines.append(f"  entry {name}({inputs}) -> (y: f32{list(y)}) = c + relu({form} + s)")
    return "model Products {\n" + "\n".join(lines) + "\n}\n"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("products")
    (folder / "products.wg").write_text(source(), encoding="utf-8")
    compile_file(folder / "products.wg").write(folder / "bundle")
    return folder / "bundle"


def test_products_of_all_layouts(bundle: Path, device: Any) -> None:
    model = wgcc_runtime.load(bundle, device=device)
    draw = np.random.default_rng(1)
    for name, form, *shapes in entries():
        a, b, c = (draw.normal(size=shape).astype(np.float32) for shape in shapes)
        s = draw.normal(size=shapes[2][1]).astype(np.float32)
        left = a.T if "transpose(a)" in form else a
        right = b.T if "transpose(b)" in form else b
        wanted = c + np.maximum(left.astype(np.float64) @ right + s, 0)
        got = model.call(name, a=a, b=b, c=c, s=s)["y"]
        worst = np.abs(got - wanted).max() / np.abs(wanted).max()
        assert worst < ALLOWED, (name, form, shapes, worst)


def test_vectors_are_used_where_sizes_allow(bundle: Path) -> None:
    """All four layouts of a product whose sizes four divides, and no other."""
    plan = wgcc_runtime.load_plan(bundle)
    texts = {}
    for name, *_ in entries():
        (dispatch,) = plan.dispatches(name, "gpu")[:1]
        file = bundle / "kernels" / plan.kernels[dispatch.kernel].file
        texts[name] = re.findall(r"(\w+): array<(\w+),", file.read_text())
    for j in range(len(FORMS)):
        assert {kind for _, kind in texts[f"p10_{j}"] if kind != "f32"} == {"vec4f"}, FORMS[j]
        assert all(kind == "f32" for _, kind in texts[f"p4_{j}"]), FORMS[j]


# Gradients of weights with few results: several slices of a workgroup add up theirs, and a bias.
LAYERS = ((256, 64, 64), (96, 36, 20), (513, 12, 9))
LAYER = """
model Layer {{
  param w: f32[{inner}, {cols}] ~ normal(0.0, 0.1)
  param b: f32[{cols}] ~ normal(0.0, 0.1)
  optimizer opt: sgd {{ lr = 1.0 }}

  entry train(x: f32[{rows}, {inner}]) -> (loss: f32) {{
    loss = sum(square(x @ w + b))
    minimize loss with opt
    return loss
  }}
}}
"""


@pytest.mark.parametrize("sizes", LAYERS)
def test_gradients_of_weights_and_biases(
    sizes: tuple[int, int, int], device: Any, tmp_path: Path
) -> None:
    rows, inner, cols = sizes
    path = tmp_path / "layer.wg"
    path.write_text(LAYER.format(rows=rows, inner=inner, cols=cols), encoding="utf-8")
    compile_file(path).write(tmp_path / "bundle")
    texts = [file.read_text() for file in (tmp_path / "bundle").glob("kernels/*.wgsl")]
    assert any("added_sums" in text for text in texts)
    model = wgcc_runtime.load(tmp_path / "bundle", device=device)
    w, b = (model.params()[name].astype(np.float64) for name in ("w", "b"))
    x = np.random.default_rng(1).normal(size=(rows, inner)).astype(np.float32)
    slope = 2 * (x.astype(np.float64) @ w + b)
    model.call("train", x=x)
    for name, old, wanted in (("w", w, x.T @ slope), ("b", b, slope.sum(0))):
        got = old - model.params()[name]
        assert np.abs(got - wanted).max() / np.abs(wanted).max() < ALLOWED, (sizes, name)
