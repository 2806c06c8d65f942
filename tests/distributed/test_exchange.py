"""Training steps in two halves: which entries have them, and that they are the same step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from adapters import NAMES
from building import TWIN, build
from wgcc.compiler import compile_file
from wgcc.schedule.kernel import Exchange
from wgcc_runtime import WgccError

# Everything a step can have: state, random numbers, a loop, clipping, accumulation, averages, and
# an optimizer with a schedule; the loss is computed where the gradients' norm is.
ALL = """
dim B = 8
layer Cell {
  mix: Linear[5, 5]
  fn step(h: f32[B, 5], x: f32[B, 5]) -> (f32[B, 5], f32[B, 5]) {
    new = tanh(mix(h) + x)
    return new, new
  }
}
model All {
  seed = 3
  a: Linear[5, 5]
  norm: BatchNorm[5]
  cell: Cell
  out: Linear[5, 1]
  state calls: f32 = 0.0
  optimizer opt: adamw {
    lr = 0.01 / sqrt(step); clip_norm = 0.5; accumulate = 2; ema = 0.9
    group "*.b" { weight_decay = 0.0 }
  }
  entry train(x: f32[B, 5], y: f32[B, 1]) -> (loss: f32, norm_was: f32) {
    h = dropout(norm(relu(a(x))), 0.2)
    last, _ = scan(cell.step, zeros(f32[B, 5]), stack([h, h * 0.5, x], axis = 0))
    loss = mse(out(last), y)
    minimize loss with opt
    calls := calls + loss
    return loss, opt.grad_norm
  }
}
"""
TWO = """
model Two {{
  a: Linear[4, 3]
  b: Linear[3, 1]
  optimizer one: {first}
  optimizer two: {second}
  entry train(x: f32[6, 4], y: f32[6, 1]) -> (loss: f32) {{
    loss = mse(b(tanh(a(x))), y)
    {body}
    return loss
  }}
}}
"""
LATER = "later = mse(b(tanh(a(x))), y); minimize later with two"
TWICE = f'minimize loss with one over "a.*"; {LATER}'
IN_TURN = f'{TWICE} over "b.*"'
SGD = "sgd { lr = 0.1 }"
BODY = 'minimize loss with one over "a.*"; minimize loss with two over "b.*"'


def exchange(tmp_path: Path, text: str) -> Exchange:
    path = tmp_path / "model.wg"
    path.write_text(text, encoding="utf-8")
    found = compile_file(path).schedule.entries["train"].exchange
    assert found is not None
    return found


def two(first: str = SGD, second: str = SGD, body: str = BODY) -> str:
    return TWO.format(first=first, second=second, body=body)


def test_several_optimizers_have_one_exchange(tmp_path: Path) -> None:
    found = exchange(tmp_path, two())
    assert not found.why
    # Each gradient on its boundary of 64 words: 12 and 3 numbers of `a`, 3 and 1 of `b`.
    assert sum(place.count for place in found.gradients) == 3 * 64 + 1


def test_counters_are_not_in_the_way_of_gradients(tmp_path: Path) -> None:
    """Those of `one` share no kernel with the gradient of `b.b`, which is one element, too."""
    found = exchange(tmp_path, two("sgd { lr = 0.1; accumulate = 2 }"))
    assert not found.why and sum(place.count for place in found.gradients) == 3 * 64 + 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (two("muon { lr = 0.1 }", body='minimize loss with one over "a.w"'), "`one` (muon)"),
        (two("adafactor { lr = 0.1 }"), "`one` (adafactor) reads gradients one by one"),
        (two(second="sgd { lr = 0.1; clip_param_norm = 1.0 }"), "`clip_param_norm` of"),
        (two(body="a.w := a.w - 0.1 * grad(loss, a.w)"), "no `minimize` updates its parameters"),
        (two(body=BODY + "; a.b := a.b * 0.5"), "`:=` updates the parameter `a.b`"),
        (
            two(body=TWICE),
            "two updates of the parameter `a.w`",
        ),
        (
            two(body=IN_TURN),
            "depend on the update of another",
        ),
    ],
)
def test_entries_without_two_halves_say_why(text: str, why: str, tmp_path: Path) -> None:
    assert why in exchange(tmp_path, text).why


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exchange")
    (folder / "model.wg").write_text(ALL, encoding="utf-8")
    return build(folder / "model.wg", folder / "bundle")


def batches(count: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(1)
    sizes = {"x": (8, 5), "y": (8, 1)}
    return [
        {name: random.standard_normal(size).astype(np.float32) for name, size in sizes.items()}
        for _ in range(count)
    ]


def everything(model: Any) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in {**model.params(), **model.state()}.items()}


def test_halves_are_the_step(bundle: Path, target: str) -> None:
    """With all that may happen between: dropped halves, undone steps, other entries' reads."""
    device = NAMES.get(target, target)
    with (
        wgcc_runtime.load(bundle, device=device) as whole,
        wgcc_runtime.load(bundle, device=device) as halves,
    ):
        for batch in batches(5):
            expected = whole.train(**batch)
            halves.gradients(batch)
            before = everything(halves)  # any other use drops the half
            gradients = halves.gradients(batch)
            assert halves.apply(gradients * np.float32(3)).keys() == expected.keys()
            halves.undo()
            assert everything(halves) == before
            assert np.array_equal(halves.gradients(batch), gradients)
            found = halves.apply(gradients)
            assert {n: v.tobytes() for n, v in found.items()} == {
                n: v.tobytes() for n, v in expected.items()
            }
            assert everything(halves) == everything(whole)
        assert halves.progress.steps == whole.progress.steps == {"train": 5}


