"""What the kernels of an entry read and write, in bytes: each element of a tensor once per kernel.

Caches are taken to be perfect inside a kernel, and empty between kernels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wgcc.compiler import read_program
from wgcc.ir.graph import Graph, Node, Value
from wgcc.ops.registry import Special
from wgcc.passes.dataflow import Flow, elements_read, is_update, lists_of, lowering, replaced_by
from wgcc.passes.pipeline import PREPARED, run_passes
from wgcc.schedule.fuse.fuse import Fused, fuse
from wgcc.schedule.fuse.group import FLAT, Group

WORD = 4


@dataclass(frozen=True)
class Moved:
    """Of one kernel."""

    label: str
    kind: str
    read: int
    written: int

    @property
    def bytes(self) -> int:
        return self.read + self.written


def moved(path: Path, sizes: dict[str, int], entry: str = "train") -> list[Moved]:
    _, program, _ = read_program(path, sizes=sizes)
    return list(_moved(run_passes(program, until=PREPARED).entries[entry]))


def _moved(graph: Graph) -> Iterator[Moved]:
    fused, flow = fuse(graph), Flow.of(graph)
    wanted = {name for group in fused.groups for name in group.reads} | flow.results
    wanted |= {v.name for n in graph.nodes if is_update(n) for v in lists_of(n).get("g", ())}
    reads = _elements(flow, fused)
    for group in fused.groups:
        if group.kind != FLAT:
            label = group.roots[-1].outputs[-1].name
            stored = (
                v for root in group.roots for v in root.outputs if _is_stored(v, root, wanted)
            )
            written = WORD * sum(value.type.size for value in stored)
            yield Moved(label, group.kind, WORD * reads[group.number], written)


def _is_stored(value: Value, root: Node, wanted: set[str]) -> bool:
    return value.name in wanted or (is_update(root) and value.name in replaced_by(root))


def _elements(flow: Flow, fused: Fused) -> dict[int, int]:
    """By number of a group, how many elements it reads."""
    found = defaultdict[int, int](int)
    owner = {id(root): group for group in fused.groups for root in group.roots}
    made = [value for node in flow.graph.nodes for value in node.outputs]
    for value in (*flow.graph.sources, *made):
        if value.name not in fused.inlined:
            for group, count in _by_group(flow, fused, owner, value).items():
                found[group] += min(count, value.type.size)
    return found


def _by_group(flow: Flow, fused: Fused, owner: dict[int, Group], value: Value) -> dict[int, int]:
    """The most that each root reads in one way; operands of products and attention are apart."""
    most: dict[tuple[int, int], int] = {}
    pending = [(value, value.type.size)]
    while pending:
        part, count = pending.pop()
        for node in flow.consumers.get(part.name, ()):
            if node.outputs[0].name in fused.inlined:
                pending.append((node.output, elements_read(node, part, count)))
                continue
            for i, operand in enumerate(node.inputs):
                if operand.name == part.name:
                    key = id(node), i if isinstance(lowering(node), Special) else 0
                    most[key] = max(count, most.get(key, 0))
    found = defaultdict[int, int](int)
    for (root, _), count in most.items():
        if value.name not in owner[root].names:
            found[owner[root].number] += count
    return found
