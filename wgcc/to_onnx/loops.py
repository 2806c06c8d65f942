"""Loops as ONNX's `Scan`, whose body reads outer tensors by their names.

Not all programs run it backwards: slices and results of such loops are reversed instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from wgcc.ir.graph import Graph, Value
from wgcc.ir.loops import Loop
from wgcc.lazy_numpy import np
from wgcc.to_onnx.emitter import ELEMENTS, NUMPY, Emitter

# Writes all nodes of a graph, given the ONNX names of what they read.
Write: TypeAlias = Callable[[Graph, Emitter, dict[str, str]], None]


def write_loop(loop: Loop, emitter: Emitter, names: dict[str, str], write: Write) -> dict[str, str]:
    """The ONNX names of its results."""
    from onnx.helper import make_node

    places = np.array(loop.positions, NUMPY[loop.index.dtype])
    xs = [_in_order(loop, emitter, names[outer.name]) for outer, _ in loop.sliced]
    given = [*(names[value.name] for value in loop.inits), emitter.store(places, "places"), *xs]
    results = [emitter.fresh(value.name) for value in loop.node.outputs]
    emitter.nodes.append(
        make_node("Scan", given, results, name=results[0], num_scan_inputs=1 + len(xs),
                  body=_body(loop, emitter, names, write))
    )  # fmt: skip
    found = dict(zip((value.name for value in loop.node.outputs), results, strict=True))
    for value in loop.stacks:
        found[value.name] = _in_order(loop, emitter, found[value.name])
    return found


def _body(loop: Loop, emitter: Emitter, names: dict[str, str], write: Write) -> Any:
    from onnx.helper import make_graph

    inner, inside = emitter.inner(), dict(names)
    inside |= {value.name: names[outer.name] for outer, value in loop.captured}
    ports = (*loop.carries, loop.index, *(value for _, value in loop.sliced))
    inside |= {value.name: inner.fresh(value.name) for value in ports}
    write(loop.body, inner, inside)
    results = (*loop.next_carries, *loop.body.outputs.values())
    made = {inner.node("Identity", inside[value.name]): value for value in results}
    inputs = _declared((inside[value.name], value) for value in ports)
    return make_graph(inner.nodes, emitter.fresh("round"), inputs, _declared(made.items()))


def _declared(ports: Iterable[tuple[str, Value]]) -> list[Any]:
    from onnx.helper import make_tensor_value_info

    return [
        make_tensor_value_info(name, ELEMENTS[value.dtype], value.shape) for name, value in ports
    ]


def _in_order(loop: Loop, emitter: Emitter, name: str) -> str:
    """Turned around along the first axis, if the loop runs backwards."""
    if not loop.reverse:
        return name
    lists = [emitter.whole(item) for item in ([-1], [-(1 << 31)], [0], [-1])]
    return emitter.node("Slice", name, *lists)
