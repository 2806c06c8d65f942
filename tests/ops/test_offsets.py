"""Numbers that share a large offset keep the digits in which they differ: losses, softmax,
variances, norms and attention, on both adapters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from building import build
from wgcc.elaborate.elaborate import check
from wgcc.errors import Diagnostics, Source
from wgcc.evaluate import evaluate
from wgcc.passes.autograd import autograd

Array = np.ndarray[Any, Any]

# At 1e6, f32 has four binary digits after the point, at 1e8 only every 8th integer.
OFFSETS = (0.0, 1e6, -1e6, 1e8, -1e8)
# A row reduced by one thread, one by a workgroup, one in two steps.
SIZES = ((7, 10), (33, 65), (3, 4096))

ROWS = """
dim N = 4, C = 4
model M {
  entry loss(z: f32[N, C], y: i32[N]) -> (loss: f32, dz: f32[N, C]) {
    loss = cross_entropy(z, y)
    return loss, grad(loss, z)
  }
  entry smooth(z: f32[N, C], y: i32[N]) -> (loss: f32, dz: f32[N, C]) {
    loss = cross_entropy(z, y, ignore = 0, smoothing = 0.1)
    return loss, grad(loss, z)
  }
  entry lone_loss(z: f32[N, C], y: i32[N]) -> (loss: f32) = cross_entropy(z, y)
  entry logs(z: f32[N, C]) -> (p: f32[N, C], dz: f32[N, C]) {
    p = log_softmax(z, axis = -1)
    return p, grad(sum(p[:, 0]), z)
  }
  entry total(z: f32[N, C]) -> (dz: f32[N, C]) = grad(sum(logsumexp(z, axis = -1)), z)
  entry spread(z: f32[N, C]) -> (v: f32[N], dz: f32[N, C]) {
    v = var(z, axis = -1)
    return v, grad(sum(v), z)
  }
  entry normal(z: f32[N, C]) -> (n: f32[N, C], dz: f32[N, C]) {
    n = layer_norm(z, ones(f32[C]), zeros(f32[C]))
    return n, grad(sum(n * n * n), z)
  }
}
"""
# The tolerance of the loss, and of every op.
TOLERANCE = {"loss": 1e-6, "smooth": 1e-6, "lone_loss": 1e-6}
ANY_OP = 1e-5

BATCH = """
dim N = 70, C = 3
model M {
  norm: BatchNorm[C](momentum = 1.0)
  optimizer opt: sgd { lr = 0.0 }
  entry train(x: f32[N, C]) -> (y: f32[N, C], dx: f32[N, C]) {
    y = norm(x)
    loss = sum(y * y * y)
    dx = grad(loss, x)
    minimize loss with opt
    return y, dx
  }
}
"""

ATTENTION = """
dim H = 2, T = 9, K = 4
model M {
  entry run(q: f32[H, T, K], v: f32[H, T, K], m: f32[H, T, T])
      -> (y: f32[H, T, K], dq: f32[H, T, K], dv: f32[H, T, K], dm: f32[H, T, T]) {
    y = attention(q, q, v, mask = m)
    loss = sum(y * y * y)
    return y, grad(loss, q), grad(loss, v), grad(loss, m)
  }
}
"""


@pytest.fixture(scope="module", params=SIZES, ids=str)
def rows(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    count, classes = request.param
    text = ROWS.replace("dim N = 4, C = 4", f"dim N = {count}, C = {classes}")
    return _bundle(text, tmp_path_factory.mktemp("rows")), text


@pytest.mark.parametrize("offset", OFFSETS)
def test_rows_with_an_offset(rows: tuple[Path, str], offset: float, device: Any) -> None:
    bundle, text = rows
    graphs = _graphs(text)
    shape = graphs["loss"].inputs[0].shape
    rng = np.random.default_rng(5)
    z = _near(offset, shape, rng)
    labels = rng.integers(0, shape[1], shape[0]).astype(np.int32)
    model = wgcc_runtime.load(bundle, device=device)
    for name, graph in graphs.items():
        given = {"z": z, "y": labels} if len(graph.inputs) == 2 else {"z": z}
        wanted = evaluate(graph, given).outputs
        # Summing 4096 exponentials in f32 loses two digits, at any offset.
        most = TOLERANCE.get(name, ANY_OP) * (4 if shape[1] == 4096 else 1)
        _compare(model.call(name, **given), wanted, most, name)


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _bundle(BATCH, tmp_path_factory.mktemp("batch"))


@pytest.fixture(scope="module")
def attention(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _bundle(ATTENTION, tmp_path_factory.mktemp("attention"))


@pytest.mark.parametrize("offset", OFFSETS)
def test_batch_norm_with_an_offset(offset: float, device: Any, batch: Path) -> None:
    x = _near(offset, (70, 3), np.random.default_rng(6))
    exact = x.astype(np.float64)
    centred, std = exact - exact.mean(0), np.sqrt(exact.var(0) + 1e-5)
    y = centred / std
    g = 3 * y * y
    dx = (g - g.mean(0) - y * (g * y).mean(0)) / std
    model = wgcc_runtime.load(batch, device=device)
    _compare(model.train(x=x), {"y": y, "dx": dx}, ANY_OP, "norm")
    wanted = {"norm.run_mean": exact.mean(0), "norm.run_var": exact.var(0, ddof=1)}
    _compare(model.state(), wanted, ANY_OP, "norm")


@pytest.mark.parametrize("offset", OFFSETS)
def test_attention_whose_scores_share_an_offset(
    offset: float, device: Any, attention: Path
) -> None:
    """As in rows of padding, where a mask of -1e8 hides every key alike."""
    rng = np.random.default_rng(7)
    # Products of integers are exact, and so are scores near 1e6.
    q = rng.integers(-2, 3, (2, 9, 4)).astype(np.float32)
    v = rng.normal(size=(2, 9, 4)).astype(np.float32)
    mask = np.full((2, 9, 9), offset, np.float32)
    graph = _graphs(ATTENTION)["run"]
    # At 1e8 only multiples of 8 are.
    q = q * 4 if abs(offset) == 1e8 else q
    wanted = evaluate(graph, {"q": q, "v": v, "m": mask}).outputs
    model = wgcc_runtime.load(attention, device=device)
    _compare(model.run(q=q, v=v, m=mask), wanted, ANY_OP, "attention")


def _near(offset: float, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Numbers around an offset, with differences that f32 can represent there."""
    apart = 8 if abs(offset) == 1e8 else 1
    return np.asarray(offset + apart * rng.normal(size=shape)).astype(np.float32)


def _bundle(text: str, folder: Path) -> Path:
    (folder / "model.wg").write_text(text, encoding="utf-8")
    return build(folder / "model.wg", folder / "bundle")


def _graphs(text: str) -> dict[str, Any]:
    found = Diagnostics()
    program = check(Source("model.wg", text), found)["M"]
    assert not found.errors
    return {name: autograd(graph) for name, graph in program.entries.items()}


def _compare(found: Any, wanted: Any, most: float, what: str) -> None:
    """Relative to the largest element: a gradient that is nearly zero has no digits of its own."""
    for name, expected in wanted.items():
        error = np.abs(found[name].astype(np.float64) - expected).max() / np.abs(expected).max()
        assert error <= most, f"{what} {name}: {error:.1e}"
