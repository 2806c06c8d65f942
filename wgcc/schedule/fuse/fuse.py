"""Put materialised values together into kernels: groups that loop over the same elements.

They are taken in order. Each joins the latest group where that is worth it and legal (`merge.py`)
and no cycle arises; otherwise it starts a group of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from wgcc.ir.graph import Graph, Node, TensorType
from wgcc.ir.index import Space
from wgcc.ops.registry import Join, Repeat, Special, Update, View
from wgcc.passes.dataflow import Flow, behind_views, bound_alone, compared_with_extreme, lowering
from wgcc.schedule.fuse.group import (
    REPEAT,
    Bound,
    Candidates,
    Group,
    Precedence,
    Touched,
    falling,
    find_bias_gradients,
    own_space,
    product_position,
    space_by_rows,
)
from wgcc.schedule.fuse.materialise import Reason, choose_materialised
from wgcc.schedule.fuse.merge import (
    IS_ALIKE,
    SMALL,
    TOO_MANY_BINDINGS,
    Answer,
    Merge,
    common_space,
)
from wgcc.schedule.kernel import MAX_BINDINGS

__all__ = ["Fused", "Group", "fuse", "own_space", "product_position"]

# Why a value starts a kernel, where no group was asked.
FIRST = "starts the kernel"
APART = Answer(False, "gradients must be complete before it")
BIAS_GRADIENT = "is a bias gradient: sums the columns that the product loads"


@dataclass(slots=True)
class Fused:
    """The groups of a graph, and what is computed again at each use.

    `reasons` says for every value why it is materialised or not.
    """

    producers: Mapping[str, Node]
    bound: Bound
    groups: list[Group]
    inlined: dict[str, Node]
    touched: Touched
    reasons: dict[str, Reason]


def fuse(
    graph: Graph,
    before_updates: Set[str] = frozenset(),
    alone: Set[str] = frozenset(),
    uniforms: Set[str] = frozenset(),
    packs: Mapping[str, str] | None = None,
    apart: Set[str] = frozenset(),
) -> Fused:
    """`before_updates` are values that must have been made when an update runs.

    `alone` take a binding each, whatever their size; `uniforms` are counters of loops; `packs` says
    which values are bound together; `apart` share kernels with each other only.
    """
    bound = Bound(bound_alone(graph) | alone, uniforms, packs or {})
    fuser = _Fuser(graph, bound, before_updates, apart)
    groups, touched = fuser.run(), fuser.merge.touched
    return Fused(graph.producers, bound, groups, fuser.inlined, touched, fuser.reasons)


class _Fuser:
    def __init__(
        self, graph: Graph, bound: Bound, before_updates: Set[str], apart: Set[str]
    ) -> None:
        self.flow, self.bound = Flow.of(graph), bound
        self.before_updates, self.apart = before_updates, apart
        compared = compared_with_extreme(self.flow)
        self.reasons = choose_materialised(self.flow, bound, compared)
        self.materialised = {n for n, reason in self.reasons.items() if reason.materialised}
        self.inlined = {n: p for n, p in self.flow.producers.items() if n not in self.materialised}
        self.groups: list[Group] = []
        self.owner: dict[str, Group] = {}
        self.merge = Merge(self.flow, bound, self.inlined, compared)
        self.bias_gradients = find_bias_gradients(self.flow, self.materialised)
        self.product_of = {
            bias_gradient.output.name: name for name, bias_gradient in self.bias_gradients.items()
        }
        self.related = Candidates()
        self.precedence = Precedence()
        self.alike: dict[_Likeness, list[int]] = {}

    def run(self) -> list[Group]:
        touched = self.merge.touched
        for node in self.flow.graph.nodes:
            outputs = [value.name for value in node.outputs]
            new = any(name in self.materialised and name not in self.owner for name in outputs)
            if new and not self._place_with_bias_gradient(node):
                self._place(node)
        for group in self.groups:
            group.reads = {n for root in group.roots for n in touched(root)} - group.names
        return self.groups

    def _place_with_bias_gradient(self, node: Node) -> bool:
        """Place a product and the bias gradient fused with it together, at the first of them."""
        name = node.outputs[0].name
        name = self.product_of.get(name, name)
        if name not in self.bias_gradients:
            return False
        product, bias_gradient = self.flow.producers[name], self.bias_gradients[name]
        touched = self.merge.touched(product) | self.merge.touched(bias_gradient)
        waiting = (touched & self.materialised) - self.owner.keys()
        if waiting or self.merge.bindings([product, bias_gradient]) > MAX_BINDINGS:
            del self.bias_gradients[name]
            return False
        needs = {self.owner[name].number for name in touched if name in self.owner}
        group = self._new_group(product)
        self._join(product, group, needs, FIRST)
        self._join(bias_gradient, group, needs, BIAS_GRADIENT)
        return True

    def _place(self, node: Node) -> None:
        touched: Set[str] = self.merge.touched(node)
        if isinstance(lowering(node), Update):
            touched = touched | self.before_updates
        needs = {self.owner[name].number for name in touched if name in self.owner}
        refused = FIRST
        for group in self._candidates(node, needs):
            space, answer = self._try_merge(node, group, needs)
            if space is not None:
                group.space = space
                self._join(node, group, needs - {group.number}, answer.reason)
                return
            if refused is FIRST:
                other = group.roots[0].outputs[0].name
                refused = f"{FIRST}, not that of {other}: {answer.reason}"
        self._join(node, self._new_group(node), needs, refused)

    def _try_merge(self, node: Node, group: Group, needs: set[int]) -> tuple[Space | None, Answer]:
        """The space that a kernel of both loops over, or None if they stay apart; and why."""
        if (node.outputs[0].name in self.apart) != bool(group.names & self.apart):
            return None, APART
        if group.kind != "loop" and _may_share(node):
            roots = [*group.roots, node]
            fits = self.merge.bindings(roots) <= MAX_BINDINGS
            return (group.space, IS_ALIKE) if fits else (None, TOO_MANY_BINDINGS)
        space = common_space(group, node, self.inlined)
        if isinstance(space, Answer):
            return None, space
        profit = self.merge.profit(node, group, space, group.number in needs)
        if not profit.yes:
            return None, profit
        legal = self.merge.legality(node, group, space)
        return (space, profit) if legal.yes else (None, legal)

    def _new_group(self, node: Node) -> Group:
        group = Group(_kind(node), [], own_space(node), number=len(self.groups))
        self.groups.append(group)
        if _may_share(node):
            self.alike.setdefault(_likeness(node), []).append(group.number)
        return group

    def _join(self, node: Node, group: Group, needs: set[int], why: str) -> None:
        group.add(node, why)
        group.needs |= needs
        self.precedence.need(group.number, needs)
        if group.kind == "loop" and group.space is not None:
            is_full = self.merge.bindings(group.roots) >= MAX_BINDINGS
            self.related.put(group.number, group.space, self.merge.touched(node), is_full)
        for value in node.outputs:
            self.owner[value.name] = group

    def _candidates(self, node: Node, needs: set[int]) -> Iterator[Group]:
        """Groups it reads from, latest first; then others that loop over the same elements.

        None of them would come to need itself.
        """
        if _kind(node) != "loop":
            yield from self._alike(node, needs)
            return
        for number in sorted(needs, reverse=True):
            if not self.precedence.of(needs - {number}) >> number & 1:
                yield self.groups[number]
        space = own_space(node)
        yield from self._joined_with(node, needs)
        rows = space_by_rows(node)
        if rows is not None:
            matches = self.related.groups(rows, self.merge.large_reads(node, rows), with_full=False)
            yield from (self.groups[n] for n in falling(matches & ~self.precedence.of(needs)))
        # Each dispatch of a loop is run many times.
        is_sought = space.outer == 1 or space.reduces() or bool(self.bound.uniforms)
        waits = is_sought and (space.size <= SMALL or self.merge.is_last_step(node))
        shared = None if waits else self.merge.large_reads(node, space)
        with_full = node.output.name not in self.bound.alone
        matches = self.related.groups(space, shared, with_full)
        yield from (self.groups[n] for n in falling(matches & ~self.precedence.of(needs)))

    def _alike(self, node: Node, needs: set[int]) -> Iterator[Group]:
        """Groups of a family that may share a kernel, whose nodes are like this one."""
        numbers = self.alike.get(_likeness(node), ())
        before = self.precedence.of(needs)
        yield from (self.groups[n] for n in reversed(numbers) if not before >> n & 1)

    def _joined_with(self, node: Node, needs: set[int]) -> Iterator[Group]:
        """Groups whose results are joined with those of the node: they are wanted together."""
        before = self.precedence.of(needs)
        joins = self.flow.readers(node.output, lambda n: isinstance(lowering(n), View))
        values = (value for n in joins if isinstance(lowering(n), Join) for value in n.inputs)
        stored = (behind_views(value, self.flow.producers) for value in values)
        owners = (self.owner.get(value.name) for value in stored)
        numbers = {group.number for group in owners if group is not None and group.kind == "loop"}
        numbers = {number for number in numbers - needs if not before >> number & 1}
        yield from (self.groups[number] for number in sorted(numbers, reverse=True))


# What nodes that may share a kernel have in common.
_Likeness = tuple[str, tuple[TensorType, ...], str]


def _may_share(node: Node) -> bool:
    """Bytes of a word that nodes write are not merged with others."""
    lower = lowering(node)
    return isinstance(lower, Special) and lower.shares and not node.output.type.is_packed


def _likeness(node: Node) -> _Likeness:
    return node.op, tuple(value.type for value in node.inputs), repr(sorted(node.attrs.items()))


def _kind(node: Node) -> str:
    match lowering(node):
        case Special(family):
            return family
        case Update():
            return "update"
        case Repeat():
            return REPEAT
    return "loop"
