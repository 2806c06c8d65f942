"""What `fit` takes beside dicts of arrays, and how it ends: frames, loaders, `(X, y)`, patience."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas
import polars
import pytest

import wgcc
from refusal import refusal
from wgcc_runtime import EarlyStopping, Model, read_data
from wgcc_runtime.fit import ELSEWHERE

TEXT = """dim B = 4
model Net {
  l: Linear[2, 1]
  optimizer opt: sgd { lr = 0.1 }
  entry train(x: f32[B, 2], y: f32[B, 1]) -> (loss: f32) {
    loss = mse(l(x), y)
    minimize loss with opt
    return loss
  }
  entry eval(x: f32[B, 2], y: f32[B, 1]) -> (loss: f32) = mse(l(x), y)
  entry predict(x: f32[B, 2]) -> (y: f32[B, 1]) = l(x)
}
"""
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
Y = X @ np.array([1.0, -2.0], np.float32) + 1


@pytest.fixture
def model() -> Model:
    return wgcc.compile(TEXT, device="wasm")


@pytest.fixture
def classes() -> Model:
    return wgcc.compile(CLASSES, device="wasm")


def frames() -> Iterator[tuple[Any, Any]]:
    columns = {"a": X[:, 0], "b": X[:, 1]}
    yield pandas.DataFrame(columns, index=np.arange(10) * 7), pandas.Series(Y, name="y")
    yield polars.DataFrame(columns), polars.Series("y", Y)
    yield pandas.DataFrame(columns), pandas.DataFrame({"y": Y})
    yield X.tolist(), Y.tolist()


def test_inputs_and_targets_of_every_kind(model: Model) -> None:
    expected = model.fit({"x": X, "y": Y[:, None]}, steps=6, every=1).losses
    for x, y in frames():
        model.reset()
        assert model.fit(x, y, steps=6, every=1).losses == expected
    first = next(frames())[0]
    assert np.array_equal(model.predict(first)["y"], model.predict(X)["y"])


def test_labels_may_have_an_axis(classes: Model) -> None:
    labels = np.arange(10) % 3
    expected = classes.fit(X, labels, steps=4, every=1).losses
    classes.reset()
    assert classes.fit(X, labels[:, None], steps=4, every=1).losses == expected


def test_loaders_that_yield_tuples(model: Model) -> None:
    batches = [(X[:4], Y[:4, None]), [X[4:8], Y[4:8, None]]]
    named = [dict(zip("xy", batch, strict=True)) for batch in batches]
    expected = model.fit(named, epochs=3, every=1).losses
    model.reset()
    assert model.fit(batches, epochs=3, every=1).losses == expected and len(expected) == 6
    text = "train: a batch has 3 parts, but the entry takes x, y"
    assert refusal(lambda: model.fit([(1, 2, 3)], steps=1)).message == text


def test_a_partial_batch_counts_its_own_rows(model: Model) -> None:
    """Two of four rows, each twice, have the mean of the two."""
    short = [(X[:2], Y[:2, None])]
    twice = [(np.concatenate([X[:2]] * 2), np.concatenate([Y[:2, None]] * 2))]
    losses = []
    for data in (short, twice):
        model.reset()
        losses.append(model.fit(data, steps=3, every=1).losses)
    assert losses[0] == losses[1]


def test_partial_batches_are_dropped_or_filled(model: Model) -> None:
    loader = [(X[:4], Y[:4, None]), (X[4:8], Y[4:8, None]), (X[8:], Y[8:, None])]
    assert model.fit(loader, epochs=2, partial="drop").reports[-1].step == 4
    model.reset()
    assert model.fit(loader, epochs=2).reports[-1].step == 6
    model.reset()
    assert model.fit(X, Y, epochs=2).reports[-1].step == 4
    model.reset()
    assert model.fit(X, Y, epochs=2, partial="fill").reports[-1].step == 6
    model.reset()
    assert model.fit(X[:3], Y[:3], epochs=2, partial="fill").reports[-1].step == 2
    assert 'partial="fill"' in refusal(lambda: model.fit(X[:3], Y[:3], epochs=1)).message
    assert "`partial` is" in refusal(lambda: model.fit(X, Y, epochs=1, partial="pad")).message


class Samples:
    """As a `torch.utils.data.Dataset`: samples by number, which is no iterable."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, number: int) -> Any:
        return X[number], Y[number : number + 1]


