"""Keeps sizes open in a model file, so that `wgcc build --set batch=5` builds it for others.

The program is written for several sizes. Each number in it that changes must be an expression of
the sizes, and each table that changes a formula; the result is checked at sizes that were not used
to find it. A size for which this fails stays a number.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from wgcc.compiler import read_program
from wgcc.errors import WgError
from wgcc.from_onnx.literals import number_of
from wgcc.from_onnx.patterns import match_list
from wgcc.from_onnx.size_expressions import (
    Expression,
    Form,
    Sizes,
    Skeleton,
    explain,
    fill,
    form_of,
    skeleton,
)
from wgcc.from_onnx.writing.model import Written
from wgcc.ir.dtypes import DTYPE_TABLE
from wgcc.ir.program import Program
from wgcc.lazy_numpy import Array, np
from wgcc.syntax import ast, templates
from wgcc.syntax.templates import NOWHERE, identifier
from wgcc.syntax.tree_text import walk

# The program at given sizes; None where the model does not allow them.
Draft: TypeAlias = Callable[[Sizes], Written | None]
# Sizes are changed by so much, until the model allows it.
STEPS = (1, 2, -1, 3, 4, 8, 16, 32)
MOST_SIZES = 6
MOST_BYTES = 1 << 30


def open_program(draft: Draft, sizes: Sizes, rows: str = "") -> Written | None:
    """The program with `dim` for as many sizes as can stay open; None if none can.

    The size called `rows` stays open only where each row is computed alone.
    """
    names = tuple(sizes)
    if not names or len(names) > MOST_SIZES:
        return None
    all_open = _attempt(draft, sizes, names, rows)
    if all_open is not None or len(names) == 1:
        return all_open
    alone = {name: _attempt(draft, sizes, (name,), rows) for name in names}
    kept = tuple(name for name in names if alone[name] is not None)
    together = _attempt(draft, sizes, kept, rows) if 1 < len(kept) < len(names) else None
    return together or (alone[kept[0]] if kept else None)


@dataclass(frozen=True, slots=True)
class SizedProgram:
    """A program at some sizes."""

    sizes: Sizes
    written: Written
    skeleton: Skeleton


def _attempt(draft: Draft, sizes: Sizes, names: Sequence[str], rows: str) -> Written | None:
    plain = draft(sizes)
    samples = _samples(draft, sizes, names) if plain is not None else None
    if samples is None or plain is None:
        return None
    opened = _open(samples, names)
    if opened is None or not _has_ports(opened, plain, sizes):
        return None
    dims = [ast.DimDecl(NOWHERE, identifier(key), ast.Int(NOWHERE, sizes[key])) for key in names]
    edition, *items = opened.file.items
    whole = (edition, ast.Dims(NOWHERE, tuple(dims)), *items)
    opened = replace(opened, file=replace(opened.file, items=whole))
    last = {name: samples[-1].sizes[name] for name in names}
    programs = [program_of(opened.text, at) for at in ({}, last)]
    is_open = all(program is not None for program in programs)
    return opened if is_open and (rows not in names or _has_rows(programs[0], rows)) else None


def _has_rows(program: Program | None, size: str) -> bool:
    """Whether its inputs and outputs have rows, as many as the size says, each computed alone."""
    rows = program.entries["predict"].entry.rows if program is not None else ()
    return any(
        item.decided_by is not None
        and item.decided_by[0] == size
        and not item.why
        and set(item.outputs.values()) == {"rows"}
        for item in rows
    )


def _samples(draft: Draft, sizes: Sizes, names: Sequence[str]) -> list[SizedProgram] | None:
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
    base = SizedProgram(start, first, skeleton(first.file))
    if sum(array.nbytes for array in first.weights.values()) > MOST_BYTES:
        return None
    samples = [base]
    changed = []
    for name in names:
        sample = _step(draft, start, {name: 1}, base)
        if sample is None:
            return None
        samples.append(sample)
        changed.append(sample.sizes[name] - start[name])
    steps = {name: 2 * step + place for place, (name, step) in
             enumerate(zip(names, changed, strict=True))}  # fmt: skip
    last = _step(draft, start, steps, base)
    far = _far(draft, start, names, base)
    return [*samples, *far, last] if last is not None and far else None


def _far(
    draft: Draft, start: Sizes, names: Sequence[str], base: SizedProgram
) -> list[SizedProgram]:
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


def _step(
    draft: Draft, start: Sizes, steps: Mapping[str, int], base: SizedProgram
) -> SizedProgram | None:
    """The first sample that is like the base but for numbers."""
    for factor in STEPS:
        at = {name: size + factor * steps.get(name, 0) for name, size in start.items()}
        if min(at.values()) < 2:
            continue
        sample = _sample(draft, at, base)
        if sample is not None:
            return sample
    return None


def _sample(draft: Draft, at: Sizes, base: SizedProgram) -> SizedProgram | None:
    """The program at some sizes, if it is like the base but for numbers."""
    written = draft(at)
    if written is None:
        return None
    sample = SizedProgram(at, written, skeleton(written.file))
    is_same = sample.skeleton.form == base.skeleton.form
    has_same = written.weights.keys() == base.written.weights.keys()
    return sample if is_same and has_same else None


def _open(samples: Sequence[SizedProgram], names: Sequence[str]) -> Written | None:
    sizes = [{name: sample.sizes[name] for name in names} for sample in samples]
    rows = zip(*(sample.skeleton.numbers for sample in samples), strict=True)
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
    remarks = dict(base.remarks)
    filled = replace(base, file=fill(base.file, meanings, lists, remarks), remarks=remarks)
    file = _with_formulas(filled, forms)
    weights = {key: array for key, array in base.weights.items() if key not in forms}
    return replace(filled, file=file, weights=weights) if file is not None else None


def _has_ports(opened: Written, plain: Written, sizes: Sizes) -> bool:
    """Whether inputs and outputs have the shapes of the program for just these sizes.

    ONNX may drop an axis of size 1, which others than 1 keep.
    """
    shapes = []
    for written in (opened, plain):
        entry = written.entry("predict")
        assert entry is not None and entry.result is not None
        ports = [node for part in (*entry.values, entry.result) for node in walk(part)
                 if isinstance(node, ast.TypeExpr)]  # fmt: skip
        shapes.append([[_value(size, sizes) for size in port.dims] for port in ports])
    return shapes[0] == shapes[1]


def _value(size: object, sizes: Sizes) -> int:
    """`2 * seq + 1` at given sizes."""
    if isinstance(size, ast.Binary):
        left, right = _value(size.left, sizes), _value(size.right, sizes)
        return {"*": left * right, "+": left + right, "-": left - right}[size.op]
    assert isinstance(size, ast.Int | ast.Name)
    return size.value if isinstance(size, ast.Int) else sizes[size.text]


def _forms(samples: Sequence[SizedProgram]) -> dict[str, Form] | None:
    """Formulas of the tables that change with the sizes; None if one has none."""
    forms: dict[str, Form] = {}
    base = samples[0].written.weights
    for key, first in base.items():
        arrays = [sample.written.weights[key] for sample in samples]
        if all(_is_same(first, array) for array in arrays[1:]):
            continue
        formulas = {form_of(array) for array in arrays}
        form = formulas.pop() if len(formulas) == 1 else None
        if form is None:
            return None
        forms[key] = form
    return forms


def _lists(samples: Sequence[SizedProgram], sizes: Sequence[Sizes]) -> list[ast.Expr] | None:
    """Written lists; those that change as formulas."""
    trees: list[ast.Expr] = []
    for same in zip(*(sample.skeleton.lists for sample in samples), strict=True):
        arrays = [_array(tree) for tree in same]
        if all(_is_same(arrays[0], array) for array in arrays[1:]):
            trees.append(same[0])
            continue
        length = explain([array.size for array in arrays], sizes)
        forms = {form_of(array) for array in arrays}
        form = forms.pop() if len(forms) == 1 else None
        if form is None or length is None:
            return None
        size = ast.Int(NOWHERE, length) if isinstance(length, int) else length.tree
        trees.append(form.tree([size]))
    return trees


def _array(tree: ast.Call) -> Array:
    assert isinstance(tree.function, ast.Dtype)
    items = match_list(tree) or ()
    numbers = [item.value if isinstance(item, ast.Bool) else number_of(item) for item in items]
    return np.array(numbers).astype(DTYPE_TABLE[tree.function.name].numpy)


def _is_same(a: Array, b: Array) -> bool:
    return a.shape == b.shape and np.array_equal(a, b)


def _with_formulas(written: Written, forms: Mapping[str, Form]) -> ast.File | None:
    """Tables that change become the first statements of what uses them."""
    tables: dict[tuple[str, str], Form] = {}
    for key in written.weights:
        owner = written.owner(key)
        if owner is None:
            if key in forms:
                return None
        elif tables.setdefault(owner, forms.get(key)) != forms.get(key):  # type: ignore[arg-type]
            return None
    items = [_with_tables(item, tables) if isinstance(item, ast.Layer) else item
             for item in written.file.items]  # fmt: skip
    return replace(written.file, items=tuple(items))


def _with_tables(layer: ast.Layer, tables: Mapping[tuple[str, str], Form]) -> ast.Layer:
    computed: dict[str, ast.Bind] = {}
    kept = []
    for member in layer.members:
        form = None
        if isinstance(member, ast.Param):
            form = tables.get((layer.name.text, member.name.text))
        if form is None:
            kept.append(member)
        else:
            assert isinstance(member, ast.Param)
            dims = [dim for dim in member.type.dims if not isinstance(dim, ast.Rest)]
            own = templates.name(member.name.text)
            computed[member.name.text] = templates.bind([own], form.tree(dims))
    members = [_beginning(item, computed) if isinstance(item, ast.Function) else item
               for item in kept]  # fmt: skip
    return replace(layer, members=tuple(members))


def _beginning(function: ast.Function, computed: Mapping[str, ast.Bind]) -> ast.Function:
    """The function with the tables that it uses computed first."""
    if not isinstance(function.body, ast.Block):
        return function
    used = {node.text for node in walk(function.body) if isinstance(node, ast.Name)}
    first = [statement for key, statement in computed.items() if key in used]
    body = replace(function.body, statements=(*first, *function.body.statements))
    return replace(function, body=body)


def program_of(text: str, sizes: Sizes) -> Program | None:
    """The program of a text with these sizes; None if it has errors."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.wg"
        path.write_text(text, encoding="utf-8")
        try:
            return read_program(path, sizes=dict(sizes))[1]
        except WgError:
            return None
