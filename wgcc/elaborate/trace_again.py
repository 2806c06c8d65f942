"""Traces one entry once more with another number of rows, as `--set` would make it.

Two such graphs show which numbers and sizes of an entry depend on how many rows it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from wgcc.elaborate.elaborate import load
from wgcc.elaborate.program.models import trace_one
from wgcc.elaborate.report import Exhausted
from wgcc.elaborate.tracing.values import LayerDefinition
from wgcc.errors import Diagnostics, Source, WgError
from wgcc.ir.graph import Graph
from wgcc.syntax import ast


def trace_again(
    root: str | Path | Source,
    sizes: Mapping[str, int],
    model: str,
    entry: str,
    literal: tuple[int, int] | None = None,
) -> Graph | None:
    """The graph of an entry with other `sizes`; None if it cannot be built with them.

    `literal`: a leading size written as the first number in the entry's types becomes the second.
    """
    diagnostics = Diagnostics()
    try:
        context, _, file = load(root, diagnostics, sizes)
        if diagnostics.errors:
            return None
        (definition,) = [each for each in file.models if each.name == model]
        chosen = definition if literal is None else _with_rows(definition, entry, *literal)
        graph = trace_one(context, chosen, entry)
    except (Exhausted, WgError):
        return None
    if graph is None or diagnostics.errors:
        return None
    return graph.with_facts(choices=tuple(context.choices))


def _with_rows(definition: LayerDefinition, entry: str, old: int, new: int) -> LayerDefinition:
    members = tuple(
        _entry_with_rows(member, old, new)
        if isinstance(member, ast.Function) and member.is_entry and member.name.text == entry
        else member
        for member in definition.node.members
    )
    return replace(definition, node=replace(definition.node, members=members))


def _entry_with_rows(entry: ast.Function, old: int, new: int) -> ast.Function:
    values = tuple(
        replace(value, kind=_type_with_rows(value.kind, old, new))
        if isinstance(value.kind, ast.TypeExpr)
        else value
        for value in entry.values
    )
    result = entry.result
    if isinstance(result, ast.TupleType):
        fields = tuple(
            replace(field, type=_type_with_rows(field.type, old, new))
            if isinstance(field.type, ast.TypeExpr)
            else field
            for field in result.fields
        )
        result = replace(result, fields=fields)
    return replace(entry, values=values, result=result)


def _type_with_rows(type_: ast.TypeExpr, old: int, new: int) -> ast.TypeExpr:
    first = type_.dims[0] if type_.dims else None
    if not isinstance(first, ast.Int) or first.value != old:
        return type_
    return replace(type_, dims=(replace(first, value=new), *type_.dims[1:]))