def test_gradients_are_those_of_each_parameter(bundle: Path) -> None:
    """What `apply` is given is what the optimizer uses."""
    with wgcc_runtime.load(bundle, device=TWIN) as model:
        first, second = batches(2)
        flat = model.gradients(first)
        assert flat.dtype == np.float32 and np.count_nonzero(flat) > 60
        assert model.apply(np.zeros_like(flat))["norm_was"] == 0
        flat = model.gradients(second)
        zero = model.apply(np.full_like(flat, np.float32(0)))
        assert zero["norm_was"] == 0 and zero["loss"] > 0
        assert model.progress.steps == {"train": 2}


def test_a_bad_step_is_undone(bundle: Path) -> None:
    with wgcc_runtime.load(bundle, device=TWIN) as model:
        (batch,) = batches(1)
        before, flat = everything(model), model.gradients(batch)
        with pytest.raises(WgccError, match="train, step 1: `norm_was` is nan") as caught:
            model.apply(np.where(np.arange(flat.size) == 7, np.nan, flat).astype(np.float32))
        assert caught.value.code == "nan"
        assert everything(model) == before and model.steps_done == 0


def test_misuse_is_refused(bundle: Path, tmp_path: Path) -> None:
    with wgcc_runtime.load(bundle, device=TWIN) as model:
        (batch,) = batches(1)
        with pytest.raises(WgccError, match="`apply` needs a call of `gradients`"):
            model.apply(np.zeros(3, np.float32))
        with pytest.raises(WgccError, match="`undo` needs a call of `apply`"):
            model.undo()
        with pytest.raises(WgccError, match="needs the input `y`"):
            model.gradients({"x": batch["x"]})
        flat = model.gradients(batch)
        for wrong in (flat[1:], flat.astype(np.float64), flat[None]):
            with pytest.raises(WgccError, match=f"are {flat.size:,} f32, not"):
                model.apply(wrong)
        model.apply(flat)
        model.load_params(model.params())
        with pytest.raises(WgccError, match="`undo` needs"):
            model.undo()
    source = tmp_path / "model.wg"
    source.write_text(two("adafactor { lr = 0.1 }"), encoding="utf-8")
    with wgcc_runtime.load(build(source, tmp_path / "b"), device=TWIN) as model:
        data = {"x": np.zeros((6, 4), np.float32), "y": np.zeros((6, 1), np.float32)}
        with pytest.raises(WgccError, match="cannot be exchanged: the optimizer `one`") as caught:
            model.gradients(data)
        assert caught.value.code == "exchange"
