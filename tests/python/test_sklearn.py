"""Estimators for scikit-learn: its own checks, and programs of one's own."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import SkipTestWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import wgcc
from wgcc.sklearn import WgClassifier, WgRegressor


@pytest.mark.parametrize("estimator", [WgClassifier(epochs=30), WgRegressor(epochs=30)], ids=str)
def test_scikit_learns_own_checks(estimator: Any) -> None:
    with warnings.catch_warnings():
        # Checks of array libraries that are not installed.
        warnings.simplefilter("ignore", SkipTestWarning)
        check_estimator(estimator)


def test_classes() -> None:
    x, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    flowers = WgClassifier(epochs=40).fit(x, names)
    assert flowers.score(x, names) > 0.95 and list(flowers.classes_) == sorted(set(names))
    np.testing.assert_allclose(flowers.predict_proba(x).sum(axis=1), 1)
    steps = make_pipeline(StandardScaler(), WgClassifier(epochs=40, scale=False))
    assert cross_val_score(steps, x, y, cv=3).min() > 0.8


def test_numbers() -> None:
    x, y = load_diabetes(return_X_y=True)
    assert WgRegressor(epochs=30).fit(x, y).score(x, y) > 0.5


LINEAR = """const rate = 0.1
dim B = 16, F = 1
model Line {
  l: Linear[F, 1]
  optimizer opt: adam { lr = rate }
  entry train(x: f32[B, F], y: f32[B, 1]) -> (loss: f32) {
    loss = mse(l(x), y)
    minimize loss with opt
    return loss
  }
  entry predict(x: f32[B, F]) -> (y: f32[B, 1]) = l(x)
}
"""


def test_own_programs_and_searches() -> None:
    x = np.random.default_rng(1).normal(size=(60, 3))
    y = x @ [1.0, -2.0, 3.0] + 5
    rates = [{"rate": rate} for rate in (1e-5, 0.1)]
    search = GridSearchCV(WgRegressor(LINEAR, epochs=60), {"constants": rates}, cv=2).fit(x, y)
    assert search.best_params_ == {"constants": {"rate": 0.1}} and search.best_score_ > 0.99


def test_errors_of_programs_are_diagnostics() -> None:
    with pytest.raises(wgcc.CompileError, match="WG0201"):
        WgRegressor(LINEAR.replace("mse(l(x)", "mse(q(x)")).fit([[1.0], [2.0]], [1.0, 2.0])
    with pytest.raises(wgcc.CompileError, match="no such file"):
        WgRegressor("missing.wg").fit([[1.0], [2.0]], [1.0, 2.0])


def test_wrong_cells_of_frames_are_named() -> None:
    frame = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "b": [0.5, float("nan"), 0.1]})
    with pytest.raises(ValueError, match=r"contains NaN(?s:.*)row 1 of column `b` is .*nan"):
        WgRegressor().fit(frame, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="row 2 of column `a` is 'none'"):
        WgClassifier().fit(frame.assign(a=[1, 2, "none"]), [0, 1, 1])
