"""Estimators for scikit-learn: a program of wgcc that is compiled for the data it is fitted to.

Needs the extra `wgcc[sklearn]`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from wgcc.in_memory import CompiledModel, compile, declared_names
from wgcc.lazy_numpy import Array, np

# A program without a file of its own: two hidden layers.
_NETWORK = """const rate = 0.01
dim B = 32, F = 1, H = 64, C = 1
model Network {
  l1: Linear[F, H]
  l2: Linear[H, H]
  l3: Linear[H, C]
  fn forward[N](x: f32[N, F]) -> f32[N, C] = x |> l1 |> relu |> l2 |> relu |> l3
  optimizer opt: adam { lr = rate }
  entry train(x: f32[B, F], y: TARGET) -> (loss: f32) {
    loss = LOSS
    minimize loss with opt
    return loss
  }
  entry predict(x: f32[B, F]) -> (out: f32[B, C]) = forward(x)
}
"""
CLASSIFIER = _NETWORK.replace("TARGET", "i32[B]").replace("LOSS", "cross_entropy(forward(x), y)")
REGRESSOR = _NETWORK.replace("TARGET", "f32[B, C]").replace("LOSS", "mse(forward(x), y)")


class Scaling:
    """Means and deviations of columns; a column that does not vary is only shifted."""

    def __init__(self, values: Array | None) -> None:
        """If there are no values, columns stay as they are."""
        self._center: Any = 0.0
        self._spread: Any = 1.0
        if values is not None:
            wide = values.astype(np.float64)
            self._center, spread = wide.mean(axis=0), wide.std(axis=0)
            self._spread = np.where(spread > 0, spread, 1.0)

    def apply(self, values: Array) -> Array:
        scaled: Array = (values - self._center) / self._spread
        return scaled.astype(np.float32)

    def undo(self, values: Array) -> Array:
        original: Array = values.astype(np.float64) * self._spread + self._center
        return original


class _WgEstimator(BaseEstimator):  # type: ignore[misc]
    """Both estimators share this: parameters, compiling, scaling, training.

    `program`: a text or a `.wg` file with the entries `train(x, y)` and `predict(x)`; None: a
    network with two hidden layers. Of its dims, `F` is set to the number of features, `C` to that
    of classes (1 for a regression), `B` to `batch`; `sizes` and `constants` set others.
    `scale`: columns get mean 0 and deviation 1 before the program sees them, as a target of a
    regression does. `patience`: ends the training after so many reports without a lower loss.
    """

    def __init__(
        self,
        program: str | Path | None = None,
        *,
        sizes: Mapping[str, float] | None = None,
        constants: Mapping[str, float] | None = None,
        epochs: int = 100,
        batch: int = 32,
        scale: bool = True,
        patience: int | None = None,
        random_state: int | None = 0,
        device: str | None = None,
        verbose: bool = False,
    ) -> None:
        self.program, self.sizes, self.constants = program, sizes, constants
        self.epochs, self.batch, self.scale, self.patience = epochs, batch, scale, patience
        self.random_state, self.device, self.verbose = random_state, device, verbose

    def _fit(self, x: Array, y: Array, outputs: int, default: str) -> None:
        self._columns = Scaling(x if self.scale else None)
        seed = 0 if self.random_state is None else int(self.random_state)
        self.model_: CompiledModel = compile(
            default if self.program is None else self.program,
            sizes={**self._sizes(x, outputs, default), **(self.sizes or {})},
            constants=self.constants,
            seed=seed,
            device=self.device,
        )
        self.history_ = self.model_.fit(
            self._columns.apply(x),
            y,
            epochs=self.epochs,
            partial="fill",
            patience=self.patience,
            seed=seed,
            progress=bool(self.verbose),
        )

    def _sizes(self, x: Array, outputs: int, default: str) -> dict[str, float]:
        """Those that the program declares."""
        names = declared_names(default if self.program is None else self.program)
        sizes = {"F": x.shape[1], "C": outputs, "B": self.batch}
        return {name: size for name, size in sizes.items() if name in names}

    def _outputs(self, x: Any) -> Array:
        """The output of the entry `predict`, a row for each of x."""
        check_is_fitted(self)
        rows = _check(self, x, reset=False, dtype=np.float64)
        (outputs,) = self.model_.predict(self._columns.apply(rows)).values()
        return outputs.reshape(len(rows), -1)


def _check(estimator: _WgEstimator, x: Any, *y: Any, **options: Any) -> Any:
    try:
        return validate_data(estimator, x, *y, **options)
    except ValueError as error:
        raise ValueError(f"{error}{_place_of_wrong_cell(x)}") from None


def _place_of_wrong_cell(x: Any) -> str:
    """Column and row of the first cell of a frame that is no finite number."""
    for name in getattr(x, "columns", ()):
        for row, cell in enumerate(np.asarray(x[name])):
            try:
                is_right = math.isfinite(float(cell))
            except (TypeError, ValueError):
                is_right = False
            if not is_right:
                return f"\nrow {row} of column `{name}` is {cell!r}"
    return ""


class WgClassifier(ClassifierMixin, _WgEstimator):  # type: ignore[misc]
    """Classes by the scores that the entry `predict` returns; its loss is `cross_entropy`."""

    __doc__ = f"{__doc__}\n{_WgEstimator.__doc__}"

    def fit(self, X: Any, y: Any) -> WgClassifier:
        x, y = _check(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("WgClassifier needs two classes or more; y has 1 class")
        self._fit(x, labels.astype(np.int32), len(self.classes_), CLASSIFIER)
        return self

    def predict_proba(self, X: Any) -> Array:
        scores = self._outputs(X).astype(np.float64)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares: Array = powers / powers.sum(axis=1, keepdims=True)
        return shares

    def predict(self, X: Any) -> Array:
        best = self._outputs(X).argmax(axis=1)
        classes: Array = self.classes_[best]
        return classes


class WgRegressor(RegressorMixin, _WgEstimator):  # type: ignore[misc]
    """A number for each row, as the entry `predict` returns it; its loss is `mse`."""

    __doc__ = f"{__doc__}\n{_WgEstimator.__doc__}"

    def fit(self, X: Any, y: Any) -> WgRegressor:
        x, y = _check(self, X, y, dtype=np.float64, y_numeric=True)
        self._target = Scaling(y if self.scale else None)
        self._fit(x, self._target.apply(y), 1, REGRESSOR)
        return self

    def predict(self, X: Any) -> Array:
        numbers = self._outputs(X)[:, 0]
        return self._target.undo(numbers)
