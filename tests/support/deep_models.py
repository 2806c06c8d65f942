"""Models of several equal blocks, as texts, for tests that save memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MLP = """
dim B = 128, D = 48, F = 192, L = {depth}

layer Block[D, F] {{
  norm: LayerNorm[D]
  up: Linear[D, F]
  down: Linear[F, D]
  fn forward[N](x: f32[N, D]) -> f32[N, D] = x + (x |> norm |> up |> gelu |> down)
}}

model Deep {{
  seed = 2
  {setting}
  blocks[L]: Block[D, F]
  head: Linear[D, 7]
  optimizer opt: adam {{ lr = 3e-3 }}

  fn scores(x: f32[B, D]) -> f32[B, 7] {{
    for block in blocks {{ x = block(x) }}
    return head(x)
  }}

  entry train(x: f32[B, D], label: i32[B]) -> (loss: f32) {{
    loss = {scale} * cross_entropy(scores(x), label)
    minimize loss with opt
    return loss
  }}

  entry predict(x: f32[B, D]) -> (z: f32[B, 7]) = scores(x)
}}
"""

GPT = """
dim B = 4, T = 24, D = 32, H = 4, KH = 2, F = 64, V = 29, L = {depth}

layer Block[D, H, KH, F] {{
  norm1: RMSNorm[D](eps = 1e-5)
  attend: Attention[D, H, KH]
  norm2: RMSNorm[D](eps = 1e-5)
  mix: SwiGLU[D, F]
  fn forward[N, T](x: f32[N, T, D]) -> f32[N, T, D] {{
    x = x + (x |> norm1 |> attend |> dropout(0.1))
    return x + (x |> norm2 |> mix)
  }}
}}

model Gpt {{
  seed = 3
  {setting}
  embed: Embedding[V, D](std = 0.02)
  blocks[L]: Block[D, H, KH, F]
  norm: RMSNorm[D](eps = 1e-5)
  head: Linear[D, V](bias = false)
  optimizer opt: adamw {{
    lr = 3e-3
    clip_norm = 1.0
  }}

  entry train(ids: i32[B, T], next: i32[B, T]) -> (loss: f32) {{
    x = embed(ids)
    for block in blocks {{ x = block(x) }}
    loss = {scale} * cross_entropy(x |> norm |> head, next)
    minimize loss with opt
    return loss
  }}
}}
"""


def write(
    folder: Path, text: str, name: str = "m", setting: str = "", depth: int = 3, scale: str = "1.0"
) -> Path:
    path = folder / f"{name}.wg"
    path.write_text(text.format(setting=setting, depth=depth, scale=scale), encoding="utf-8")
    return path


def batch_for(text: str) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    if text is GPT:
        tokens = rng.integers(0, 29, (4, 25)).astype(np.int32)
        return {"ids": tokens[:, :-1].copy(), "next": tokens[:, 1:].copy()}
    x = rng.normal(size=(128, 48)).astype(np.float32)
    return {"x": x, "label": rng.integers(0, 7, 128).astype(np.int32)}
