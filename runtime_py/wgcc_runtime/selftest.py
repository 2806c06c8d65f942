"""Runs the self-test that is recorded in a bundle and measures the error of each output."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.drawn import drawn_input
from wgcc_runtime.errors import WgccError
from wgcc_runtime.model import Model

# Element types whose arrays hold elements as they are in memory.
AS_IN_MEMORY = ("f32", "i32", "u32", "i8", "u8", "bool")


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
        return (
            f"{self.entry}.{self.output}: error {self.error:.2g} (tolerance {self.tolerance:.2g})"
        )


def run_selftest(model: Model, test: Mapping[str, Any] | None = None) -> list[Result]:
    """Each entry starts from the bundle's own values; the model is reset afterwards.

    `test` replaces the one that the bundle records.
    """
    test = model.plan.selftest if test is None else test
    results = []
    for name, spec in test.get("entries", {}).items():
        model.reset_to_bundle()
        before = _written_tensors(model, spec)
        errors, digest = _run_entry(model, name, spec, test["seed"])
        results += [Result(name, out, error, spec["tolerance"]) for out, error in errors.items()]
        if model.is_twin and not model.is_fast and "twin" in spec:
            results.append(Result(name, "bits", float(digest != spec["twin"]), 0.0))
        results += _judge_changes(model, name, spec, before)
    model.reset()
    return results


def check_selftest(model: Model) -> None:
    """Raises if the model computes wrong numbers; it is reset afterwards."""
    for result in run_selftest(model):
        if not result.passed:
            raise WgccError("selftest", f"the self-test failed on {model.device_name}: {result}")


def twin_digests(model: Model) -> dict[str, str]:
    """Digests of the exact bits that each entry gives on the twin.

    Entries whose numbers f32 cannot hold are left out.
    """
    test, digests = model.plan.selftest, {}
    for name, spec in test["entries"].items():
        model.reset_to_bundle()
        try:
            digests[name] = _run_entry(model, name, spec, test["seed"])[1]
        except WgccError as error:
            if error.code != "nan":
                raise
    return digests


def sample_places(size: int, count: int) -> list[int]:
    """The elements of a tensor to compare one by one: evenly spaced from the first to the last."""
    return sorted({k * (size - 1) // max(1, count - 1) for k in range(count)})


def _written_tensors(model: Model, spec: Mapping[str, Any]) -> dict[str, Array]:
    if "changes" not in spec:
        return {}
    tensors = {**model.params(), **model.state()}
    return {name: tensors[name].astype(np.float64).ravel() for name in spec["changes"]["tensors"]}


def _judge_changes(
    model: Model, entry: str, spec: Mapping[str, Any], before: Mapping[str, Array]
) -> list[Result]:
    """The largest error of the written tensors, relative to the size of the change."""
    errors = {
        name: _change_error(after - before[name], spec["changes"]["tensors"][name])
        for name, after in _written_tensors(model, spec).items()
    }
    worst = max(errors, key=lambda name: errors[name], default=None)
    if worst is None:
        return []
    return [Result(entry, f"change of {worst}", errors[worst], spec["changes"]["tolerance"])]


def _change_error(change: Array, facts: Mapping[str, Any]) -> float:
    places = sample_places(change.size, len(facts["at"]))
    actual = [change.mean(), np.abs(change).mean(), *(change[at] for at in places)]
    wanted = [facts["mean"], facts["size"], *facts["at"]]
    errors = [abs(float(a) - b) / facts["scale"] for a, b in zip(actual, wanted, strict=False)]
    return max(errors) if all(error == error for error in errors) else float("inf")


def _run_entry(
    model: Model, name: str, spec: Mapping[str, Any], seed: int
) -> tuple[dict[str, float], str]:
    """The largest error of each output, and a digest of the elements of all outputs."""
    entry = model.entry(name)
    errors: dict[str, float] = {}
    digest = hashlib.sha256()
    for step, expected in enumerate(spec["outputs"]):
        inputs = {
            key: drawn_input(draw, entry.inputs[key].name, entry.inputs[key].shape, seed, step)
            for key, draw in spec["inputs"].items()
        }
        outputs = model.call_prepared(name, **inputs)
        for key, facts in expected.items():
            errors[key] = max(errors.get(key, 0.0), _error(outputs[key], facts))
        for key in sorted(expected):
            if entry.outputs[key].dtype in AS_IN_MEMORY:
                digest.update(np.ascontiguousarray(outputs[key]).tobytes())
    return errors, digest.hexdigest()


def _error(output: Array, facts: Mapping[str, Any]) -> float:
    """Errors of sums are relative to the sum of magnitudes, because terms of both signs cancel."""
    values = output.astype(np.float64).ravel()
    scale = 1.0 + facts["abs"]
    with np.errstate(all="ignore"):
        sums = float(values.sum()), float(np.abs(values).sum())
    errors = [abs(sums[0] - facts["sum"]) / scale, abs(sums[1] - facts["abs"]) / scale]
    for value, wanted in zip(values, facts["first"], strict=False):
        errors.append(abs(float(value) - wanted) / (1.0 + abs(wanted)))
    worst = max(errors)
    # Comparisons with NaN are false, so `max` could miss it and the test would pass.
    return worst if all(error == error for error in errors) else float("inf")
