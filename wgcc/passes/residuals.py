"""Which values of a loop's rounds are stacked for its gradient: a minimum cut.

The gradient needs some values of each round. Each of them is stacked, or computed again from
others that are. The cheapest choice is a minimum cut between what can only be stacked and what is
needed, where cutting through a value costs as many elements as it has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping

from wgcc.ir.graph import Node, Value
from wgcc.ops import OPS
from wgcc.ops.registry import Pointwise, Source, View

UNLIMITED = 2**62
START, END = "start", "end"


def choose_residuals(
    needed: Iterable[Value],
    nodes: Iterable[Node],
    free: Collection[str],
    recompute: bool,
) -> list[Value]:
    """The values to stack, so that all of `needed` can be computed from them and `free` ones.

    `nodes` are those of the round. Only cheap nodes are computed again, or, to `recompute`, all.
    """
    made = {value.name: node for node in nodes for value in node.outputs}
    network = _Network()
    values: dict[str, Value] = {}
    waiting = [value for value in needed if value.name not in free]
    for value in waiting:
        network.add(_after(value), END, UNLIMITED)
    while waiting:
        value = waiting.pop()
        if value.name in values:
            continue
        values[value.name] = value
        network.add(_before(value), _after(value), value.type.size)
        node = made.get(value.name)
        if node is None or not (recompute or is_cheap(node)):
            network.add(START, _before(value), UNLIMITED)
            continue
        for operand in node.inputs:
            if operand.name not in free:
                network.add(_after(operand), _before(value), UNLIMITED)
                waiting.append(operand)
    reached = network.cut()
    return [v for v in values.values() if _before(v) in reached and _after(v) not in reached]


def is_cheap(node: Node) -> bool:
    """Whether it takes less to compute it again than to store it and load it."""
    lower = OPS[node.op].lower
    return isinstance(lower, View | Source) or (isinstance(lower, Pointwise) and lower.cheap)


def _before(value: Value) -> str:
    return f"before {value.name}"


def _after(value: Value) -> str:
    return f"after {value.name}"


class _Network:
    """Capacities between places; `cut` sends as much as they allow along shortest paths."""

    def __init__(self) -> None:
        self.capacity: dict[str, dict[str, int]] = {START: {}, END: {}}

    def add(self, start: str, end: str, capacity: int) -> None:
        self.capacity.setdefault(start, {})[end] = capacity
        self.capacity.setdefault(end, {}).setdefault(start, 0)

    def cut(self) -> set[str]:
        """The places that can still be reached from the start when no more can be sent."""
        while END in (came_from := self._search()):
            path = [END]
            while path[-1] != START:
                path.append(came_from[path[-1]])
            steps = [*zip(path[1:], path, strict=False)]
            amount = min(self.capacity[start][end] for start, end in steps)
            for start, end in steps:
                self.capacity[start][end] -= amount
                self.capacity[end][start] += amount
        return set(came_from)

    def _search(self) -> Mapping[str, str]:
        """Breadth first: from where each place that can be reached is reached."""
        came_from, waiting = {START: START}, deque([START])
        while waiting:
            place = waiting.popleft()
            for other, left in self.capacity[place].items():
                if left > 0 and other not in came_from:
                    came_from[other] = place
                    waiting.append(other)
        return came_from
