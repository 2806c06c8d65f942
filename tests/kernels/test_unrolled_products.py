"""Products whose steps are written out: the bits of the loop, and the values of numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from building import forget_kernels
from tint_compiler import compile_all
from wgcc.compiler import compile_file
from wgcc.schedule.kernels import matmul, tile_shape

# Both operands in vectors along each axis, edges that no tile divides, sums of columns, and heads
# that are side by side in a product but not in memory.
MODEL = """
model Products {
  param w: f32[260, 516] ~ normal(0.0, 0.1)
  param b: f32[516] ~ normal(0.0, 0.1)
  param v: f32[64, 192] ~ normal(0.0, 0.1)
  param u: f32[64, 64] ~ normal(0.0, 0.1)
  optimizer opt: sgd { lr = 1.0 }

  entry heads(x: f32[2, 40, 64]) -> (loss: f32) {
    parts = rearrange(x @ v, "B T (three H K) -> three B H T K", three = 3, H = 4)
    y = attention(parts[0], parts[1], parts[2])
    loss = sum(square(rearrange(y, "B H T K -> B T (H K)") @ u))
    minimize loss with opt
    return loss
  }

  entry train(x: f32[80, 260]) -> (loss: f32) {
    loss = sum(square(x @ w + b))
    minimize loss with opt
    return loss
  }

  entry both(p: f32[64, 512], q: f32[256, 64]) -> (y: f32[512, 256]) = transpose(p) @ transpose(q)
}
"""
# Of a product; the sum of a column is in a loop of its own, further inside.
LOOP = "\n    for (var k = 0u; k < TK; k++) {\n"
ALLOWED = 1e-5


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """With the steps of all products in loops, and written out."""
    folder = tmp_path_factory.mktemp("products")
    (folder / "m.wg").write_text(MODEL, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matmul, "UNROLLED", 64 * 64)
        # Blocks of a thread in which tiles hold vectors, which slices do not share.
        patch.setattr(tile_shape, "PAIRS", ((8, 8), (4, 4)))
        patch.setattr(tile_shape, "SLICES", (1,))
        patch.setattr(matmul, "tile_shapes", tile_shape.tile_shapes.__wrapped__)
        for name, flops in (("loops", 1 << 60), ("steps", 0)):
            forget_kernels(patch)
            patch.setattr(matmul, "UNROLLED_FLOPS", flops)
            compile_file(folder / "m.wg").write(folder / name)
    return folder / "loops", folder / "steps"


def results(bundle: Path, device: Any) -> dict[str, np.ndarray]:
    model = wgcc_runtime.load(bundle, device=device)
    draw = np.random.default_rng(1)
    x, p, q = (draw.normal(size=s).astype(np.float32) for s in ((80, 260), (64, 512), (256, 64)))
    before = model.params()
    y = model.call("both", p=p, q=q)["y"]
    model.call("train", x=x)
    w, b = (before[name].astype(np.float64) for name in ("w", "b"))
    slope = 2 * (x.astype(np.float64) @ w + b)
    after = model.params()
    agree(y, p.T.astype(np.float64) @ q.T)
    agree(w - after["w"], x.T @ slope)
    agree(b - after["b"], slope.sum(0))
    loss = model.call("heads", x=draw.normal(size=(2, 40, 64)).astype(np.float32))["loss"]
    return {"y": y, "loss": loss, **model.params()}


def test_written_out_steps_have_the_bits_of_the_loop(
    bundles: tuple[Path, Path], device: Any
) -> None:
    loops, steps = (results(bundle, device) for bundle in bundles)
    assert all(np.array_equal(loops[name], steps[name]) for name in loops)


def test_heads_are_read_as_vectors(bundles: tuple[Path, Path]) -> None:
    plan = wgcc_runtime.load_plan(bundles[0])
    kernels = {plan.kernels[d.kernel].file for d in plan.dispatches("heads", "gpu")}
    texts = [(bundles[0] / "kernels" / file).read_text(encoding="utf-8") for file in kernels]
    products = [text for text in texts if "const TK" in text]
    assert len(products) == 5
    assert not any("array<f32, " in text.split("const ")[0] for text in products)


def test_tint_accepts_written_out_steps(bundles: tuple[Path, Path]) -> None:
    with_loop, without = (
        {p.name for p in bundle.glob("kernels/*.wgsl") if LOOP in p.read_text(encoding="utf-8")}
        for bundle in bundles
    )
    changed = with_loop - without
    assert len(changed) >= 2
    problems = compile_all([bundles[1] / "kernels" / name for name in sorted(changed)])
    assert not any(problems.values()), problems


def agree(value: np.ndarray, expected: np.ndarray) -> None:
    assert np.abs(value - expected).max() <= ALLOWED * np.abs(expected).max()
