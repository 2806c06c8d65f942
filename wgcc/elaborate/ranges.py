"""Which numbers the integer inputs of an entry may hold, found from what they look up.

A GPU clamps an index that is out of range and goes on; runtimes refuse such an input instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from wgcc.ir.graph import INTEGERS, Node, Value

# The lowest and highest number allowed, and one more that is allowed besides.
Range = tuple[int, int, int | None]

# Ops whose output holds nothing but elements of these inputs.
CARRIED: Mapping[str, Callable[[Node], Sequence[Value]]] = {
    **dict.fromkeys(
        (
            "reshape",
            "transpose",
            "broadcast",
            "slice",
            "window",
            "gather",
            "cast",
            "stop_grad",
            "remat",
        ),
        lambda node: node.inputs[:1],
    ),
    "concat": lambda node: node.inputs,
}


def input_ranges(inputs: Iterable[Value], nodes: Sequence[Node]) -> dict[str, Range]:
    """The ranges by input name, for inputs that reach a lookup unchanged."""
    origins = {value: {value} for value in inputs if value.dtype in INTEGERS}
    found: dict[str, Range] = {}
    for node in nodes:
        for value, allowed in _lookups(node):
            for origin in origins.get(value, ()):
                known = found.get(origin.name)
                found[origin.name] = _both(known, allowed) if known else allowed
        carried = CARRIED[node.op](node) if node.op in CARRIED else ()
        reached = {origin for value in carried for origin in origins.get(value, ())}
        if reached and node.output.dtype in INTEGERS:
            origins[node.output] = reached
    return found


def _lookups(node: Node) -> list[tuple[Value, Range]]:
    """The operands of a node that are places, with the places there are."""
    if node.op == "gather":
        table, ids = node.inputs
        return [(ids, (0, table.shape[0] - 1, None))]
    if node.op == "window":
        x, at = node.inputs
        return [(at, (0, x.shape[node.attrs["axis"]] - node.attrs["size"], None))]
    if node.op == "window_update":
        base, update, at = node.inputs
        axis = node.attrs["axis"]
        return [(at, (0, base.shape[axis] - update.shape[axis], None))]
    if node.op == "cross_entropy":
        logits, labels = node.inputs
        return [(labels, (0, logits.shape[-1] - 1, node.attrs["ignore"]))]
    return []


def _both(a: Range, b: Range) -> Range:
    """What two lookups of one input allow: padding that one of them ignores is allowed."""
    low, high = max(a[0], b[0]), min(a[1], b[1])
    also = [number for number in (a[2], b[2]) if number is not None]
    if len(set(also)) < 2:
        return low, high, also[0] if also else None
    # A plan has room for one exception; two of them widen the range.
    return min(low, *also), max(high, *also), None
