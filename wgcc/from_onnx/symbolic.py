"""Keeps sizes open in the text of a model, so that `wgcc build --set batch=5` builds it for others.

The text is written for several sizes. Each number in it that changes must be an expression of the
sizes, and each table that changes a formula; the result is checked at sizes that were not used to
find it. A size for which this fails stays a number.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from wgcc.compiler import read_program
from wgcc.errors import WgError
from wgcc.from_onnx.size_forms import Form, form_of
from wgcc.from_onnx.size_tokens import (
    Expression,
    Sizes,
    explain,
    fill,
    numbers_of,
    tokens,
    with_lists,
    without_lists,
)
from wgcc.from_onnx.writing.text import Written
from wgcc.lazy_numpy import Array, np

# The text at given sizes; None where the model does not allow them.
Draft: TypeAlias = Callable[[Sizes], Written | None]
# Sizes are changed by so much, until the model allows it.
STEPS = (1, 2, -1, 3, 4, 8, 16, 32)
DECLARED = re.compile(r"\s*frozen param (\w+): \w+\[(.*)\] ~ external")
PREDICT = re.compile(r"^ *entry predict\(.*", re.MULTILINE)
SHAPE = re.compile(r"\[([^\]]*)\]")
MOST_SIZES = 6
MOST_BYTES = 1 << 30


def open_text(draft: Draft, sizes: Sizes) -> Written | None:
    """The text with `dim` for as many sizes as can stay open; None if none can."""
    names = tuple(sizes)
    if not names or len(names) > MOST_SIZES:
        return None
    found = _attempt(draft, sizes, names)
    if found is not None or len(names) == 1:
        return found
    alone = {name: _attempt(draft, sizes, (name,)) for name in names}
    kept = tuple(name for name in names if alone[name] is not None)
    together = _attempt(draft, sizes, kept) if 1 < len(kept) < len(names) else None
    return together or (alone[kept[0]] if kept else None)


@dataclass(frozen=True, slots=True)
class Sample:
    """A text without its lists, which are kept as arrays that may follow the sizes."""

    sizes: Sizes
    written: Written
    lists: Sequence[str]


def _attempt(draft: Draft, sizes: Sizes, names: Sequence[str]) -> Written | None:
    plain, samples = draft(sizes), _samples(draft, sizes, names)
    if samples is None or plain is None:
        return None
    opened = _opened(samples, names)
    if opened is None or not _has_ports(opened.text, plain.text, sizes):
        return None
    listed = ", ".join(f"{name} = {sizes[name]}" for name in names)
    opened = replace(opened, text=opened.text.replace("\nwg 1\n", f"\nwg 1\ndim {listed}\n", 1))
    last = {name: samples[-1].sizes[name] for name in names}
    return opened if all(is_accepted(opened.text, at) for at in ({}, last)) else None


def _samples(draft: Draft, sizes: Sizes, names: Sequence[str]) -> list[Sample] | None:
    """At sizes that differ from each other and from 1, each changed alone, then all together."""
    start = dict(sizes)
    for name in names:
        others = {start[other] for other in names if other != name}
        start[name] = next(
            n for n in range(max(2, sizes[name]), sizes[name] + 9) if n not in others
        )
    first = draft(start)
    if first is None:
        return None
    base, lists = _without_lists(first)
    if sum(array.nbytes for array in base.weights.values()) > MOST_BYTES:
        return None
    samples = [Sample(start, base, lists)]
    changed = []
    for name in names:
        sample = _stepped(draft, start, {name: 1}, base)
        if sample is None:
            return None
        samples.append(sample)
        changed.append(sample.sizes[name] - start[name])
    steps = {name: 2 * step + place for place, (name, step) in
             enumerate(zip(names, changed, strict=True))}  # fmt: skip
    last = _stepped(draft, start, steps, base)
    far = _far(draft, start, names, base)
    return [*samples, *far, last] if last is not None and far else None


def _far(draft: Draft, start: Sizes, names: Sequence[str], base: Written) -> list[Sample]:
    """At much larger sizes, or smaller ones: a size divided by 32 changes only there."""
    for factors in ((2, 3.2), (1.5,), (0.5,)):
        samples = []
        for factor in factors:
            other = {name: max(2, int(start[name] * factor)) for name in names}
            sample = _sample(draft, {**start, **other}, base)
            is_other = any(other[name] != start[name] for name in names)
            samples += [sample] if sample is not None and is_other else []
        if samples:
            return samples
    return []


def _stepped(draft: Draft, start: Sizes, steps: Mapping[str, int], base: Written) -> Sample | None:
    """The first sample whose text is like the base's but for numbers."""
    for factor in STEPS:
        at = {name: size + factor * steps.get(name, 0) for name, size in start.items()}
        if min(at.values()) < 2:
            continue
        sample = _sample(draft, at, base)
        if sample is not None:
            return sample
    return None


def _sample(draft: Draft, at: Sizes, base: Written) -> Sample | None:
    """The text at some sizes, if it is like the base's but for numbers."""
    written = draft(at)
    if written is None:
        return None
    written, lists = _without_lists(written)
    same_text = tokens(written.text)[0] == tokens(base.text)[0]
    same_weights = written.weights.keys() == base.weights.keys()
    return Sample(at, written, lists) if same_text and same_weights else None


