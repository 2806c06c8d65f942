"""What a training step of a GPT moves through memory, and in how many dispatches.

Width 768, 512 tokens, batch 4. One block is the difference between models of three and of two; the
whole step has 12 of them and a vocabulary of 32,000. Three counts:

- `strict`: weights, gradients and both moments once, each activation once each way. No kernels
  reach that: what a product makes is written, because the next product needs all columns of a row,
  which no workgroup holds; both gradients of a product read the gradient of its result; AdamW reads
  four tensors and writes three.
- `by_kernels`: the least for kernels that compute one product or attention each, with everything
  else done on the way: each reads its operands once and writes its results once.
- what the kernels move (tests/support/traffic.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from traffic import moved
from wgcc.compiler import compile_file

ROWS, WIDTH, INNER = 4 * 512, 768, 2048
WORD = 4
MODEL = """
dim B = 4, T = 512, V = 4096, D = 768, H = 12, F = 2048, L = 2

layer Joined[D, H] {
  qkv: Linear[D, 3 * D](bias = false)
  out: Linear[D, D](bias = false)

  fn forward[B, T](x: f32[B, T, D]) -> f32[B, T, D] {
    parts = rearrange(qkv(x), "B T (three H K) -> three B H T K", three = 3, H = H)
    rotated = rope(parts[: 2], arange(T))
    y = attention(rotated[0], rotated[1], parts[2], causal = true)
    return out(rearrange(y, "B H T K -> B T (H K)"))
  }
}

layer Block[D, H, F] {
  norm1: RMSNorm[D](eps = 1e-5)
  attn: ATTENTION
  norm2: RMSNorm[D](eps = 1e-5)
  mlp: SwiGLU[D, F]

  fn forward[B, T](x: f32[B, T, D]) -> f32[B, T, D] {
    x = x + attn(norm1(x))
    return x + mlp(norm2(x))
  }
}

