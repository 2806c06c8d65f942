"""May a kernel store a value in place of one that it reads?

It may if only the thread that stores the new element reads the old one, and before that.
"""

from __future__ import annotations

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import Coordinates, Index, coordinates_of, linear
from wgcc.ops.registry import Reduce, Special
from wgcc.passes.dataflow import lowering, operand_places
from wgcc.passes.updates import is_update
from wgcc.schedule.fuse.fuse import Fused
from wgcc.schedule.fuse.group import REPEAT, Group, own_space, product_position
from wgcc.schedule.fuse.row_loops import RowLoops


def may_store_in_place(fused: Fused, group: Group, old: str, new: Value) -> bool:
    """`new` is made by the group; `old` is the name of a value of equal size."""
    if group.kind == REPEAT:
        return False
    if old not in group.reads:
        return True
    node = fused.producers[new.name]
    if group.kind == "window_update":
        return node.inputs[0].name == old and old not in _needed(fused, node.inputs[1:])
    if is_update(node):
        return True
    if group.kind == "matmul":
        return _in_epilogue(fused, group, old, new)
    return group.kind == "loop" and _at_same_element(fused, group, old, new)


def _at_same_element(fused: Fused, group: Group, old: str, new: Value) -> bool:
    space = group.space
    assert space is not None
    if space.reduces() and not _stored_last(RowLoops(group, fused.inlined), group, new):
        return False
    starts = [root.inputs[0] if own_space(root).reduces() else root.output for root in group.roots]
    pending = [(value, space.coordinates(value.shape)) for value in starts]
    here = linear(space.coordinates(new.shape), new.shape)
    return all(at == here for at in _positions_read(fused, group, old, pending))


def _stored_last(loops: RowLoops, group: Group, new: Value) -> bool:
    """No loop over the row comes later, and no lane of a workgroup can still need the old."""
    if loops.is_result(new):
        return all(loops.is_result(root.output) for root in group.roots)
    return loops.before(new) + 1 == loops.count


def _in_epilogue(fused: Fused, group: Group, old: str, new: Value) -> bool:
    """Neither operand of the product, nor a bias gradient fused with it, may need the old value."""
    product, *steps = [root for root in group.roots if not isinstance(lowering(root), Reduce)]
    if old in _needed(fused, product.inputs):
        return False
    position = product_position(product.output)
    pending = [(s.output, coordinates_of(position, s.output.shape)) for s in steps]
    return all(at == position for at in _positions_read(fused, group, old, pending))


def _needed(fused: Fused, values: tuple[Value, ...]) -> set[str]:
    """All that is read to compute some values where they are used."""
    pending, seen = list(values), set()
    while pending:
        value = pending.pop()
        if value.name not in seen:
            seen.add(value.name)
            node = fused.inlined.get(value.name)
            pending.extend(node.inputs if node else ())
    return seen


def _positions_read(
    fused: Fused, group: Group, old: str, pending: list[tuple[Value, Coordinates]]
) -> list[Index]:
    """Where a value is read on the way to what is pending."""
    own = {root.output.name: root for root in group.roots}
    found: list[Index] = []
    seen = set()
    while pending:
        value, at = pending.pop()
        if (value.name, at) in seen:
            continue
        seen.add((value.name, at))
        if value.name == old:
            position = linear(at, value.shape)
            # A thread that stores a word of four elements reads those.
            packed = value.type.is_packed and value.type.size > 1
            is_source = value.name not in fused.producers
            found.append(position // 4 if packed and is_source else position)
        node = fused.inlined.get(value.name) or own.get(value.name)
        if node is not None and _is_by_element(node):
            pending.extend(operand_places(node, at))
    return found


def _is_by_element(node: Node) -> bool:
    """Reductions and products are looked at through operands of their own."""
    return not isinstance(lowering(node), Reduce | Special)
