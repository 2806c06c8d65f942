"""Random models: kernels agree with numpy, gradients with differences; past failures are kept.

`python tests/reliability models 500` runs many more, and saves what fails to tests/cases/.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import adapters
from adapters import ROOT
from building import TWIN
from random_models.generate import generate
from random_models.judge import judge
from tint_compiler import compile_all

CASES = sorted((ROOT / "tests" / "cases").glob("*.wg"))
SEEDS = range(20_000, 20_012)


@pytest.fixture(scope="module")
def devices() -> dict[str, Any]:
    return {**{name: adapters.request_device(name) for name in adapters.NAMES}, TWIN: TWIN}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_what_once_failed(path: Path, devices: dict[str, Any], tmp_path: Path) -> None:
    judge(path, devices, tmp_path / "bundle")
    refused = {k: v for k, v in compile_all((tmp_path / "bundle").rglob("*.wgsl")).items() if v}
    assert not refused


@pytest.mark.parametrize("seed", SEEDS)
def test_random_models(seed: int, devices: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "model.wg"
    path.write_text(generate(seed).text(), encoding="utf-8")
    judge(path, devices, tmp_path / "bundle")


def test_a_seed_gives_one_model() -> None:
    assert generate(7).text() == generate(7).text() != generate(8).text()
