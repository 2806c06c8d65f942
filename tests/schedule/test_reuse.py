"""Temporaries reuse the memory of gradients that are written later."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from adapters import ROOT
from wgcc.compiler import compile_file
from wgcc.ir.graph import TensorType, Value
from wgcc.schedule.kernel import WORD, Binding, Dispatch, Place, Schedule
from wgcc.schedule.memory.slots import Arena, Life, free_spans

Words = tuple[str, int, int]

MODELS = [
    *sorted((ROOT / "examples").glob("*/model.wg")),
    *sorted((ROOT / "tests" / "bench" / "models").glob("[abc].wg")),
]


def life(name: str, words: int, start: int, end: int) -> Life:
    return Life(Value(name, TensorType((words,), "f32")), start, end)


def gradient(offset: int, words: int) -> Place:
    return Place("grads", offset, words)


def test_a_value_is_stored_where_a_gradient_is_written_later() -> None:
    free = free_spans({5: [gradient(0, 128)], 9: [gradient(128, 128)]})
    taken = Arena(free).take([life("early", 256, 0, 4), life("later", 128, 5, 8)])
    assert taken == {"early": gradient(0, 256), "later": gradient(128, 128)}


def test_the_dispatch_that_writes_the_gradient_may_not_read_the_value() -> None:
    free = free_spans({5: [gradient(0, 128)]})
    assert Arena(free).take([life("x", 128, 0, 5)]) == {}


def test_a_place_that_is_written_twice_is_free_before_the_first_time() -> None:
    free = free_spans({9: [gradient(0, 128)], 5: [gradient(0, 128)]})
    arena = Arena(free)
    assert arena.take([life("x", 128, 6, 8)]) == {}
    assert arena.take([life("x", 128, 0, 4)]) == {"x": gradient(0, 128)}


def test_padding_is_not_reused() -> None:
    free = free_spans({9: [gradient(0, 100), gradient(128, 100)]})
    assert Arena(free).take([life("x", 101, 0, 1)]) == {}
    assert Arena(free).take([life("x", 100, 0, 1), life("y", 3, 0, 1)]) == {
        "x": gradient(0, 100),
        "y": gradient(128, 3),
    }


def test_values_that_are_alive_together_do_not_overlap_and_are_aligned() -> None:
    free = free_spans({9: [gradient(0, 256)]})
    taken = Arena(free).take([life("a", 3, 0, 4), life("b", 64, 2, 6), life("c", 200, 5, 7)])
    assert taken == {"a": gradient(0, 3), "b": gradient(64, 64)}


@pytest.mark.parametrize("model", MODELS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_nothing_is_written_over_a_value_that_is_still_read(model: Path) -> None:
    _check_schedule(compile_file(model).schedule)


@pytest.mark.parametrize("sizes", [{"D": 64}, {"D": 64, "B": 2, "T": 16}], ids=["large", "small"])
def test_nor_in_a_model_of_many_layers(sizes: dict[str, int]) -> None:
    """With activations that fit into the memory of gradients in some layers, and in all of them."""
    model = ROOT / "tests" / "bench" / "models" / "c.wg"
    _check_schedule(compile_file(model, sizes={**sizes, "L": 10}).schedule)


def _check_schedule(schedule: Schedule) -> None:
    """Between the dispatch that writes a value and those that read it, none writes its place."""
    for entry in schedule.entries.values():
        made: dict[Words, int] = {}
        for number, dispatch in enumerate(entry.dispatches):
            for words in _read(dispatch):
                if words in made:
                    assert _last_write(entry.dispatches[:number], words) == made[words], dispatch
            made |= {words: number for words in _written(dispatch)}


def _read(dispatch: Dispatch) -> list[Words]:
    """The ranges of words it reads, including those it overwrites in place."""
    return [words for words, binding in _bound(dispatch) if binding.name.startswith("x")]


def _written(dispatch: Dispatch) -> list[Words]:
    return [words for words, binding in _bound(dispatch) if binding.written]


def _bound(dispatch: Dispatch) -> list[tuple[Words, Binding]]:
    bindings = dispatch.launches["gpu"].kernel.bindings
    return [
        ((region.buffer, region.offset, region.offset + region.bytes // WORD), binding)
        for region, binding in zip(dispatch.regions, bindings, strict=True)
    ]


def _last_write(dispatches: Sequence[Dispatch], place: Words) -> int:
    """The number of the last dispatch that wrote any word of a place."""
    buffer, start, end = place
    return max(
        number
        for number, dispatch in enumerate(dispatches)
        for name, first, last in _written(dispatch)
        if name == buffer and first < end and start < last
    )
