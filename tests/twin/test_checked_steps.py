"""Steps of large models check what they will write before they write it: no copy undoes them.

A small model is built as if it were large, and one with copies beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from building import build
from line_training import assert_same, everything, refused
from web_stacks import add_web_files, run_job
from wgcc.backends.wasm import twin
from wgcc_runtime import Model

# Running means, dropout's counter, an index that the entry computes itself, several loops of work.
PROGRAM = """
dim B = 8, D = 200

model Steps {
  table: Embedding[9, D]
  up: Linear[D, 2 * D]
  norm: BatchNorm[2 * D]
  down: Linear[2 * D, 1]
  drop: Dropout(p = 0.1)

  fn forward[N](x: f32[N, D], ids: f32[N]) -> f32[N, 1] =
    (x + table(i32(ids) * 2)) |> up |> norm |> relu |> drop |> down

  optimizer opt: adam { lr = 1e-2 }

  // `steep` changes gradients, and no value.
  entry train(x: f32[B, D], ids: f32[B], y: f32[B, 1], steep: f32) -> (loss: f32) {
    z = forward(x, ids)
    loss = mse(z, y) + steep * mean(z - stop_grad(z))
    minimize loss with opt
    return loss
  }
}
"""
# The row that it returns depends on the updated parameter.
LATE_INDEX = """
model Late {
  param at: f32[1] = 1.0
  table: Embedding[4, 3]
  optimizer opt: sgd { lr = 1.0 }

  entry train(slope: f32[1]) -> (loss: f32, rows: f32[1, 3]) {
    loss = sum(at * slope)
    minimize loss with opt
    return loss, table(i32(at))
  }
}
"""
THREADS = (1, 3)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    folder = tmp_path_factory.mktemp("checked")
    source = folder / "steps.wg"
    source.write_text(PROGRAM)
    with pytest.MonkeyPatch.context() as patch:
        copied = build(source, folder / "copied")
        patch.setattr(twin, "LEAST_COPIED", 1)
        return {False: copied, True: build(source, folder / "checked")}


def batch(number: int, scale: float = 1.0, steep: float = 0.0) -> dict[str, Any]:
    random = np.random.default_rng(number)
    x, y = random.normal(size=(8, 200)), random.normal(size=(8, 1))
    ids = random.integers(0, 5, 8).astype(np.float32)
    y = (scale * y).astype(np.float32)
    return {"x": x.astype(np.float32), "ids": ids, "y": y, "steep": np.float32(steep)}


@pytest.fixture(params=THREADS)
def models(
    bundles: dict[bool, Path], request: pytest.FixtureRequest
) -> Iterator[tuple[Model, Model]]:
    """One that checks its steps, and one that copies what they change."""
    load, threads = wgcc_runtime.load, request.param
    with (
        load(bundles[True], device="wasm", threads=threads) as checked,
        load(bundles[False], device="wasm", threads=threads) as copied,
    ):
        twins = [model.plan.twin for model in (checked, copied)]
        assert [list(each.checked) for each in twins if each] == [["train"], []]
        yield checked, copied


def test_steps_have_the_same_bits(models: tuple[Model, Model]) -> None:
    losses = [model.fit([batch(i) for i in range(7)], steps=20, every=5).losses for model in models]
    assert losses[0] == losses[1]
    assert_same(*map(everything, models))
    assert not models[0]._guards["train", True]._copies


# A loss that is not finite, and one that is finite while the squares of gradients are not.
@pytest.mark.parametrize("bad", [{"scale": 1e30}, {"steep": 1e21}])
def test_a_step_that_fails_changes_nothing(
    models: tuple[Model, Model], bad: dict[str, float]
) -> None:
    said = []
    for model in models:
        model.fit([batch(i) for i in range(3)], steps=3, every=3)
        before = everything(model)
        with refused("nan", "train, step 4: .*; it first appears in .*as it was before") as refusal:
            model.train(**batch(3, **bad))
        said.append(str(refusal.value))
        assert_same(everything(model), before)
        items = [batch(4), batch(5), batch(6, **bad), batch(7)]
        with refused("nan", "step 6"):
            model.fit(items, steps=4, every=4)
        assert model.steps_done == 5
    assert said[0] == said[1]
    assert_same(*map(everything, models))


def test_an_index_out_of_range_changes_nothing(models: tuple[Model, Model]) -> None:
    bad = {**batch(3), "ids": np.full(8, 7, np.float32)}
    said = []
    for model in models:
        with refused("range") as refusal:
            model.fit([batch(0), batch(1), bad, batch(2)], steps=4, every=4)
        said.append(str(refusal.value))
        assert model.steps_done == 2
        model.train(**batch(4))
    assert said[0] == said[1]
    assert_same(*map(everything, models))


def test_an_index_of_what_was_updated_is_still_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(twin, "LEAST_COPIED", 1)
    source = tmp_path / "late.wg"
    source.write_text(LATE_INDEX)
    slopes = [{"slope": np.float32([slope])} for slope in (-1.0, -1.0, -1.0, 2.0)]
    with wgcc_runtime.load(build(source, tmp_path / "late"), device="wasm") as model:
        with refused("range", "step 3: an id"):
            model.fit(slopes, steps=4, every=4)
        assert model.steps_done == 2
        assert model.params()["at"] == 3.0


def test_half_steps_are_still_undone(models: tuple[Model, Model]) -> None:
    for model in models:
        model.train(**batch(0))
        before = everything(model)
        model.apply(model.gradients(batch(1)))
        model.undo()
        assert_same(everything(model), before)
        with refused("nan"):
            model.apply(model.gradients(batch(1)) * np.float32(1e30))
        assert_same(everything(model), before)
        model.train(**batch(2))
    assert_same(*map(everything, models))


@pytest.mark.parametrize("threads", THREADS)
def test_javascript_does_the_same(bundles: dict[bool, Path], threads: int) -> None:
    checked, copied = (
        run_job("node", add_web_files(bundles[kind]), "checked", {"threads": threads})
        for kind in (True, False)
    )
    assert checked == copied
    assert checked["steps"] == [7, 7, 7] and all(checked["kept"])
    assert [text.split(":")[0] for text in checked["said"]] == [*["nan"] * 4, *["range"] * 2, "nan"]
