"""Which inputs of an ONNX model may hold NaN or infinity: masks that are added to scores, and what
the model itself tests for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

# Operators whose results are elements of their first operand.
VIEWS = frozenset(
    {"Cast", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Tile", "Transpose",
     "Unsqueeze"}
)  # fmt: skip
TESTS = frozenset({"IsInf", "IsNaN"})
# The operand that is a mask, by operator.
MASKS = {"Attention": 3}
FLOAT_KINDS = frozenset({1, 10, 11, 16})


def any_floats(graph: Any) -> set[str]:
    """The names of such inputs."""
    readers: dict[str, list[tuple[Any, int]]] = defaultdict(list)
    for node in graph.node:
        for place, name in enumerate(node.input):
            readers[name].append((node, place))
    floats = [port.name for port in graph.input if port.type.tensor_type.elem_type in FLOAT_KINDS]
    return {
        name for name in floats if any(_is_special(*use, readers) for use in _uses(name, readers))
    }


Readers = dict[str, list[tuple[Any, int]]]


def _uses(name: str, readers: Readers) -> Iterator[tuple[Any, int]]:
    """Nodes that read a tensor, or a view of it, and as which operand."""
    todo, seen = [name], {name}
    while todo:
        for node, place in readers.get(todo.pop(), ()):
            if node.op_type in VIEWS and place == 0:
                todo += [output for output in node.output if output not in seen]
                seen.update(node.output)
            else:
                yield node, place


def _is_special(node: Any, place: int, readers: Readers) -> bool:
    if node.op_type in TESTS or MASKS.get(node.op_type) == place:
        return True
    if node.op_type != "Add":
        return False
    return any(reader.op_type == "Softmax" for reader, _ in _uses(node.output[0], readers))
