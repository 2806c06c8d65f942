"""Ends a training when the loss no longer falls, with the values of the lowest loss."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from wgcc_runtime.errors import WgccError
from wgcc_runtime.schedule import checked_count

if TYPE_CHECKING:
    from wgcc_runtime.history import Report
    from wgcc_runtime.model import Model


class EarlyStopping:
    """A callback of `fit`. `monitor`: the name of a number, of the evaluation if it has one.

    It stops after `patience` numbers that are not lower than the lowest by `min_delta` (with
    `mode="max"`, higher than the highest). The model is then as it was at the best one, its
    optimizer and its count of steps included; `keep_best=False` leaves it as it ended.
    """

    def __init__(
        self,
        patience: int,
        monitor: str = "loss",
        min_delta: float = 0.0,
        mode: str = "min",
        keep_best: bool = True,
    ) -> None:
        self._patience = checked_count("patience", patience)
        if mode not in ("min", "max"):
            text = f'EarlyStopping: `mode` is "min" or "max", not {mode!r}'
            raise WgccError("data", text, "mode")
        self._monitor, self._sign = monitor, 1.0 if mode == "min" else -1.0
        self._min_delta, self._keep_best = min_delta, keep_best
        self._model: Model | None = None
        self._forget()

    def _forget(self) -> None:
        self.best, self.best_step, self._waited = math.inf, 0, 0
        self._values: Any = None
        self._evaluates = False

    def begin(self, model: Model, _: int | None) -> None:
        self._model = model
        self._forget()

    def __call__(self, report: Report) -> str | None:
        if self._evaluates and not report.eval:
            return None  # a report between two evaluations
        if report.eval and not self._evaluates:
            # Numbers of the evaluation are not compared with those of earlier reports.
            self._forget()
            self._evaluates = True
        number = self._sign * self._number(report)
        if number < self.best - self._min_delta:
            self.best, self.best_step, self._waited = number, report.step, 0
            if self._keep_best and self._model is not None:
                self._values = self._model.values_now()
            return None
        self._waited += 1
        return "stop" if self._waited >= self._patience else None

    def _number(self, report: Report) -> float:
        numbers = report.eval if self._evaluates else report.outputs
        if self._monitor in numbers:
            return numbers[self._monitor]
        if self._monitor == "loss" and not self._evaluates:
            return report.loss
        known = ", ".join(numbers)
        text = f"EarlyStopping: there is no number `{self._monitor}`; there are {known}"
        raise WgccError("name", text, self._monitor)

    def end(self, model: Model) -> None:
        if self._values is not None:
            model.set_values(*self._values)
        self._values = None
