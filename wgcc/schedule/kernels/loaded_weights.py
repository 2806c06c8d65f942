"""Which parameters a product may load from their f16 copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wgcc.ir.graph import Node, Value
from wgcc.passes.dataflow import moves
from wgcc.passes.lay_out import may_be_copied
from wgcc.schedule.codegen.bindings import Parts
from wgcc.schedule.fuse.group import Group

Inlined = Mapping[str, Node]


def loaded_weights(
    group: Group, params: Mapping[str, Value], inlined: Inlined, parts: Parts
) -> set[str]:
    """Large parameters that a product loads as they are, and uses in no other way."""
    if group.roots[0].op != "matmul":
        return set()
    ways = set(_reads(group, inlined, parts))
    as_operands = {name for name, moved in ways if moved and name in params}
    large = {name for name in as_operands if may_be_copied(params[name].type)}
    return large - {name for name, moved in ways if not moved}


def _reads(group: Group, inlined: Inlined, parts: Parts) -> Iterator[tuple[str, bool]]:
    """What it reads, and whether that is an operand of the product as it is."""
    pending = [(value, i == 0) for i, root in enumerate(group.roots) for value in root.inputs]
    seen = {(name, moved) for name in group.names for moved in (True, False)}
    while pending:
        value, moved = pending.pop()
        if (value.name, moved) in seen:
            continue
        seen.add((value.name, moved))
        node, part = inlined.get(value.name), parts.get(value.name)
        if node is not None:
            pending += [(operand, moved and moves(node)) for operand in node.inputs]
        elif part is not None:
            pending.append((part.whole, moved))
        else:
            yield value.name, moved


__all__ = ["loaded_weights"]
