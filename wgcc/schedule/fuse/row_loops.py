"""In which of its loops over a row a reducing kernel makes each value."""

from __future__ import annotations

from collections.abc import Mapping

from wgcc.ir.graph import Node, Value
from wgcc.ops.registry import Reduce
from wgcc.passes.dataflow import lowering
from wgcc.schedule.fuse.group import Group


class RowLoops:
    """A value that needs the result of a reduction can be made only in a loop after it."""

    def __init__(self, group: Group, inlined: Mapping[str, Node]) -> None:
        assert group.space is not None
        self._space, self._roots, self._inlined = group.space, group.roots, inlined
        self._own = {root.output.name: root for root in group.roots}
        self._before: dict[str, int] = {}

    @property
    def count(self) -> int:
        counts = [0]
        for node in self._roots:
            if isinstance(lowering(node), Reduce):
                counts.append(self.before(node.output))
            elif not self.is_result(node.output):
                counts.append(self.before(node.output) + 1)
        return max(counts)

    def before(self, value: Value) -> int:
        """How many loops over the row must have ended before a value can be computed."""
        if value.name not in self._before:
            node = self._inlined.get(value.name) or self._own.get(value.name)
            count = max((self.before(v) for v in node.inputs), default=0) if node else 0
            reductions = node is not None and isinstance(lowering(node), Reduce)
            self._before[value.name] = count + reductions
        return self._before[value.name]

    def is_result(self, value: Value) -> bool:
        """One per row, not one per element of it."""
        return value.type.size == self._space.outer
