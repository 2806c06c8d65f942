"""Attention as users write it: every option against plain numpy, on the GPU, in linear memory.

test_ops_gpu.py sweeps the kernels over sizes; here operands are computed or are views, and
compiling with Tint, the number of bindings and the bytes of plans are checked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from building import build, forget_kernels
from op_bundles import gradient_graph, write_op_bundle
from tint_compiler import compile_all
from wgcc.backends.wgsl.print_tree import print_kernel
from wgcc.compiler import compile_file
from wgcc.ops import OPS
from wgcc.schedule.kernels import attention_tiles

Array = np.ndarray[Any, Any]
FORWARD = 1e-5


def attend(q: Array, k: Array, v: Array, hidden: Array, scale: float, mask: Array) -> Array:
    """`hidden` says which keys are not seen; rows that see none give 0."""
    share = q.shape[-3] // k.shape[-3]
    k, v = np.repeat(k, share, -3), np.repeat(v, share, -3)
    scores = q @ k.swapaxes(-1, -2) * scale + mask
    weights = np.where(hidden, 0, np.exp(scores - scores.max(-1, keepdims=True)))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total > 0, total, 1) @ v


def relative(found: Array, wanted: Array) -> float:
    return float((np.abs(found - wanted) / (1 + np.abs(wanted))).max())


OPTIONS = """
dim B = 2, H = 6, KH = 2, T = 5, S = 9, K = 7
model Options {
  entry run(
    q: f32[B, H, T, K], k: f32[B, KH, S, K], v: f32[B, KH, S, K], at: i32, scale: f32,
    mask: f32[H, T, S], shown: bool[B, 1, 1, S], half: f16[B, KH, S, K]
  ) -> (
    plain: f32[B, H, T, K], window: f32[B, H, T, K], late: f32[B, H, T, K], masked: f32[B, H, T, K],
    padded: f32[B, H, T, K], scaled: f32[B, H, T, K], joined: f32[B, H, 2 * T, K],
    turned: f32[T, H, B, K], cached: f32[B, H, T, K], every: f32[B, H, T, K]
  ) {
    long = concat([q, 2.0 * q], axis = 2)
    flat = rearrange(q, "B H T K -> T (B H K)")
    turned = rearrange(flat, "T (B H K) -> B H T K", B = B, H = H)
    return attention(q, k, v), attention(q, k, v, window = 3),
      attention(q, k, v, causal = true, offset = at),
      attention(q, k, v, mask = mask), attention(q, k, v, mask = shown),
      attention(q, k, v, scale = scale),
      attention(long, k, v, causal = true),
      rearrange(attention(turned, k, v), "B H T K -> T H B K"),
      attention(q, f32(half), f32(half)),
      attention(q, k, v, causal = true, offset = at + 1, window = 4, scale = 0.3, mask = mask)
  }
}
"""


@pytest.fixture(scope="module", params=["tiles", "blocks"])
def kernels(request: pytest.FixtureRequest) -> str:
    """Both ways to write attention; the second is for heads too large for tiles."""
    kind: str = request.param
    return kind


def build_with(kernels: str, model: Path, folder: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        if kernels == "blocks":
            forget_kernels(patch)
            patch.setattr(attention_tiles, "MOST_COLUMNS", 0)
        return build(model, folder)


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory, kernels: str) -> Path:
    folder = tmp_path_factory.mktemp("options")
    (folder / "options.wg").write_text(OPTIONS, encoding="utf-8")
    return build_with(kernels, folder / "options.wg", folder / "bundle")


def option_inputs(at: int) -> dict[str, Array]:
    rng = np.random.default_rng(17)
    shown = rng.random((2, 1, 1, 9)) < 0.6
    shown[1] = False  # the second sequence sees nothing
    return {
        "q": rng.normal(size=(2, 6, 5, 7)).astype(np.float32),
        "k": rng.normal(size=(2, 2, 9, 7)).astype(np.float32),
        "v": rng.normal(size=(2, 2, 9, 7)).astype(np.float32),
        "at": np.int32(at),
        "scale": np.float32(0.2),
        "mask": rng.normal(size=(6, 5, 9)).astype(np.float32),
        "shown": shown,
        "half": rng.normal(size=(2, 2, 9, 7)).astype(np.float16),
    }


def test_every_option(options: Path, device: Any) -> None:
    model = wgcc_runtime.load(options, device=device)
    for at in (0, 3, -2, 8, 2**31 - 2, -(2**31)):
        given = option_inputs(at)
        found = model.run(**given)
        for name, expected in option_results(given, at).items():
            error = relative(found[name], expected)
            assert error <= FORWARD, f"{name} at {at}: {error:.1e}"


def option_results(given: dict[str, Array], at: int) -> dict[str, Array]:
    q, k, v, half = (given[name].astype(np.float64) for name in ("q", "k", "v", "half"))
    ahead = np.arange(9) - np.arange(5)[:, None]
    none, zero, root = np.zeros((5, 9), bool), np.zeros(()), 7**-0.5
    mask = given["mask"].astype(np.float64)
    late = at + 1
    long = np.concatenate([q, 2 * q], 2)
    return {
        "plain": attend(q, k, v, none, root, zero),
        "window": attend(q, k, v, np.abs(ahead) >= 3, root, zero),
        "late": attend(q, k, v, ahead > at, root, zero),
        "masked": attend(q, k, v, none, root, mask),
        "padded": attend(q, k, v, ~given["shown"], root, zero),
        "scaled": attend(q, k, v, none, 0.2, zero),
        "joined": attend(long, k, v, np.arange(9) > np.arange(10)[:, None], root, zero),
        "turned": attend(q, k, v, none, root, zero).transpose(2, 1, 0, 3),
        "cached": attend(q, half, half, none, root, zero),
        "every": attend(q, k, v, (ahead > late) | (ahead <= late - 4), 0.3, mask),
    }


def test_a_cache_of_f16_is_not_copied(options: Path) -> None:
    texts = [path.read_text(encoding="utf-8") for path in options.glob("kernels/*cast*")]
    assert not texts


GRADIENTS = """
dim B = 2, H = 4, KH = 2, T = 6, K = 5
model Gradients {
  entry slopes(
    x: f32[B, T, 3], p: f32[3, H, K], r: f32[3, KH, K], t: f32[3, KH, K], m: f32[T, T], at: i32,
    g: f32
  ) -> (
    dx: f32[B, T, 3], dp: f32[3, H, K], dr: f32[3, KH, K], dt: f32[3, KH, K], dm: f32[T, T]
  ) {
    q = g * einsum("b t i, i h k -> b h t k", x, p)
    k = sin(einsum("b t i, i h k -> b h t k", x, r))
    v = einsum("b t i, i h k -> b h t k", x, t) * g + x[0, 0, 0]
    y = attention(q, k, v, causal = true, offset = at, mask = m + g, window = 5)
    return grad(sum(square(y)), (x, p, r, t, m))
  }
}
"""


@pytest.fixture(scope="module")
def gradients(tmp_path_factory: pytest.TempPathFactory, kernels: str) -> Path:
    folder = tmp_path_factory.mktemp("gradients")
    (folder / "gradients.wg").write_text(GRADIENTS, encoding="utf-8")
    return build_with(kernels, folder / "gradients.wg", folder / "bundle")


def test_gradients_of_computed_operands(gradients: Path, device: Any) -> None:
    rng = np.random.default_rng(5)
    shapes = {"x": (2, 6, 3), "p": (3, 4, 5), "r": (3, 2, 5), "t": (3, 2, 5), "m": (6, 6)}
    given = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    model = wgcc_runtime.load(gradients, device=device)
    found = model.slopes(**given, at=np.int32(1), g=np.float32(0.7))
    exact = {name: array.astype(np.float64) for name, array in given.items()}
    for name, shape in shapes.items():
        direction = rng.normal(size=shape)
        ends = [_loss({**exact, name: exact[name] + sign * 1e-5 * direction}) for sign in (1, -1)]
        wanted = (ends[0] - ends[1]) / 2e-5
        slope = float((found[f"d{name}"] * direction).sum())
        assert abs(slope - wanted) <= 5e-4 * (1 + abs(wanted)), name


def _loss(a: dict[str, Array], at: int = 1, g: float = 0.7) -> float:
    q, k, v = (np.einsum("bti,ihk->bhtk", a["x"], a[name]) for name in ("p", "r", "t"))
    ahead = np.arange(6) - np.arange(6)[:, None]
    hidden = (ahead > at) | (ahead <= at - 5)
    v = v * g + a["x"][0, 0, 0]
    return float((attend(g * q, np.sin(k), v, hidden, 5**-0.5, a["m"] + g) ** 2).sum())


def test_no_kernel_needs_more_than_eight_buffers(gradients: Path, options: Path) -> None:
    for bundle in (gradients, options):
        plan = wgcc_runtime.load_plan(bundle)
        assert max(len(kernel.access) for kernel in plan.kernels) <= 8


def test_tint_accepts_the_kernels(gradients: Path, options: Path, tmp_path: Path) -> None:
    op = OPS["attention"]
    every_option = list(op.samples)[2::2]
    samples = write_op_bundle(op, every_option, gradient_graph, tmp_path / "samples")
    bundles = [gradients, options, samples]
    kernels = [path for bundle in bundles for path in bundle.glob("kernels/*.wgsl")]
    refused = {path: messages for path, messages in compile_all(kernels).items() if messages}
    assert not refused


TRAINED = """
dim B = 1, T = 64, D = 32, H = 4
model Layer {
  attn: Attention[D, H, 2]
  optimizer opt: sgd { lr = 0.1 }
  entry train(x: f32[B, T, D]) -> (loss: f32) {
    loss = mse(attn(x), x)
    minimize loss with opt
    return loss
  }
}
"""


def test_memory_is_linear_in_the_sequence_length(tmp_path: Path) -> None:
    model = tmp_path / "layer.wg"
    model.write_text(TRAINED, encoding="utf-8")
    memory = {}
    for rows in (512, 1024, 2048):
        plan = compile_file(model, sizes={"T": rows}).planned.plan
        memory[rows] = plan["memory"]["peak"]
        print(f"attention, training, T = {rows}: {memory[rows]:,} bytes")
    first, second = memory[1024] - memory[512], memory[2048] - memory[1024]
    assert second == pytest.approx(2 * first, rel=0.02)
    # One matrix of scores alone would take 16 MiB per head.
    assert memory[2048] < 8 * 2**20


def test_an_attention_layer_trains_in_few_dispatches(tmp_path: Path) -> None:
    model = tmp_path / "layer.wg"
    model.write_text(TRAINED, encoding="utf-8")
    plan = compile_file(model).planned.plan
    dispatches = plan["entries"]["train"]["dispatches"]
    names = [plan["kernels"][dispatch["kernel"]]["name"] for dispatch in dispatches]
    assert sum("attention" in name for name in names) <= 4


def test_tiles_of_long_sequences_are_loaded_several_per_iteration(tmp_path: Path) -> None:
    """Loops of a thread would make more iterations than software adapters allow."""
    model = tmp_path / "layer.wg"
    model.write_text(TRAINED.replace("D = 32, H = 4", "D = 256, H = 4"), encoding="utf-8")
    dispatches = compile_file(model, sizes={"T": 9000}).schedule.entries["train"].dispatches
    texts = {print_kernel(dispatch.launches["gpu"].kernel) for dispatch in dispatches}
    long = [text for text in texts if "i_first += UNROLLED * THREADS" in text]
    paths = [tmp_path / f"{number}.wgsl" for number in range(len(long))]
    for path, text in zip(paths, long, strict=True):
        path.write_text(text, encoding="utf-8")
    assert long and not any(compile_all(paths).values())
