"""Sums by id over large tables: numbers, bits, and work that does not grow with the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from kernel_families import family
from tint_compiler import compile_all
from wgcc.access.model import access_of
from wgcc.compiler import Compiled, compile_file
from wgcc.evaluate import Session
from wgcc.schedule.kernel import Launch
from wgcc.schedule.kernels.context import tree_of

Array = np.ndarray[Any, Any]

# One run of ids, a part of one, two, and more than are merged at once; narrow and wide tables.
MODEL = """
model Sums {
  entry one(x: f32[2048, 33], ids: i32[2048]) -> (g: f32[500, 33]) = segment_sum(x, ids, 500)

  entry few(w: f32[1300, 700], x: f32[40, 700], ids: i32[40]) -> (g: f32[1300, 700]) =
    grad(sum(gather(w, ids) * x), w)

  entry two(x: f32[70, 50, 2, 10], ids: i32[70, 50]) -> (g: f32[3000, 2, 10]) =
    segment_sum(x, ids, 3000)

  entry whole(x: i32[3000, 30], ids: i32[3000]) -> (g: i32[400, 30]) = segment_sum(x, ids, 400)

  entry many(x: f32[70001, 2], ids: i32[70001]) -> (g: f32[250, 2]) = segment_sum(x, ids, 250)

  entry added(t: f32[700, 50], x: f32[1000, 50], ids: i32[1000]) -> (g: f32[700, 50]) =
    scatter_add(t, ids, x)

  entry tied(w: f32[600, 40], x: f32[1500, 40], ids: i32[1500]) -> (g: f32[600, 40]) {
    logits = x @ transpose(w)
    return grad(sum(gather(w, ids) * x) + 0.001 * sum(logits * logits), w)
  }
}
"""
TABLE = """
model Table {{
  table: Embedding[{rows}, {width}]
  optimizer opt: sgd {{ lr = 0.1 }}

  entry train(ids: i32[{count}], x: f32[{count}, {width}]) -> (loss: f32) {{
    loss = mse(table(ids), x)
    minimize loss with opt
    return loss
  }}
}}
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    path = tmp_path_factory.mktemp("sums") / "sums.wg"
    path.write_text(MODEL, encoding="utf-8")
    return compile_file(path)


@pytest.fixture(scope="module")
def bundle(compiled: Compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sums") / "bundle"
    compiled.write(folder)
    return folder


def inputs(compiled: Compiled, entry: str, same: bool) -> dict[str, Array]:
    """Numbers for a call; with `same`, all ids but one name one row."""
    rng = np.random.default_rng(5)
    graph = compiled.program.entries[entry]
    rows = graph.outputs["g"].shape[0]
    found: dict[str, Array] = {}
    for value in graph.inputs:
        if value.name == "ids":
            drawn = np.full(value.shape, rows - 1) if same else rng.integers(0, rows, value.shape)
            drawn.flat[1] = 0
            found[value.name] = drawn.astype(np.int32)
        elif value.dtype == "i32":
            found[value.name] = rng.integers(-9, 9, value.shape).astype(np.int32)
        else:
            found[value.name] = rng.normal(0, 1, value.shape).astype(np.float32)
    return found


def test_all_of_them_are_sorted(compiled: Compiled) -> None:
    found = {name: len(entry.dispatches) for name, entry in compiled.schedule.entries.items()}
    assert found == {"one": 2, "few": 2, "two": 3, "whole": 3, "many": 4, "added": 2, "tied": 4}


@pytest.mark.parametrize("same", [False, True])
def test_numbers_are_right(machine: Any, compiled: Compiled, bundle: Path, same: bool) -> None:
    model = wgcc_runtime.load(bundle, device=machine)
    session = Session(compiled.program, {}, {})
    for entry in compiled.program.entries:
        arrays = inputs(compiled, entry, same)
        found = model.call(entry, **arrays)["g"]
        wanted = session.call(entry, arrays)["g"]
        error = float(np.abs(found - wanted).max() / np.abs(wanted).max())
        most = 2e-4 if same or entry == "tied" else 1e-5
        assert error < most, f"{entry} is off by {error:.1e}"
        assert np.array_equal(found, model.call(entry, **arrays)["g"])


def test_elements_are_added_in_the_order_of_positions(
    machine: Any, compiled: Compiled, bundle: Path
) -> None:
    """In f32, big + small − big depends on the order."""
    model = wgcc_runtime.load(bundle, device=machine)
    arrays = inputs(compiled, "two", same=True)
    arrays["x"] = (arrays["x"] * 10.0 ** (np.arange(20) % 8).reshape(2, 10)).astype(np.float32)
    elements = arrays["x"].reshape(-1, 20)[arrays["ids"].reshape(-1) == 2999]
    total = np.zeros(20, np.float32)
    for row in elements:
        total += row
    assert np.array_equal(model.call("two", **arrays)["g"][2999].reshape(-1), total)


def test_tint_accepts_the_kernels(bundle: Path) -> None:
    answers = compile_all(list(bundle.glob("kernels/*")))
    assert answers and not any(answers.values()), answers


def launches(folder: Path, rows: int, width: int, count: int) -> dict[str, Launch]:
    """Those of the table's gradient, by family."""
    path = folder / "table.wg"
    path.write_text(TABLE.format(rows=rows, width=width, count=count), encoding="utf-8")
    found = (d.launches["gpu"] for d in compile_file(path).schedule.entries["train"].dispatches)
    return {family(x): x for x in found if family(x) in ("sort", "merge_ids", "id_sums")}


def test_work_is_that_of_the_ids_and_one_write_of_the_table(tmp_path: Path) -> None:
    width, count = 256, 3000
    small, large = (launches(tmp_path, rows, width, count) for rows in (4096, 32768))
    for name in ("sort", "merge_ids"):
        assert small[name].grid == large[name].grid
        assert small[name].iterations == large[name].iterations
    for rows, found in ((4096, small), (32768, large)):
        launch = found["id_sums"]
        constants = dict(launch.kernel.constants)
        # Every element of the table has one thread, once.
        tile = constants["TILE"] * constants["COLUMNS"]
        assert launch.grid[0] * launch.grid[1] * tile == rows * width
        # Beside ids a thread loops over the elements of its tile and a search for each of its rows.
        assert launch.iterations <= count + 2 * tile // constants["THREADS"] + 32
        stores = [s for s in access_of(tree_of(launch.kernel), launch.grid).sites if s.is_store]
        assert sum(site.sectors for site in stores) == rows * width / 8
        assert sum(site.sectors for site in stores) == sum(site.ideal for site in stores)


def test_sums_load_whole_sectors(tmp_path: Path) -> None:
    found = launches(tmp_path, 32000, 768, 2048)
    assert found.keys() == {"sort", "id_sums"}
    figures = access_of(tree_of(found["id_sums"].kernel), found["id_sums"].grid)
    assert figures.sector_ratio <= 1.3 and figures.bank_conflicts == 1
    assert figures.workgroups >= 64 and figures.live <= 32


def test_a_tied_table_is_added_to_as_it_is_stored(compiled: Compiled) -> None:
    """Not to the transpose of the output layer's gradient, which would be read by columns."""
    launch = compiled.schedule.entries["tied"].dispatches[-1].launches["gpu"]
    assert family(launch) == "id_sums" and len(launch.kernel.bindings) == 5
    assert access_of(tree_of(launch.kernel), launch.grid).sector_ratio <= 1.3


def test_small_tables_are_looked_through(tmp_path: Path) -> None:
    """Where looking through all ids is cheaper than sorting them."""
    assert launches(tmp_path, 65, 48, 768) == {}
