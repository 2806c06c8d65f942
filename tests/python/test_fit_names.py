"""`fit(X, y)`: labels that are names, and columns of frames that are found by name."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest

import wgcc
from refusal import refusal
from wgcc_runtime import Model

CLASSES = """dim B = 4
model Net {
  l: Linear[2, 3]
  optimizer opt: sgd { lr = 0.1 }
  entry train(x: f32[B, 2], y: i32[B]) -> (loss: f32) {
    loss = cross_entropy(l(x), y)
    minimize loss with opt
    return loss
  }
  entry predict(x: f32[B, 2]) -> (y: f32[B, 3]) = l(x)
}
"""
X = np.random.default_rng(0).normal(size=(10, 2)).astype(np.float32)
NAMES = np.array(["yes", "no", "perhaps"])[np.arange(10) % 3]


@pytest.fixture
def classes() -> Model:
    return wgcc.compile(CLASSES, device="wasm")


@pytest.mark.parametrize("labels", [NAMES, NAMES.tolist(), pandas.Series(NAMES), NAMES[:, None],
                                    pandas.Series(NAMES, dtype="category")])  # fmt: skip
def test_labels_may_be_names(classes: Model, labels: Any) -> None:
    ids = [["no", "perhaps", "yes"].index(name) for name in NAMES]
    expected = classes.fit(X, np.array(ids), steps=4, every=1).losses
    classes.reset()
    assert classes.fit(X, labels, steps=4, every=1).losses == expected
    assert classes.classes == ["no", "perhaps", "yes"]


def test_names_of_labels_are_kept(classes: Model, tmp_path: Path) -> None:
    """New names get no id of another class, in memory, in copies and in checkpoints."""
    others = np.where(NAMES == "no", "never", NAMES)
    classes.fit(X, NAMES, steps=4)
    classes.save(tmp_path / "w.safetensors")
    again = wgcc.compile(CLASSES, device="wasm")
    again.load(tmp_path / "w.safetensors")
    for model in (classes, pickle.loads(pickle.dumps(classes)), again):
        assert model.classes == ["no", "perhaps", "yes"]
        assert "`y` is 'never'" in str(refusal(lambda model=model: model.fit(X, others, steps=1)))
        model.fit(X[:5], np.array(["yes"] * 5), steps=1)
        assert model.classes == ["no", "perhaps", "yes"]


def test_labels_without_a_name_are_refused_with_their_row(classes: Model) -> None:
    labels = [*NAMES[:3], None, *NAMES[4:]]
    assert "`y` has no value in row 3" in str(refusal(lambda: classes.fit(X, labels, steps=1)))
    four = np.array(["a", "b", "c", "d"])[np.arange(10) % 4]
    assert "4 classes" in str(refusal(lambda: classes.fit(X, four, steps=1)))


def test_one_hot_labels_are_told_their_classes(classes: Model) -> None:
    failure = refusal(lambda: classes.fit(X, np.eye(3)[np.arange(10) % 3], steps=1))
    assert "`y.argmax(-1)` are the classes" in str(failure)


def test_callbacks_are_checked_before_the_first_step(classes: Model) -> None:
    steps: list[int] = []
    classes.fit(X, NAMES, steps=2, every=1, callbacks=lambda report: steps.append(report.step))
    assert steps == [1, 2]
    for wrong in (3, [3], ["stop"]):
        failure = refusal(lambda wrong=wrong: classes.fit(X, NAMES, steps=2, callbacks=wrong))
        assert "each is a function of a `Report`" in failure.message and classes.steps_done == 2


def test_evaluation_has_the_classes_of_the_training() -> None:
    entry = "  entry eval(x: f32[B, 2], y: i32[B]) -> (loss: f32) = cross_entropy(l(x), y)\n}\n"
    model = wgcc.compile(CLASSES.removesuffix("}\n") + entry, device="wasm")
    some = NAMES != "no"
    report = model.fit(X, NAMES, steps=1, every=1, eval=(X[some][:4], NAMES[some][:4])).reports[0]
    ids = np.array([["no", "perhaps", "yes"].index(name) for name in NAMES[some][:4]], np.int32)
    assert report.eval == model.eval(X[some][:4], ids)
    held_out = model.fit(X, NAMES, steps=1, every=1, validation=0.4)
    assert held_out.reports[0].eval is not None


@pytest.mark.parametrize("frame_of", [pandas.DataFrame, polars.DataFrame])
def test_predictions_find_the_columns_of_a_frame_by_name(classes: Model, frame_of: Any) -> None:
    frame = frame_of({"a": X[:, 0], "b": X[:, 1]})
    classes.fit(frame, np.arange(10) % 3, steps=2)
    expected = classes.predict(X)["y"]
    assert np.array_equal(classes.predict(frame[["b", "a"]])["y"], expected)
    text = str(refusal(lambda: classes.predict(frame[["b"]])))
    assert "the frame of `x`" in text and "no column `a`" in text


def test_data_that_is_refused_leaves_nothing_behind(classes: Model) -> None:
    frame = pandas.DataFrame(X, columns=["a", "b"])
    classes.fit(frame, NAMES, steps=2)
    refusal(lambda: classes.fit(frame[["a"]], NAMES, steps=1))
    assert "no column `b`" in str(refusal(lambda: classes.predict(frame[["a"]])))
