"""Runs the self-test that is recorded in a bundle and measures how far each output is off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.drawn import drawn_input
from wgcc_runtime.model import Model


@dataclass(frozen=True, slots=True)
class Result:
    """One output of one entry: its largest error over all steps, relative to 1 + |expected|."""

    entry: str
    output: str
    error: float
    tolerance: float

    @property
    def passed(self) -> bool:
        return self.error <= self.tolerance

    def __str__(self) -> str:
        return f"{self.entry}.{self.output}: error {self.error:.2g} (at most {self.tolerance:.2g})"


def run_selftest(model: Model) -> list[Result]:
    """The model starts from the bundle's own values for each entry, and is reset afterwards."""
    test = model.plan.selftest
    results = []
    for name, spec in test.get("entries", {}).items():
        model.reset_to_bundle()
        errors = _run_entry(model, name, spec, test["seed"])
        results += [Result(name, out, error, spec["tolerance"]) for out, error in errors.items()]
    model.reset()
    return results


def _run_entry(model: Model, name: str, spec: Mapping[str, Any], seed: int) -> dict[str, float]:
    entry = model.entry(name)
    errors: dict[str, float] = {}
    for step, expected in enumerate(spec["outputs"]):
        inputs = {
            key: drawn_input(draw, entry.inputs[key].name, entry.inputs[key].shape, seed, step)
            for key, draw in spec["inputs"].items()
        }
        outputs = model.call(name, **inputs)
        for key, facts in expected.items():
            errors[key] = max(errors.get(key, 0.0), _error(outputs[key], facts))
    return errors


def _error(output: Array, facts: Mapping[str, Any]) -> float:
    """Sums are judged against the sum of magnitudes, because terms of both signs cancel."""
    values = output.astype(np.float64).ravel()
    scale = 1.0 + facts["abs"]
    errors = [
        abs(float(values.sum()) - facts["sum"]) / scale,
        abs(float(np.abs(values).sum()) - facts["abs"]) / scale,
    ]
    for value, wanted in zip(values, facts["first"], strict=False):
        errors.append(abs(float(value) - wanted) / (1.0 + abs(wanted)))
    worst = max(errors)
    # NaN compares as smaller than everything, which would pass.
    return worst if all(error == error for error in errors) else float("inf")
