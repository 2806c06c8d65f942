"""Every dispatch has its place in the model, also where equal layers share kernels."""

from __future__ import annotations

from pathlib import Path

from wgcc.bundle.model_places import model_places
from wgcc.compiler import compile_file

STACK = """
dim B = 32
layer Block[D] {
  norm: RMSNorm[D]
  f: Linear[D, D](bias = false)
  fn forward[B](x: f32[B, D]) -> f32[B, D] = x + f(norm(x))
}
model Net {
  blocks[3]: Block[16]
  out: Linear[16, 1]
  optimizer opt: adam { lr = 0.01 }
  entry train(x: f32[B, 16], y: f32[B, 1]) -> (loss: f32) {
    for block in blocks { x = block(x) }
    loss = mse(out(x), y)
    minimize loss with opt
    return loss
  }
}
"""


def test_equal_layers_share_kernels_and_have_places_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "model.wg"
    path.write_text(STACK)
    plan = compile_file(path).plan()
    places = list(map(str, model_places(plan, "train")))
    dispatches = plan["entries"]["train"]["dispatches"]
    for number in range(3):
        assert {f"blocks.{number}.f", f"blocks.{number}.f backward"} <= set(places)
    by_kernel: dict[int, set[str]] = {}
    for dispatch, place in zip(dispatches, places, strict=False):
        by_kernel.setdefault(dispatch["kernel"], set()).add(place)
    assert any(len(shared) > 1 for shared in by_kernel.values())
    updates = [d["label"] for d, p in zip(dispatches, places, strict=False) if p == "optimizer"]
    assert "adam_update" in updates


def test_what_an_entry_computes_itself_is_its_own(tmp_path: Path) -> None:
    path = tmp_path / "model.wg"
    path.write_text("model M {\n  entry f(x: f32[4]) -> (y: f32[4]) = x * 2\n}\n")
    assert list(map(str, model_places(compile_file(path).plan(), "f"))) == ["entry"]