model GPT {
  tok: Embedding[V, D](std = 0.02)
  blocks[L]: Block[D, H, F]
  norm: RMSNorm[D](eps = 1e-5)

  fn forward[N](ids: i32[N, T]) -> f32[N, T, V] {
    x = tok(ids)
    for block in blocks { x = block(x) }
    return norm(x) @ transpose(tok.w)
  }

  optimizer opt: adamw {
    lr = 1e-3
    clip_norm = 1.0
  }

  entry train(ids: i32[B, T], labels: i32[B, T]) -> (loss: f32) {
    loss = cross_entropy(forward(ids), labels)
    minimize loss with opt
    return loss
  }
}
"""

SMALL = """
model Small {
  l: Linear[32, 16](bias = false)
  optimizer opt: sgd { lr = 0.1 }

  entry train(x: f32[64, 32], t: f32[64, 16]) -> (loss: f32) {
    loss = mse(l(x), t)
    minimize loss with opt
    return loss
  }
}
"""


@dataclass(frozen=True)
class Figures:
    """Of a step, or of one block of it; `backward` has the dispatches that make gradients."""

    forward: int
    backward: int
    megabytes: float
    temporary_megabytes: float

    def __sub__(self, other: Figures) -> Figures:
        return Figures(
            self.forward - other.forward,
            self.backward - other.backward,
            round(self.megabytes - other.megabytes, 1),
            round(self.temporary_megabytes - other.temporary_megabytes, 1),
        )


# Written as one product or as three: the kernels are the same.
CEILINGS = {
    "Joined[D, H]": Figures(9, 14, 948.0, 71.4),
    "Attention[D, H, H]": Figures(9, 14, 948.0, 71.4),
}
# Of three blocks: how much of it is alive at once.
MOST_TEMPORARY = 266.0
# Of 12 blocks and a vocabulary of 32,000: bytes and dispatches.
STEP_GIGABYTES, STEP_DISPATCHES = 14.03, 293
MOST_DISPATCHES, MOST_TIMES = 14, 1.5


def figures(path: Path, blocks: int) -> Figures:
    sizes = {"L": blocks}
    compiled = compile_file(path, sizes=sizes)
    steps = compiled.schedule.entries["train"].dispatches
    backward = sum(step.label.startswith("d.") for step in steps)
    bytes_ = sum(kernel.bytes for kernel in moved(path, sizes))
    temporary = compiled.planned.plan["memory"]["temps"]
    return Figures(len(steps) - backward, backward, bytes_ / 1e6, temporary / 1e6)


@dataclass(frozen=True)
class Least:
    """In megabytes."""

    strict: float
    by_kernels: float

    def __add__(self, other: Least) -> Least:
        return Least(self.strict + other.strict, self.by_kernels + other.by_kernels)

    def __rmul__(self, times: int) -> Least:
        return Least(times * self.strict, times * self.by_kernels)


def block() -> Least:
    narrow, wide = (WORD * ROWS * width / 1e6 for width in (WIDTH, INNER))
    weights = WORD * (4 * WIDTH * WIDTH + 3 * WIDTH * INNER + 2 * WIDTH) / 1e6
    # Two norms, their two sums, q, k and v, both of q and k rotated, attention; gate, up and both.
    strict = 4 * weights + 2 * (10 * narrow + 3 * wide)
    # q, k and v 4, attention 4, out and down 3 each with the sum before them, less what is wide.
    forward = (4 + 4 + 3 + 1 + 2) * narrow + 4 * wide
    # down 2, gate and up 2, out 4, attention 6 for queries and 6 for keys and values, q, k and v 8;
    # each norm reads its operand and the sum's gradient.
    backward = (2 + 2 + 4 + 6 + 6 + 8 + 2 * 2) * narrow + 9 * wide
    # A product, its two gradients; AdamW reads four tensors and writes three.
    return Least(strict, forward + backward + (1 + 2 + 7) * weights)


def head(vocabulary: int) -> Least:
    """Embedding, last norm, logits and loss; the table is also the output layer."""
    narrow, logits = (WORD * ROWS * width / 1e6 for width in (WIDTH, vocabulary))
    table = WORD * vocabulary * WIDTH / 1e6
    strict = 4 * table + 2 * (2 * narrow + logits)
    # Written once, and read by both gradients of the product.
    return Least(strict, 3 * logits + (1 + 2 + 7) * table + 7 * narrow)


def written(attention: str, folder: Path) -> Path:
    path = folder / "gpt.wg"
    text = MODEL.replace("ATTENTION", attention)
    unused = text[text.index("layer Joined") : text.index("layer Block")]
    path.write_text(text if "Joined" in attention else text.replace(unused, ""))
    return path


@pytest.mark.parametrize("attention", CEILINGS)
def test_a_block(attention: str, tmp_path: Path) -> None:
    path = written(attention, tmp_path)
    three = figures(path, 3)
    found, most = three - figures(path, 2), CEILINGS[attention]
    assert three.temporary_megabytes <= MOST_TEMPORARY, three
    assert found.forward <= most.forward and found.backward <= most.backward, found
    assert found.megabytes <= most.megabytes <= 1.03 * found.megabytes, found
    assert found.temporary_megabytes <= most.temporary_megabytes, found
    assert found.forward <= MOST_DISPATCHES and found.backward <= MOST_DISPATCHES
    assert found.megabytes <= MOST_TIMES * block().by_kernels, found
    assert found.megabytes <= 3 * block().strict, found


def test_a_step_of_twelve_blocks(tmp_path: Path) -> None:
    path = written("Attention[D, H, H]", tmp_path)
    found = moved(path, {"L": 12, "V": 32_000})
    least = 12 * block() + head(32_000)
    megabytes = sum(kernel.bytes for kernel in found) / 1e6
    assert len(found) <= STEP_DISPATCHES, len(found)
    assert megabytes <= 1000 * STEP_GIGABYTES <= 1.03 * megabytes, megabytes
    assert megabytes <= MOST_TIMES * least.by_kernels, least
    assert megabytes <= 3 * least.strict, least


def test_the_count(tmp_path: Path) -> None:
    """One layer, by hand: its product, its loss, the gradient of its weight, the update."""
    path = tmp_path / "small.wg"
    path.write_text(SMALL)
    by_label = {kernel.label: (kernel.read, kernel.written) for kernel in moved(path, {})}
    x, w, y = 4 * 64 * 32, 4 * 32 * 16, 4 * 64 * 16
    assert by_label["d.l.w"] == (x + y, w), by_label
    assert by_label["l.w.new"] == (2 * w, w), by_label
    assert sum(read for read, _ in by_label.values()) >= 2 * x + 3 * w + 2 * y
