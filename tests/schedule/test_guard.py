"""The kernel that tests the results of training steps for NaN: which ranges it reads, and how."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from line_training import refused
from wgcc.compiler import compile_file
from wgcc.schedule.kernel import Dispatch, Place
from wgcc.schedule.kernels.guard import guard
from wgcc_runtime import Model

MANY = 9
BAD = (np.nan, np.inf, -np.inf)
# Scalars are packed: between two averages is a counter, and a negative one has the bits of a NaN.
STATE = "".join(f"  state mean{i}: f32 = 0.0\n  state left{i}: i32 = -1\n" for i in range(MANY))
CHANGES = "".join(
    f"    mean{i} := 0.5 * mean{i} + 0.5 * loss\n    left{i} := left{i} - 1\n" for i in range(MANY)
)
MODEL = f"""
model Watched {{
  l: Linear[3, 1]
{STATE}
  optimizer opt: sgd {{ lr = 1e-2 }}

  entry train(x: f32[4, 3], y: f32[4, 1]) -> (loss: f32) {{
    loss = mse(l(x), y)
    minimize loss with opt
{CHANGES}
    return loss
  }}

  entry predict(x: f32[4, 3]) -> (y: f32[4, 1]) = l(x)
}}
"""


def constants(dispatch: Dispatch) -> dict[str, int]:
    return dict(dispatch.launches["gpu"].kernel.constants)


def ranges(*places: Place) -> list[Place]:
    """The ranges that are tested, without the flag, which is bound last."""
    found = guard({f"t{i}": place for i, place in enumerate(places)})
    for dispatch in found:
        assert dispatch.regions[-1] == Place("guard", 0, 1)
        kernel = dispatch.launches["gpu"].kernel
        assert [b.count for b in kernel.bindings] == [r.count for r in dispatch.regions]
        assert [b.access for b in kernel.bindings][-2:] == ["read", "read_write"]
    return [region for dispatch in found for region in dispatch.regions[:-1]]


def test_neighbours_are_one_range() -> None:
    assert ranges(Place("params", 64, 64), Place("params", 0, 64)) == [Place("params", 0, 128)]


def test_padding_is_tested() -> None:
    found = ranges(Place("params", 0, 1), Place("params", 64, 10))
    assert found == [Place("params", 0, 74)]


def test_what_is_stored_between_is_not_tested() -> None:
    """A frozen parameter of one element takes as much space as one of 64."""
    found = ranges(Place("params", 0, 1), Place("params", 128, 10))
    assert found == [Place("params", 0, 1), Place("params", 128, 10)]


def test_buffers_are_separate() -> None:
    found = ranges(Place("state", 0, 64), Place("params", 64, 64))
    assert found == [Place("params", 64, 64), Place("state", 0, 64)]


def test_packed_values_merge_only_side_by_side() -> None:
    found = ranges(*(Place("scalars", offset, 1) for offset in (0, 1, 3, 64)))
    assert found == [Place("scalars", 0, 2), Place("scalars", 0, 4), Place("scalars", 64, 1)]


def test_words_before_a_range_are_skipped() -> None:
    (dispatch,) = guard({"a": Place("scalars", 70, 1), "b": Place("scalars", 71, 1)})
    assert dispatch.regions[0] == Place("scalars", 64, 8)
    assert constants(dispatch)["FIRST_0"] == 6
    assert constants(dispatch)["COUNT_0"] == 8


def test_a_range_is_no_longer_than_a_binding() -> None:
    half = 1 << 24
    found = ranges(Place("params", 0, half), Place("params", half, half))
    assert found == [Place("params", 0, half), Place("params", half, half)]
    found = ranges(Place("params", 0, half), Place("params", half, half - 64))
    assert found == [Place("params", 0, 2 * half - 64)]


def test_seven_ranges_fit_beside_the_flag() -> None:
    found = guard({f"t{i}": Place(f"b{i}", 0, 5) for i in range(16)})
    assert [len(dispatch.regions) for dispatch in found] == [8, 8, 3]
    assert found[0].launches == found[1].launches, "one kernel for both"


@pytest.mark.parametrize(
    ("words", "groups"), [(1, 1), (4096, 1), (4097, 2), (1 << 22, 1024), (1 << 25, 1024)]
)
def test_the_largest_range_decides_the_grid(words: int, groups: int) -> None:
    (dispatch,) = guard({"a": Place("params", 0, words), "b": Place("state", 0, 1)})
    assert dispatch.launches["gpu"].grid == (groups, 1, 1)
    assert constants(dispatch)["STRIDE"] == 64 * groups


def test_nothing_written_needs_no_test() -> None:
    assert guard({}) == ()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("guard")
    (folder / "model.wg").write_text(MODEL)
    compile_file(folder / "model.wg").write(folder / "bundle")
    return folder / "bundle"


@pytest.fixture(scope="module")
def model(bundle: Path, target: str) -> Iterator[Model]:
    with wgcc_runtime.load(bundle, device=target) as found:
        yield found


def test_only_entries_that_train_have_a_guard(bundle: Path) -> None:
    plan = wgcc_runtime.load_plan(bundle)
    found = plan.entries["train"].guard
    assert plan.entries["predict"].guard is None
    assert found and found.flag.name == "train/guard.flag"
    assert found.flag.name not in {t.name for t in plan.entries["train"].outputs.values()}
    assert plan.buffers[-1].name == "guard"
    assert [len(dispatch.bindings) for dispatch in found.dispatches] == [8, 4]


def test_every_packed_value_is_tested(model: Model) -> None:
    rng = np.random.default_rng(0)
    given: dict[str, Any] = {"x": rng.normal(size=(4, 3)), "y": rng.normal(size=(4, 1))}
    model.train(**given)
    for i in range(MANY):
        tensor = model.plan.tensors[f"mean{i}"]
        before = np.float32(model.state()[tensor.name])
        model._machine.write(tensor, np.array([BAD[i % 3]], np.float32))
        with refused("nan", f"`{tensor.name}` was not finite before the step"):
            model.train(**given)
        model._machine.write(tensor, np.array([before]))
    assert np.isfinite(model.train(**given)["loss"])
