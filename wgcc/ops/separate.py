"""Axes along which ops compute each index alone: what the field `separate` of several ops is."""

from __future__ import annotations

from wgcc.ir.graph import Node
from wgcc.ops.registry import SharedAxis


def other_axes(node: Node) -> list[SharedAxis]:
    """All but attribute `axis`; every input and the output have as many."""
    others = (k for k in range(node.output.type.rank) if k != node.attrs["axis"])
    return [((k,) * len(node.inputs), (k,)) for k in others]
