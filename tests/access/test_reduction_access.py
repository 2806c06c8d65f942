"""Sums over rows, with results side by side in memory: what they load, and their numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from adapters import ROOT
from kernel_families import family
from tint_compiler import compile_all
from wgcc.access.model import Access, access_of
from wgcc.compiler import Compiled, compile_file
from wgcc.evaluate import Session
from wgcc.schedule.kernel import Launch
from wgcc.schedule.kernels.context import tree_of

Array = np.ndarray[Any, Any]
MOST_SECTORS = 1.3
LARGE, ENOUGH_WORKGROUPS = 1 << 20, 64
# Layers of equal sizes share their kernels.
GPT = {"B": 4, "T": 512, "V": 8192, "D": 768, "H": 12, "L": 1}

# Fewer results than a workgroup makes, one more, many; in one step and in two; before and behind
# other axes; several sums of the same rows; elements that are stored on the way.
MODEL = """
model Columns {
  entry few(x: f32[500, 3]) -> (s: f32[3], most: f32[3]) {
    return sum(x, axis = 0), max(x, axis = 0)
  }

  entry ragged(x: f32[300, 37], y: f32[300, 37]) -> (dot: f32[37], s: f32[37]) {
    return sum(x * y, axis = 0), sum(x, axis = 0)
  }

  entry between(x: f32[5, 64, 9]) -> (s: f32[5, 9], m: f32[5, 9]) {
    return sum(x, axis = 1), min(x, axis = 1)
  }

  entry two_steps(x: f32[4096, 24]) -> (s: f32[24]) = sum(x, axis = 0)

  entry large(x: f32[1100, 1024]) -> (s: f32[1024]) = sum(x, axis = 0)

  entry centred(x: f32[100, 40]) -> (y: f32[100, 40], m: f32[40]) {
    m = mean(x, axis = 0)
    return (x - m) * (x - m), m
  }

  entry images(x: f32[4, 9, 9, 32]) -> (m: f32[32], v: f32[32]) {
    m = mean(x, axis = (0, 1, 2))
    return m, mean((x - m) ** 2, axis = (0, 1, 2))
  }

  entry transposed(x: f32[64, 200]) -> (s: f32[200]) = sum(transpose(x) * 2.0, axis = 1)
}
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    path = tmp_path_factory.mktemp("columns") / "columns.wg"
    path.write_text(MODEL, encoding="utf-8")
    return compile_file(path)


@pytest.fixture(scope="module")
def bundle(compiled: Compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("columns") / "bundle"
    compiled.write(folder)
    return folder


def inputs(compiled: Compiled, entry: str) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    graph = compiled.program.entries[entry]
    return {v.name: rng.normal(0.1, 1, v.shape).astype(np.float32) for v in graph.inputs}


def launches(compiled: Compiled, entry: str) -> list[Launch]:
    dispatches = compiled.schedule.entries[entry].dispatches
    return list(dict.fromkeys(dispatch.launches["gpu"] for dispatch in dispatches))


def access(launch: Launch) -> Access:
    return access_of(tree_of(launch.kernel), launch.grid)


def test_numbers_are_right(machine: Any, compiled: Compiled, bundle: Path) -> None:
    model = wgcc_runtime.load(bundle, device=machine)
    session = Session(compiled.program, {}, {})
    for entry in compiled.program.entries:
        arrays = inputs(compiled, entry)
        found = model.call(entry, **arrays)
        for name, array in session.call(entry, arrays).items():
            error = float(np.abs(found[name] - array).max() / np.abs(array).max())
            assert error < 1e-5, f"{entry}.{name} is off by {error:.1e}"


def test_tint_accepts_the_kernels(bundle: Path) -> None:
    answers = compile_all(list(bundle.glob("kernels/*")))
    assert answers and not any(answers.values()), answers


def test_lanes_load_results_side_by_side(compiled: Compiled) -> None:
    for entry in ("two_steps", "large", "centred", "images"):
        for launch in launches(compiled, entry):
            assert access(launch).sector_ratio <= MOST_SECTORS, entry
            assert access(launch).sector_ratio_64 <= MOST_SECTORS, entry
    # Widths that do not fill whole sectors touch their edges.
    for entry in ("few", "ragged", "between"):
        assert all(access(launch).sector_ratio <= 2 for launch in launches(compiled, entry))


def test_rows_stay_rows(compiled: Compiled) -> None:
    """A view may exchange what is side by side."""
    (launch,) = launches(compiled, "transposed")
    assert access(launch).sector_ratio <= MOST_SECTORS


def test_large_sums_use_many_workgroups(compiled: Compiled) -> None:
    (launch,) = launches(compiled, "large")
    assert access(launch).workgroups >= ENOUGH_WORKGROUPS
    first, second = launches(compiled, "two_steps")
    assert access(first).workgroups >= ENOUGH_WORKGROUPS and second.kernel != first.kernel


@pytest.mark.parametrize("model", ["cnn", "gpt"])
def test_reductions_of_models(model: str) -> None:
    """Batch statistics, and gradients of norms."""
    path = ROOT / ("examples/cnn/model.wg" if model == "cnn" else "tests/bench/models/c.wg")
    found = launches(compile_file(path, sizes=GPT if model == "gpt" else {}), "train")
    columns = [launch for launch in found if family(launch) == "columns"]
    assert columns
    for launch in columns:
        figures, constants = access(launch), dict(launch.kernel.constants)
        assert figures.sector_ratio <= MOST_SECTORS and figures.bank_conflicts == 1
        is_large = constants["OUTER"] * constants["INNER"] >= LARGE
        assert not is_large or figures.workgroups >= ENOUGH_WORKGROUPS
    rows = [launch for launch in found if family(launch) == "rows"]
    assert all(access(launch).sector_ratio <= MOST_SECTORS for launch in rows)
