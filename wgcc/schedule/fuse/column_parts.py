"""Gradients that are columns of one product: its kernel stores each part in a place of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wgcc.ir.graph import Node, Value
from wgcc.schedule.codegen.bindings import VECTOR


@dataclass(frozen=True, slots=True)
class ColumnPart:
    """`width` columns of a product from `start` on; both are whole vectors."""

    start: int
    width: int

    @property
    def end(self) -> int:
        return self.start + self.width


def column_part(node: Node, product: Value, inlined: Mapping[str, Node]) -> ColumnPart | None:
    """The columns of a product that a node copies, if it does nothing else."""
    part = inlined.get(node.inputs[0].name) if node.op == "copy" else None
    if part is None or part.op != "slice" or part.inputs[0].name != product.name:
        return None
    starts, sizes = part.attrs["starts"], part.attrs["sizes"]
    if len(sizes) != 2 or sizes[0] != product.shape[0] or any(s > 1 for s in part.attrs["steps"]):
        return None
    is_whole = starts[1] % VECTOR == 0 and sizes[1] % VECTOR == 0
    return ColumnPart(starts[1], sizes[1]) if is_whole else None