def _without_lists(written: Written) -> tuple[Written, list[str]]:
    text, lists = without_lists(written.text)
    return replace(written, text=text), lists


def _opened(samples: Sequence[Sample], names: Sequence[str]) -> Written | None:
    sizes = [{name: sample.sizes[name] for name in names} for sample in samples]
    rows = zip(*(tokens(sample.written.text)[1] for sample in samples), strict=True)
    meanings: list[Expression | int] = []
    for numbers in rows:
        meaning = explain(numbers, sizes)
        if meaning is None:
            return None
        meanings.append(meaning)
    forms, lists = _forms(samples), _lists(samples, sizes)
    if forms is None or lists is None:
        return None
    base = samples[0].written
    text = _with_formulas(base, fill(base.text, meanings), forms)
    text = with_lists(text, lists) if text is not None else None
    weights = {key: array for key, array in base.weights.items() if key not in forms}
    return replace(base, text=text, weights=weights) if text is not None else None


def _has_ports(text: str, plain: str, sizes: Sizes) -> bool:
    """Whether inputs and outputs have the shapes of the text for just these sizes.

    ONNX may drop an axis of size 1, which others than 1 keep.
    """
    shapes = [
        [[_value(size, sizes) for size in shape.split(", ")] for shape in SHAPE.findall(line[0])]
        for line in map(PREDICT.findall, (text, plain))
    ]
    return shapes[0] == shapes[1]


def _value(size: str, sizes: Sizes) -> int:
    """`2 * seq + 1` at given sizes, as `Expression` writes it."""
    product, sign, offset = re.fullmatch(r"(.*?)(?: ([+-]) (\d+))?", size).groups()  # type: ignore[union-attr]
    value = math.prod(sizes[part] if part in sizes else int(part) for part in product.split(" * "))
    return value + int(f"{sign}{offset}") if sign else value


def _forms(samples: Sequence[Sample]) -> dict[str, Form] | None:
    """Formulas of the tables that change with the sizes; None if one has none."""
    forms: dict[str, Form] = {}
    base = samples[0].written.weights
    for key, first in base.items():
        arrays = [sample.written.weights[key] for sample in samples]
        if all(_is_same(first, array) for array in arrays[1:]):
            continue
        found = {form_of(array) for array in arrays}
        form = found.pop() if len(found) == 1 else None
        if form is None:
            return None
        forms[key] = form
    return forms


def _lists(samples: Sequence[Sample], sizes: Sequence[Sizes]) -> list[str] | None:
    """Written lists; those that change as formulas."""
    texts = []
    for same in zip(*(sample.lists for sample in samples), strict=True):
        if len(set(same)) == 1:
            texts.append(same[0])
            continue
        arrays = [_array(text) for text in same]
        length = explain([array.size for array in arrays], sizes)
        forms = {form_of(array) for array in arrays}
        form = forms.pop() if len(forms) == 1 else None
        if form is None or length is None:
            return None
        texts.append(f"({form.text([str(length) if isinstance(length, int) else length.text])})")
    return texts


def _array(text: str) -> Array:
    dtype, *numbers = numbers_of(text)
    kinds = {"f32": np.float32, "i32": np.int32, "u32": np.uint32}
    if dtype == "bool":
        return np.array([number == "true" for number in numbers])
    return np.array([float(number) for number in numbers]).astype(kinds[dtype])


def _is_same(a: Array, b: Array) -> bool:
    return a.shape == b.shape and np.array_equal(a, b)


def _with_formulas(base: Written, text: str, forms: Mapping[str, Form]) -> str | None:
    """Declarations of tables become the first statements of what uses them."""
    waiting: list[str] = []
    lines: list[str] = []
    for before, line in zip(base.text.split("\n"), text.split("\n"), strict=True):
        declared = DECLARED.fullmatch(line)
        named = _declared_forms(base, before, forms) if declared else set()
        if declared and named:
            if len(named) > 1:
                return None
            form = named.pop()
            assert form is not None
            waiting.append(f"{declared[1]} = {form.text(declared[2].split(', '))}")
            continue
        lines.append(line)
        if waiting and re.match(r"\s*(fn forward|entry predict)\(.*\{$", line):
            indent = " " * (len(line) - len(line.lstrip()) + 2)
            lines += [f"{indent}{statement}" for statement in waiting]
            waiting = []
    return None if waiting else "\n".join(lines)


def _declared_forms(base: Written, line: str, forms: Mapping[str, Form]) -> set[Form | None]:
    """The formulas of all tables that a declaration may stand for."""
    declared = DECLARED.fullmatch(line)
    assert declared is not None
    shape = tuple(map(int, declared[2].split(", ")))
    keys = [
        key
        for key, array in base.weights.items()
        if key.rpartition(".")[2] == declared[1] and array.shape == shape
    ]
    return {forms.get(key) for key in keys} if any(key in forms for key in keys) else set()


def is_accepted(text: str, sizes: Sizes) -> bool:
    """Whether a text has no errors with these sizes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.wg"
        path.write_text(text, encoding="utf-8")
        try:
            read_program(path, sizes=dict(sizes))
        except WgError:
            return False
    return True
