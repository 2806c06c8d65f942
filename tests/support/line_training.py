"""Data and comparisons for tests that train the hand-written bundle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from line_bundle import COLS, ROWS
from wgcc_runtime import Model, WgccError


def data(rows: int = 100) -> dict[str, Any]:
    x = np.random.default_rng(0).normal(size=(rows, COLS)).astype(np.float32)
    return {"x": x, "y": x @ np.float32([1, -2, 3, 0.5])}


def batches(count: int) -> list[dict[str, Any]]:
    all_ = data(count * ROWS)
    return [{k: v[i * ROWS : (i + 1) * ROWS] for k, v in all_.items()} for i in range(count)]


def everything(model: Model) -> dict[str, Any]:
    return {**model.params(), **model.state()}


def assert_same(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].tobytes() == right[name].tobytes(), name


def refused(code: str, text: str = "") -> Any:
    return pytest.raises(WgccError, match=rf"^{code}: .*{text}")
