"""Arrays of callers: unusual forms mean the same as plain ones, wrong ones are named in errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import line_bundle
import wgcc_runtime
from line_bundle import COLS, ROWS
from line_training import refused
from web_stacks import add_web_files, run_job
from wgcc_runtime import Model

X = (np.arange(ROWS * COLS, dtype=np.float32).reshape(ROWS, COLS) - 15.0) / 8
IDS = np.array([3, -1, 0])


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return line_bundle.write_bundle(tmp_path_factory.mktemp("arrays") / "bundle")


@pytest.fixture(scope="module")
def model(bundle: Path) -> Model:
    return wgcc_runtime.load(bundle, device="lavapipe")


class HasArray:
    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self.make()


def raises() -> Any:
    raise ZeroDivisionError("inside")


def read_only(array: Any) -> Any:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


WIDE = np.zeros((2 * ROWS, 2 * COLS), np.float32)
WIDE[::2, ::2] = X
ODD: dict[str, Any] = {
    "big-endian": X.astype(">f4"),
    "big-endian f64": X.astype(">f8"),
    "columns first": np.asfortranarray(X),
    "every second": WIDE[::2, ::2],
    "backwards": X[::-1, ::-1].copy()[::-1, ::-1],
    "transposed": X.T.copy().T,
    "read-only": read_only(X),
    "f64": X.astype(np.float64),
    "f16": X.astype(np.float16),
    "long double": X.astype(np.longdouble),
    "lists": X.tolist(),
    "tuple of rows": tuple(X),
    "unaligned": np.frombuffer(b"?" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(X.shape),
    "memoryview": memoryview(X),
    "subclass": X.view(np.recarray).view(np.ndarray),
    "has __array__": HasArray(lambda: X),
    "nothing masked": np.ma.masked_array(X, mask=False),
    "scalars": [[np.float64(v) for v in row] for row in X],
}


@pytest.mark.parametrize("name", ODD)
def test_odd_arrays_mean_the_same(name: str, model: Model) -> None:
    expected = model.predict(x=X)["p"]
    np.testing.assert_array_equal(model.predict(x=ODD[name])["p"], expected)


ODD_IDS: dict[str, Any] = {
    "i64": IDS.astype(np.int64),
    "i8": IDS.astype(np.int8),
    "big-endian": IDS.astype(">i8"),
    "list": IDS.tolist(),
    "every second": np.repeat(IDS, 2)[::2],
    "range": np.arange(3),
    "truth": np.array([True, False, True]),
}


@pytest.mark.parametrize("name", ODD_IDS)
def test_odd_integers_mean_the_same(name: str, model: Model) -> None:
    w = model.params()["w"]
    wanted = [w[i] if i >= 0 else 0 for i in np.asarray(ODD_IDS[name]).astype(int)]
    np.testing.assert_array_equal(model.pick(ids=ODD_IDS[name])["rows"], wanted)


WRONG: dict[str, tuple[Any, str, str]] = {
    "one column short": (X[:, :-1], "shape", r"\[8, 3\], not \[8, 4\]"),
    "flat": (X.ravel(), "shape", r"\[32\], not"),
    "turned": (X.T, "shape", r"\[4, 8\], not"),
    "one axis more": (X[None], "shape", r"\[1, 8, 4\], not"),
    "empty": (np.zeros((0, 4)), "shape", "has no rows"),
    "a number": (1.0, "shape", r"\[\], not"),
    "NaN": (np.where(X == 0, np.nan, X), "not-finite", r"nan at \[3, 3\]"),
    "infinity": (np.where(X == 0, -np.inf, X), "not-finite", "-inf"),
    "beyond f32": (X.astype(np.float64) * 1e39, "not-finite", "not a finite f32"),
    "complex": (X.astype(complex), "dtype", "complex"),
    "text": (X.astype(str), "dtype", "not numbers"),
    "bytes": (b"abc", "dtype", "not numbers"),
    "objects": (X.astype(object), "dtype", "not numbers"),
    "dates": (X.astype("datetime64[s]"), "dtype", "not numbers"),
    "records": (np.zeros((8, 4), [("a", "f4")]), "dtype", "not numbers"),
    "ragged": ([[1.0] * 4] * 7 + [[1.0]], "dtype", "cannot be read"),
    "nothing": (None, "dtype", "not an array of numbers"),
    "a generator": ((row for row in X), "dtype", "not an array of numbers"),
    "a dict": ({"x": 1}, "dtype", "not an array of numbers"),
    "a set": ({1.0}, "dtype", "not an array of numbers"),
    "fails": (HasArray(raises), "dtype", "inside"),
    "masked": (np.ma.masked_array(X, mask=X > 0), "dtype", "masked"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arrays_are_named(name: str, model: Model) -> None:
    value, code, text = WRONG[name]
    with refused(code, f"x.*{text}" if code != "dtype" else text):
        model.predict(x=value)


WRONG_IDS: dict[str, tuple[Any, str]] = {
    "beyond": ([0, 4, 0], "range"),
    "below": ([0, -2, 0], "range"),
    "far beyond": ([0, 2**40, 0], "range"),
    "beyond i64": ([0, 2**63, 0], "dtype"),
    "beyond all": ([0, 2**70, 0], "dtype"),
    "floats": ([0.0, 1.0, 2.0], "dtype"),
    "NaN": ([0.0, np.nan, 2.0], "dtype"),
    "short": ([0, 1], "shape"),
}


@pytest.mark.parametrize("name", WRONG_IDS)
def test_wrong_integers_are_named(name: str, model: Model) -> None:
    value, code = WRONG_IDS[name]
    with refused(code, "ids"):
        model.pick(ids=value)


def test_wrong_names_are_named(model: Model) -> None:
    for inputs in ({"X": X}, {}, {"x": X, "y": X}, {"__proto__": X}, {"self": X}):
        with refused("name"):
            model.predict(**inputs)


def test_outputs_are_the_callers_own(model: Model) -> None:
    first = model.predict(x=X)["p"]
    kept = first.copy()
    first[:] = 7
    np.testing.assert_array_equal(model.predict(x=X)["p"], kept)
    params = model.params()["w"]
    params[:] = 7
    assert not (model.params()["w"] == 7).all()


def test_in_javascript(bundle: Path, tmp_path: Path) -> None:
    web = add_web_files(line_bundle.write_bundle(tmp_path / "bundle"))
    seen = run_job("node", web, "arrays", {"x": X.ravel().tolist()})
    assert set(seen["odd"].values()) == {"same"}, seen["odd"]
    assert seen["wrong"] == {
        "short": "shape", "long": "shape", "empty": "shape", "oneNumber": "shape",
        "turned": "shape", "nan": "not-finite", "infinity": "not-finite", "tooLarge": "not-finite",
        "text": "dtype", "numberText": "dtype", "nothing": "name", "missing": "name",
        "object": "dtype", "date": "dtype", "view": "dtype", "buffer": "dtype", "func": "dtype",
        "hole": "not-finite", "objects": "dtype", "nested": "shape", "lengthOnly": "dtype",
        "bigints": "fine", "detached": "shape", "otherName": "name", "prototype": "name",
    }  # fmt: skip
    assert seen["ids"] == {
        "beyond": "range", "below": "range", "floats": "dtype", "fractions": "dtype",
        "tooLarge": "range", "short": "shape", "nan": "dtype", "ignored": "fine",
        "bigints": "fine", "unsigned": "range",
    }  # fmt: skip
