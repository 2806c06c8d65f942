"""A model whose indices and labels no check of inputs can guarantee, for tests of its guard."""

from __future__ import annotations

from pathlib import Path

TEXT = """
dim B = 4, D = 3, V = 10, S = 8

model M {
  seed = 5
  tok: Embedding[V, D]
  out: Linear[D, V]
  state used: i32 = 0
  state offset: i32 = 0
  state cache: f32[S, D] = 0.0
  state sums: f32[S, D] = 0.0

  optimizer opt: adam { lr = 1e-2 }

  /// Labels move by a state.
  entry train(ids: i32[B], y: i32[B]) -> (loss: f32) {
    loss = cross_entropy(out(tok(ids)), y + offset)
    minimize loss with opt
    return loss
  }

  /// What the boundary can check.
  entry moved(x: i32[B], y: i32[B]) -> (rows: f32[B, D], loss: f32) {
    return gather(tok.w, x + 1), cross_entropy(out(tok(x + 1)), y - 1, ignore = -100)
  }

  /// Writes at a place that it counts itself.
  entry append(x: f32[D]) -> (used: i32) {
    cache[used +: 1] := x[new]
    used := used + 1
    return used
  }

  /// Two tensors change, one of them as a whole.
  entry both(x: f32[D]) -> (used: i32) {
    sums := sums + x
    cache[used] := x
    used := used + 1
    return used
  }

  entry read() -> (row: f32[D]) = cache[used]
  entry tail() -> (rows: f32[3, D]) = cache[used - 3 +: 3]
  entry pair(a: i32[B], b: i32[B]) -> (rows: f32[B, D]) = gather(tok.w, a + b)
  entry hot(a: f32[B]) -> (rows: f32[B, V]) = one_hot(i32(a), V)
  entry right(z: f32[B, V], y: f32[B]) -> (share: f32) = accuracy(z, i32(y), ignore = -1)

  /// Two lookups: the first that fails is named.
  entry two(a: f32[B], b: f32[B]) -> (sum: f32) {
    rows = gather(tok.w, i32(a))
    return sum(rows) + sum(gather(cache, i32(b)))
  }
}
"""


def write_model(folder: Path) -> Path:
    path = folder / "ranges.wg"
    path.write_text(TEXT)
    return path


def line_of(text: str) -> str:
    """`ranges.wg:12`, the line that holds this text."""
    return f"ranges.wg:{TEXT[: TEXT.index(text)].count(chr(10)) + 1}"