# A class with `__getitem__` is iterable to Python, but not to `isinstance`.
def test_sets_of_samples(model: Model) -> None:
    expected = model.fit(X, Y, epochs=2).losses
    model.reset()
    assert model.fit(Samples(), epochs=2).losses == expected


class Tensor:
    """As a tensor of PyTorch."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self._values, dtype)

    def __len__(self) -> int:
        return len(self._values)


def test_tensors(model: Model) -> None:
    expected = model.fit(X, Y, epochs=2).losses
    model.reset()
    assert model.fit(Tensor(X), Tensor(Y), epochs=2).losses == expected
    model.reset()
    assert model.fit([(Tensor(X[:4]), Tensor(Y[:4, None]))], epochs=1).stopped == "steps"


class GradientTensor:
    """As one of PyTorch that has a gradient, or a type that numpy lacks: numpy cannot read it."""

    device = SimpleNamespace(type="cuda")
    is_sparse = False
    dtype = "torch.bfloat16"

    def __init__(self, values: Any, requires_grad: bool = True) -> None:
        self._values, self.requires_grad = values, requires_grad

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("Got unsupported ScalarType BFloat16")

    def __len__(self) -> int:
        return len(self._values)

    def detach(self) -> GradientTensor:
        return GradientTensor(self._values, requires_grad=False)

    def cpu(self) -> GradientTensor:
        return self

    def float(self) -> Tensor:
        assert not self.requires_grad
        return Tensor(self._values)


def test_tensors_that_numpy_cannot_read(model: Model) -> None:
    expected = model.fit(X, Y, epochs=2).losses
    model.reset()
    assert model.fit(GradientTensor(X), GradientTensor(Y), epochs=2).losses == expected
    model.reset()
    expected = model.fit([(X[:4], Y[:4, None])], epochs=1).losses
    model.reset()
    rows = [GradientTensor(row) for row in X[:4]]
    assert model.fit([(rows, GradientTensor(Y[:4, None]))], epochs=1).losses == expected


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (
            pandas.DataFrame({"a": X[:, 0], "b": ["x"] * 10}),
            "train: `x`, column `b` holds 'x' in row 0, not a number",
        ),
        (
            pandas.DataFrame({"a": X[:, 0], "b": [1.0] * 7 + [None] * 3}),
            "train: `x` holds nan at row 7 of column `b`, not a finite f32; where that is meant, "
            "declare the input as `f32?`",
        ),
        (
            polars.DataFrame({"a": X[:, 0], "b": [1.0] * 7 + [None] * 3}),
            "train: `x` holds nan at row 7 of column `b`",
        ),
        (
            pandas.DataFrame({"a": X[:, 0], "b": pandas.array([1] * 9 + [None], "Int64")}),
            "train: `x` holds nan at row 9 of column `b`",
        ),
        (
            pandas.DataFrame({"a": X[:, 0], "when": pandas.date_range("2020", periods=10)}),
            "train: `x`, column `when` holds datetime64[us], not numbers",
        ),
        (
            pandas.DataFrame({"a": X[:, 0]}),
            "train: `x` has shape [10, 1] (columns a); the model takes [4, 2]",
        ),
        (X[:9], "train: the numbers of rows differ: `x` 9, `y` 10"),
    ],
)
def test_wrong_frames_name_column_and_row(model: Model, x: Any, message: str) -> None:
    assert refusal(lambda: model.fit(x, Y, steps=1)).message.startswith(message)


def test_frames_alone_are_refused_with_a_way_out(model: Model) -> None:
    frame = next(frames())[0]
    assert "read_data(frame, model)" in refusal(lambda: model.fit(frame, steps=1)).message
    assert "row 3 of column `b`" in refusal(lambda: model.predict(with_nan(frame))).message


TABLE = """dim B = 4
model Net {
  l: Linear[2, 3]
  optimizer opt: sgd { lr = 0.1 }
  entry train(x: f32[B, 2], kind: i32[B]) -> (loss: f32) {
    loss = cross_entropy(l(x), kind)
    minimize loss with opt
    return loss
  }
  entry predict(x: f32[B, 2]) -> (scores: f32[B, 3]) = l(x)
}
"""


@pytest.mark.parametrize("library", [pandas, polars])
def test_tables_with_classes_and_missing_cells(library: Any, tmp_path: Any) -> None:
    model = wgcc.compile(TABLE, device="wasm")
    kinds = ["cat", "dog", None, "bee", "dog", "cat"]
    frame = library.DataFrame(
        {"size": [1.5, 2, 3, 4, 5, 6], "age": [1, 2, 3, 4, 5, 6], "kind": kinds}
    )
    read = read_data(frame, model, scale=True)
    lines = [
        f"{s},{a},{k or ''}" for s, a, k in zip(frame["size"], frame["age"], kinds, strict=True)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["size,age,kind", *lines]))
    same = read_data(tmp_path / "t.csv", model, scale=True)
    assert read.rows == same.rows == 5
    assert all(np.array_equal(read.arrays[name], same.arrays[name]) for name in same.arrays)
    model.fit(read, epochs=1)
    assert model.classes == ["bee", "cat", "dog"]
    assert repr(read) == "<Data: 5 rows; x [5, 2], kind [5]>"


def test_wrong_tables_name_the_place() -> None:
    model = wgcc.compile(TABLE, device="wasm")
    frame = pandas.DataFrame({"size": [1.0, 2], "age": [3.0, "old"], "kind": ["a", "b"]})
    assert "row 1" in refusal(lambda: read_data(frame, model, columns=["size", "age"])).message
    nested = pandas.DataFrame({"size": [1.0, 2], "age": [[1], [2]], "kind": ["a", "b"]})
    assert "the frame, row 0, column 2" in refusal(lambda: read_data(nested, model)).message
    assert "the frame" in refusal(lambda: read_data(frame[:0], model)).message


def with_nan(frame: Any) -> Any:
    changed = frame.copy()
    changed.iloc[3, 1] = np.nan
    return changed


def test_validation(model: Model) -> None:
    history = model.fit(X, Y, epochs=3, validation=(X[:4], Y[:4]))
    assert set(history.reports[-1].eval) == {"loss"}
    model.reset()
    history = model.fit(X, Y, epochs=3, validation=0.2, every=2)
    assert history.reports[-1].step == 6 and history.reports[-1].eval["loss"] > 0
    assert "between 0 and 1" in refusal(lambda: model.fit(X, Y, steps=1, validation=2.0)).message
    both = refusal(lambda: model.fit(X, Y, steps=1, validation=0.2, eval={"x": X, "y": Y}))
    assert "exclude each other" in both.message


def test_validation_needs_an_entry(classes: Model) -> None:
    labels = np.arange(10) % 3
    failure = refusal(lambda: classes.fit(X, labels, steps=1, validation=(X, labels)))
    assert "an entry `eval`" in failure.message


def test_patience_keeps_the_best_values(model: Model) -> None:
    """The evaluated numbers fall, then rise."""
    numbers = iter([3.0, 2.0, 1.0, 2.0, 3.0, 4.0])
    seen = {}

    def evaluate(model: Model) -> dict[str, float]:
        number = next(numbers)
        seen[number] = model.params()["l.w"].copy()
        return {"loss": number}

    history = model.fit(X, Y, steps=100, every=2, eval=evaluate, patience=2)
    assert (history.stopped, history.reports[-1].step, model.steps_done) == ("callback", 10, 6)
    assert np.array_equal(model.params()["l.w"], seen[1.0])


def test_early_stopping_options(model: Model) -> None:
    highest = EarlyStopping(1, monitor="score", mode="max", keep_best=False)
    scores = iter([1.0, 2.0, 1.5])
    history = model.fit(
        X, Y, steps=50, every=1, eval=lambda _: {"score": next(scores)}, callbacks=[highest]
    )
    assert history.reports[-1].step == model.steps_done == 3 and highest.best_step == 2
    failure = refusal(lambda: model.fit(X, Y, steps=2, callbacks=[EarlyStopping(1, "scores")]))
    assert "no number `scores`; there are loss" in failure.message
    assert "`patience` is a whole number" in refusal(lambda: EarlyStopping(0)).message
    assert '"min" or "max"' in refusal(lambda: EarlyStopping(1, mode="up")).message


def test_the_best_values_are_in_the_checkpoint(model: Model, tmp_path: Any) -> None:
    numbers = iter([1.0, 2.0])
    place = tmp_path / "best.safetensors"
    options = {"steps": 9, "every": 3, "patience": 1, "checkpoint": place}
    model.fit(X, Y, eval=lambda _: {"loss": next(numbers)}, **options)
    best = model.params()["l.w"]
    model.reset()
    model.load(place)
    assert model.steps_done == 3 and np.array_equal(model.params()["l.w"], best)


def test_history(model: Model) -> None:
    history = model.fit(X, Y, steps=20, eval={"x": X, "y": Y[:, None]})
    frame = history.frame()
    assert list(frame.columns) == ["step", "loss", "eval_loss", "ms"]
    assert frame["loss"].tolist() == history.losses
    assert repr(history).startswith("<History: 2 reports, step 20: loss ")
    assert repr(type(history)()) == "<History without reports>"
    page = history._repr_html_()
    assert "<th>eval_loss</th>" in page and page.count("<tr>") == 3 and "&lt;History" in page
    axes = Axes()
    assert history.plot(axes) is axes
    assert [line[:2] for line in axes.lines] == [
        ([10, 20], history.losses),
        ((10, 20), tuple(report.eval["loss"] for report in history.reports)),
    ]


class Axes:
    """As those of matplotlib, which need not be installed."""

    def __init__(self) -> None:
        self.lines: list[Any] = []

    def plot(self, *points: Any, label: str) -> None:
        self.lines.append((*points, label))

    def set_xlabel(self, _: str) -> None: ...

    def legend(self) -> None: ...


def test_errors_have_few_frames(model: Model) -> None:
    def evaluate(model: Model) -> None:
        model.predict("no numbers")

    calls = {
        1: lambda: model.fit(X, Y[:3], steps=1),
        2: lambda: model.fit(X, Y, steps=1, eval=evaluate),
    }
    for own, call in calls.items():
        frames = traceback.extract_tb(refusal(call).__traceback__)
        names = [frame.name for frame in frames if "wgcc_runtime" in frame.filename]
        assert names == ["fit"]
        assert [frame.name for frame in frames].count("evaluate") == own - 1


def test_unknown_options_have_a_suggestion(model: Model) -> None:
    failure = refusal(lambda: model.fit(X, Y, stepz=3))
    assert failure.message == "fit: `stepz` is not an option; did you mean `steps`?"
    for name, advice in ELSEWHERE.items():
        failure = refusal(lambda name=name: model.fit(X, Y, **{name: 3}))  # type: ignore[misc]
        assert failure.message == f"fit: `{name}` is not an option: {advice}"
    text = "`train` takes x, y, z"
    three = wgcc.compile(
        TEXT.replace(
            "train(x: f32[B, 2], y: f32[B, 1])", "train(x: f32[B, 2], y: f32[B, 1], z: f32)"
        ).replace("minimize loss with opt", "minimize loss with opt(lr = z)"),
        device="wasm",
    )
    assert refusal(lambda: three.fit(X, Y, steps=1)).message.startswith(text)
