"""What a training step of a GPT moves through memory, and in how many dispatches.

One block is the difference between models of three and of two: width 768, 512 tokens, batch 4.
Bytes are those of the regions that dispatches bind: a kernel that reads a part of a tensor counts
as if it read all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

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
  norm1: RMSNorm[D]
  attn: ATTENTION
  norm2: RMSNorm[D]
  mlp: SwiGLU[D, F]

  fn forward[B, T](x: f32[B, T, D]) -> f32[B, T, D] {
    x = x + attn(norm1(x))
    return x + mlp(norm2(x))
  }
}

model GPT {
  tok: Embedding[V, D]
  blocks[L]: Block[D, H, F]
  norm: RMSNorm[D]

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


# Products of one tensor written as three are one dispatch forward, and one for its gradient.
CEILINGS = {
    "Joined[D, H]": Figures(9, 17, 1002.2, 69.8),
    "Attention[D, H, H]": Figures(9, 20, 1002.5, 69.8),
}


def figures(path: Path, blocks: int) -> Figures:
    compiled = compile_file(path, sizes={"L": blocks})
    steps = compiled.schedule.entries["train"].dispatches
    backward = sum(step.label.startswith("d.") for step in steps)
    moved = sum(region.bytes for step in steps for region in step.regions)
    temporary = compiled.planned.plan["memory"]["temps"]
    return Figures(len(steps) - backward, backward, moved / 1e6, temporary / 1e6)


def least_megabytes() -> float:
    """Of a block: weights, gradients and both moments once; each activation once each way.

    Kernels cannot reach that, because a product reads what another one wrote.
    """
    weights = 4 * WIDTH * WIDTH + 3 * WIDTH * INNER + 2 * WIDTH
    # Two norms, their two sums, q, k and v, both of q and k rotated, attention; gate, up and both.
    activations = ROWS * (10 * WIDTH + 3 * INNER)
    return WORD * (4 * weights + 2 * activations) / 1e6


@pytest.mark.parametrize("attention", CEILINGS)
def test_a_block(attention: str, tmp_path: Path) -> None:
    path = tmp_path / "gpt.wg"
    text = MODEL.replace("ATTENTION", attention)
    unused = text[text.index("layer Joined") : text.index("layer Block")]
    path.write_text(text if "Joined" in attention else text.replace(unused, ""))
    found, most = figures(path, 3) - figures(path, 2), CEILINGS[attention]
    assert found.forward <= most.forward and found.backward <= most.backward, found
    assert found.megabytes <= most.megabytes <= 1.03 * found.megabytes, found
    assert found.temporary_megabytes <= most.temporary_megabytes, found
    assert found.forward <= 14
    assert found.megabytes <= 3 * least_megabytes()
