"""Plans where new contents of parameters and state are written, and in which order groups run.

A new content of a parameter or state is stored over the old one by the kernel that makes it,
wherever every reader of the old content can run before; otherwise it is copied there at the end.

Keep the content that an update replaces, for what is computed with it afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from wgcc.ir.graph import Graph, Node, Value
from wgcc.passes.dataflow import is_update, overwrites_bytes
from wgcc.passes.rewrite import builder_for
from wgcc.schedule.fuse.fuse import Fused
from wgcc.schedule.fuse.group import Group, Precedence, own_space
from wgcc.schedule.fuse.materialise import Reason
from wgcc.schedule.memory.order import may_store_in_place, run_order


def keep_old(graph: Graph, names: set[str]) -> tuple[Graph, frozenset[str]]:
    """Let everything but what replaces them read copies of these parameters or states.

    Gives the names of the copies, too.
    """
    builder = builder_for(graph)
    sources = [value for value in graph.sources if value.name in names]
    old = {v.name: builder.apply("copy", v, name=f"{v.name}.old") for v in sources}

    windows = {id(n) for n in graph.nodes if any(overwrites_bytes(n, name) for name in names)}

    def reads(node: Node) -> tuple[Value, ...]:
        inputs = tuple(old.get(value.name, value) for value in node.inputs)
        return (node.inputs[0], *inputs[1:]) if id(node) in windows else inputs

    nodes = [n if is_update(n) else replace(n, inputs=reads(n)) for n in graph.nodes]
    copies = frozenset(value.name for value in old.values())
    return replace(graph, nodes=(*builder.nodes, *nodes)), copies


# A value that cannot be stored over the old content is copied there.
LAST = "runs when nothing reads the old content any more"
REPLACES = Reason(True, "it replaces a parameter or state")


@dataclass(slots=True)
class WritePlan:
    """`order` is how groups run; `in_place` maps values to the parameter or state they replace.

    `late` are the parameters and states that are needed after an update has replaced them.
    """

    order: list[Group]
    in_place: dict[str, str] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)


def plan_writes(fused: Fused, writes: dict[str, Value]) -> WritePlan:
    write_plan = WritePlan([])
    owner = {name: group for group in fused.groups for name in group.names}
    readers_of, precedence = _readers(fused.groups), _precedence(fused.groups)
    for target, value in writes.items():
        group = owner[value.name]
        readers = [g for g in readers_of.get(target, ()) if g is not group]
        blocked = any(precedence.needs(reader.number, group.number) for reader in readers)
        if not blocked and may_store_in_place(fused, group, target, value):
            group.needs |= {reader.number for reader in readers}
            precedence.need(group.number, [reader.number for reader in readers])
            write_plan.in_place[value.name] = target
        elif is_update(node := fused.producers[value.name]) or overwrites_bytes(node, target):
            write_plan.late.add(target)
        else:
            copy = _copy_group(fused, target, value, [group, *readers])
            write_plan.in_place[copy.roots[0].output.name] = target
    write_plan.order = run_order(fused.groups)
    return write_plan


def _copy_group(fused: Fused, target: str, value: Value, after: list[Group]) -> Group:
    copy = Node("copy", (value,), (Value(f"{target}.write", value.type),))
    group = Group("loop", [], own_space(copy), number=len(fused.groups))
    group.add(copy, LAST)
    fused.reasons[copy.output.name] = REPLACES
    group.needs = {g.number for g in after}
    group.reads = {value.name}
    fused.groups.append(group)
    return group


def _readers(groups: list[Group]) -> dict[str, list[Group]]:
    readers: dict[str, list[Group]] = {}
    for group in groups:
        for name in group.reads:
            readers.setdefault(name, []).append(group)
    return readers


def _precedence(groups: list[Group]) -> Precedence:
    precedence = Precedence()
    for group in groups:
        precedence.need(group.number, group.needs)
    return precedence
