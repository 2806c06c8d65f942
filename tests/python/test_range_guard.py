"""Indices and labels out of range are reported with their line, and the call is undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from building import build
from line_training import everything
from range_model import line_of, write_model
from wgcc_runtime import Model, WgccError
from wgcc_runtime.benchmark import Stopwatch

X = np.ones(3, np.float32)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranges")
    return build(write_model(folder), folder / "bundle")


@pytest.fixture(scope="module")
def loaded(bundle: Path, target: str) -> Iterator[Model]:
    with wgcc_runtime.load(bundle, device=target) as found:
        yield found


@pytest.fixture
def model(loaded: Model) -> Model:
    loaded.reset()
    return loaded


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(WgccError) as caught:
        call()
    assert caught.value.code == "range"
    return caught.value.message


def unchanged(model: Model, call: Callable[[], Any]) -> str:
    """The error of a call, which must leave everything unchanged."""
    before = everything(model)
    message = refusal(call)
    for name, value in everything(model).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    return message


def test_arithmetic_moves_the_range_of_an_input(model: Model) -> None:
    ids, labels = np.array([-1, 0, 7, 8]), np.array([1, 10, 5, -99])
    rows = model.moved(x=ids, y=labels)["rows"]
    np.testing.assert_array_equal(rows, model.params()["tok.w"][ids + 1])
    assert "`x` holds 9 at [1]" in refusal(lambda: model.moved(x=[0, 9, 1, 2], y=labels))
    assert "is -1 to 8" in refusal(lambda: model.moved(x=[-2, 0, 1, 2], y=labels))
    assert "is 1 to 10 (or -99)" in refusal(lambda: model.moved(x=ids, y=[0, 1, 2, 3]))
    assert "`y` holds -100" in refusal(lambda: model.moved(x=ids, y=[-100, 1, 2, 3]))


def test_a_full_cache_refuses_more(model: Model) -> None:
    for step in range(8):
        assert model.append(x=X * step)["used"] == step + 1
    message = unchanged(model, lambda: model.append(x=X * 99))
    assert message == (
        f"append: a position in `cache[used +: 1]` is outside 0 to 7, at "
        f"{line_of('cache[used +: 1]')}; the model is as it was before"
    )
    np.testing.assert_array_equal(model.state()["cache"][:, 0], np.arange(8))
    model.load_params({"used": 7}, strict=False)
    assert model.append(x=X * 99)["used"] == 8
    assert model.state()["cache"][7, 0] == 99


def test_a_position_below_zero(model: Model) -> None:
    model.load_params({"used": -1}, strict=False)
    assert line_of("cache[used +: 1]") in unchanged(model, lambda: model.append(x=X))


def test_all_that_a_failed_call_changed_is_restored(model: Model) -> None:
    for _ in range(8):
        model.both(x=X)
    assert line_of("cache[used] := x") in unchanged(model, lambda: model.both(x=X))
    np.testing.assert_array_equal(model.state()["sums"], np.full((8, 3), 8))


def test_reads_at_a_position(model: Model) -> None:
    for step in range(8):
        model.append(x=X * step)
    np.testing.assert_array_equal(model.tail()["rows"][:, 0], [5, 6, 7])
    assert line_of("entry read") in unchanged(model, model.read)
    model.load_params({"used": 2}, strict=False)
    assert model.read()["row"][0] == 2
    assert "outside 0 to 5" in unchanged(model, model.tail)


def test_ids_of_two_inputs_and_of_floats(model: Model) -> None:
    a, b = np.array([0, 1, 2, 3]), np.array([6, 6, 6, 6])
    np.testing.assert_array_equal(model.pair(a=a, b=b)["rows"], model.params()["tok.w"][a + b])
    assert "an id in `gather(tok.w, a + b)`" in refusal(lambda: model.pair(a=a, b=b + 1))
    assert refusal(lambda: model.pair(a=a, b=-a - [0, 0, 0, 1]))
    floats = np.array([0.0, 9.5, 3.0, -0.5], np.float32)
    assert model.hot(a=floats)["rows"].sum() == 4
    assert "outside 0 to 9" in refusal(lambda: model.hot(a=floats + 1))
    z = np.eye(4, 10, dtype=np.float32)
    assert model.right(z=z, y=[0, 1, 2, -1])["share"] == 1
    assert "outside 0 to 9 (or -1)" in refusal(lambda: model.right(z=z, y=[0, 1, 2, -2]))


def test_the_first_lookup_that_fails_is_named(model: Model) -> None:
    model.two(a=[0, 9, 1, 2], b=[0, 7, 1, 2])
    assert "gather(tok.w, i32(a))" in refusal(lambda: model.two(a=[0, 10, 1, 2], b=[8, 7, 1, 2]))
    assert "gather(cache, i32(b))" in refusal(lambda: model.two(a=[0, 9, 1, 2], b=[8, 7, 1, 2]))


IDS, LABELS = np.array([0, 1, 2, 3]), np.array([5, 6, 7, 8])


@pytest.mark.parametrize("finite", [True, False])
def test_a_training_step_with_a_label_out_of_range_is_undone(model: Model, finite: bool) -> None:
    model.check_finite = finite
    try:
        model.train(ids=IDS, y=LABELS)
        model.load_params({"offset": 2}, strict=False)
        message = unchanged(model, lambda: model.train(ids=IDS, y=LABELS))
        assert message.startswith("train, step 2: a label in `cross_entropy(")
        assert line_of("cross_entropy(out(tok(ids))") in message
        assert model.steps_done == 1
        model.load_params({"offset": 1}, strict=False)
        model.train(ids=IDS, y=LABELS)
        assert model.steps_done == 2
    finally:
        model.check_finite = True


def test_fit_stops_before_the_step_that_is_out_of_range(model: Model) -> None:
    """Several steps are in one submit; those before the failed one count."""
    batches = [{"ids": IDS, "y": LABELS - step % 5} for step in range(12)]
    model.fit(batches[:9], steps=9)
    expected = everything(model)
    model.reset()
    model.fit(batches[:4], steps=4, every=4)
    batches[9] = {"ids": IDS, "y": LABELS + 2}
    assert "train, step 10: a label in" in refusal(lambda: model.fit(batches[4:], every=100))
    assert model.steps_done == 9
    for name, value in everything(model).items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_only_entries_that_need_it_are_guarded(model: Model) -> None:
    guarded = {name for name, entry in model.plan.entries.items() if entry.range_guard}
    assert guarded == set(model.plan.entries) - {"moved"}
    restored = {n: e.range_guard.restored for n, e in model.plan.entries.items() if e.range_guard}
    assert restored["append"] == ("used",)  # a window out of range is not written
    assert set(restored["both"]) == {"used", "sums"}


@pytest.mark.parametrize("case", ["exactly", "zero too", "far", "one number"])
def test_numbers_that_count_from_one_get_a_hint(case: str, model: Model) -> None:
    ids = {
        "exactly": [1, 2, 9, 10], "zero too": [0, 2, 3, 10], "far": [1, 2, 3, 11],
        "one number": [10, 10, 10, 10],
    }[case]  # fmt: skip
    message = refusal(lambda: model.train(ids=ids, y=LABELS))
    hint = "they seem to count from 1, but wgcc counts from 0: subtract 1"
    assert (hint in message) == (case == "exactly")


def test_a_whole_data_set_that_counts_from_one(model: Model) -> None:
    data = {"ids": np.arange(1, 11), "y": np.zeros(10, np.int32)}
    assert "subtract 1" in refusal(lambda: model.fit(data, steps=2))
    data["ids"][3] = 0
    assert "subtract 1" not in refusal(lambda: model.fit(data, steps=2))


def test_bools_are_numbers_too(tmp_path: Path) -> None:
    path = tmp_path / "one.wg"
    path.write_text(
        "model M { param w: f32[1] = 0.0\n entry f(x: i32[2]) -> (y: f32[2]) = gather(w, x) }"
    )
    with wgcc_runtime.load(build(path, tmp_path / "bundle"), device="lavapipe") as model:
        model.f(x=np.array([False, False]))
        assert "`x` holds 1 at [1]" in refusal(lambda: model.f(x=np.array([False, True])))


def test_timing_resets_the_model_if_a_cache_is_full(model: Model) -> None:
    watch = Stopwatch(model, "append")
    watch.run(seconds=0.05)
    assert watch.timing().calls > 8
