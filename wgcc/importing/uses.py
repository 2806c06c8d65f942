"""How each parameter is used in the graph: the meaning of its axes decides how it is stored.

The axes of a parameter are followed through views, casts and arithmetic among parameters to the
operation that applies them to data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from wgcc.importing.transforms import Shape
from wgcc.ir.graph import Graph, Node, Value
from wgcc.ir.loops import with_rounds
from wgcc.ir.program import Program
from wgcc.ops import OPS
from wgcc.ops.markers import DIFFERENTIATING
from wgcc.ops.registry import Pointwise

# What an axis means: summed over with the data, or an axis of the result; a position in a kernel;
# one matrix of a stack; the row of a table that an id selects, and the contents of that row.
INPUT, OUTPUT, KERNEL, STACK = "input", "output", "kernel", "stack"
ROW, FEATURE = "row", "feature"
# Operations that give axes a meaning. If several use a parameter, the first of this list decides.
CONVOLUTION, TRANSPOSED_CONVOLUTION, LOOKUP, PRODUCT, WEIGHTED_SUM, PLAIN = (
    "convolution", "transposed convolution", "lookup", "product", "weighted sum", "plain",
)  # fmt: skip
_STRONGEST_FIRST = (
    CONVOLUTION, TRANSPOSED_CONVOLUTION, LOOKUP, PRODUCT, WEIGHTED_SUM, PLAIN,
)  # fmt: skip

Axis = tuple[str, int]
# For each axis of a value: the axes of parameters it comes from.
Origins = tuple[frozenset[Axis], ...]


@dataclass(frozen=True, slots=True)
class Use:
    """`axes` has the meaning of each axis, None where it is not known or not always the same.

    `both_ways`: an axis has two meanings, as in `x @ w` and `x @ transpose(w)`. `direct`: the
    elements of a kernel are not reordered before use. `adjoint`: a convolution used for its
    gradient, which is a transposed convolution. `spread`: its image has zeros between the pixels,
    as in a transposed convolution.
    """

    operation: str
    axes: tuple[str | None, ...]
    both_ways: bool = False
    direct: bool = True
    adjoint: bool = False
    spread: bool = False
    order: int = 0


def uses(program: Program) -> dict[str, Use]:
    """The use of each parameter that an entry reads; `order` is its position by first use."""
    tracers = [_Tracer(with_rounds(graph)) for graph in program.entries.values()]
    by_name: dict[str, Use] = {}
    names = list(dict.fromkeys(name for tracer in tracers for name in tracer.first_used))
    for order, name in enumerate(names):
        by_name[name] = _use(name, program.params[name].type.rank, tracers, order)
    return by_name


def _use(name: str, rank: int, tracers: Sequence[_Tracer], order: int) -> Use:
    seen = [meaning for tracer in tracers for meaning in tracer.seen if meaning.axis[0] == name]
    operations = {meaning.operation for meaning in seen}
    operation = next((kind for kind in _STRONGEST_FIRST if kind in operations), PLAIN)
    chosen = [meaning for meaning in seen if meaning.operation == operation]
    sets = [{m.role for m in chosen if m.axis == (name, axis)} for axis in range(rank)]
    return Use(
        operation,
        tuple(min(roles) if len(roles) == 1 else None for roles in sets),
        both_ways=operation != PLAIN and any(len(roles) > 1 for roles in sets),
        direct=not any(name in tracer.reordered for tracer in tracers),
        adjoint=bool(chosen) and all(meaning.adjoint for meaning in chosen),
        spread=any(name in tracer.spread for tracer in tracers),
        order=order,
    )


@dataclass(frozen=True, slots=True)
class _Meaning:
    """An operation that gives an axis of a parameter a role."""

    axis: Axis
    operation: str
    role: str
    adjoint: bool = False


class _Tracer:
    """One pass over a graph, in execution order."""

    def __init__(self, graph: Graph) -> None:
        self.seen: set[_Meaning] = set()
        self.first_used: dict[str, int] = {}
        self.reordered: set[str] = set()
        self.spread: set[str] = set()
        self._made_by = {value: node for node in graph.nodes for value in node.outputs}
        self._origins: dict[Value, Origins] = {}
        # Parameters multiplied by data elementwise; a sum over them is a matrix product.
        self._weighted: dict[Value, Origins] = {}
        self._data: set[Value] = {*graph.inputs, *graph.state}
        grads = (node for node in graph.nodes if node.op == "grad")
        self._differentiated = {value for node in grads for value in node.inputs[1:]}
        for value in graph.params:
            axes = range(value.type.rank)
            self._origins[value] = tuple(frozenset({(value.name, axis)}) for axis in axes)
        for at, node in enumerate(graph.nodes):
            self._follow(node, at)

    def _follow(self, node: Node, at: int) -> None:
        if any(value in self._data for value in node.inputs):
            self._data.update(node.outputs)
        if node.op in DIFFERENTIATING or "body" in node.attrs:
            return
        for value in node.inputs:
            for name in _parameters(self._origins.get(value, ())):
                self.first_used.setdefault(name, at)
        if node.op == "sum" and node.inputs[0] in self._weighted:
            self._weighted_sum(node)
        elif any(value in self._origins for value in node.inputs):
            self._note_use(node)

    def _note_use(self, node: Node) -> None:
        rule = {
            "matmul": self._matmul, "conv": self._conv, "gather": self._gather,
            "conv_transpose": self._conv_transpose,
        }.get(node.op)  # fmt: skip
        if rule is not None:
            rule(node)
        elif (origins := self._passed_on(node)) is not None:
            self._origins[node.output] = origins
        elif node.op == "mul":
            self._weighted[node.output] = self._merge(node.inputs)
        else:
            self._plain(node.inputs)

    def _passed_on(self, node: Node) -> Origins | None:
        """The origins of a result that is still the parameter, perhaps with its axes moved."""
        origins = self._origins.get(node.inputs[0])
        if node.op == "concat":
            return self._merge(node.inputs)
        if OPS[node.op].identity or node.op in ("slice", "window", "cast"):
            return origins
        if node.op == "transpose" and origins is not None:
            return tuple(origins[axis] for axis in node.attrs["perm"])
        if node.op == "broadcast" and origins is not None:
            return (frozenset(),) * (node.output.type.rank - len(origins)) + origins
        if node.op == "reshape" and origins is not None:
            return _reshape(origins, node.inputs[0].shape, node.output.shape)
        among_parameters = not any(self._is_data(value) for value in node.inputs)
        if isinstance(OPS[node.op].lower, Pointwise) and among_parameters:
            return self._merge(node.inputs)
        return None

    def _is_data(self, value: Value) -> bool:
        return value in self._data and value not in self._origins

    def _merge(self, values: Iterable[Value]) -> Origins:
        known = [self._origins[value] for value in values if value in self._origins]
        return tuple(frozenset().union(*axes) for axes in zip(*known, strict=True))

    def _matmul(self, node: Node) -> None:
        """`x @ w` sums over the second-last axis of w, `w @ x` over its last."""
        left, right = (self._origins.get(value) for value in node.inputs)
        if left is not None and right is not None:
            # A product of parameters counts as a parameter: the axis summed over has no meaning.
            self._origins[node.output] = (*_either(left, right), left[-2], right[-1])
            return
        lead = (STACK,) * (node.output.type.rank - 2)
        if right is not None:
            self._note(right, PRODUCT, (*lead, INPUT, OUTPUT))
        elif left is not None:
            self._note(left, PRODUCT, (*lead, OUTPUT, INPUT))

    def _conv(self, node: Node) -> None:
        image, kernel = node.inputs
        self._plain([image])
        if kernel in self._origins:
            adjoint = image in self._differentiated
            roles = (*(KERNEL,) * (kernel.type.rank - 2), INPUT, OUTPUT)
            self._note(self._origins[kernel], CONVOLUTION, roles, adjoint)
            if self._has_zeros_between(image):
                self.spread |= _parameters(self._origins[kernel])

    def _conv_transpose(self, node: Node) -> None:
        image, kernel = node.inputs
        self._plain([image])
        if kernel in self._origins:
            roles = (*(KERNEL,) * (kernel.type.rank - 2), INPUT, OUTPUT)
            self._note(self._origins[kernel], TRANSPOSED_CONVOLUTION, roles)

    def _has_zeros_between(self, image: Value) -> bool:
        """Was it concatenated with constants, and were axes merged after that?"""
        node, merged = self._made_by.get(image), False
        while node is not None and node.op in ("reshape", "transpose", "slice", "concat"):
            constant = [value not in self._data for value in node.inputs]
            if node.op == "concat" and any(constant):
                return merged
            merged |= node.op == "reshape"
            node = self._made_by.get(node.inputs[constant.index(False) if False in constant else 0])
        return False

    def _gather(self, node: Node) -> None:
        table, ids = node.inputs
        origins = self._origins.get(table)
        if origins is None:
            return
        self._note(origins, LOOKUP, (ROW, *(FEATURE,) * (len(origins) - 1)))
        if ids not in self._data:
            # Constant ids: the rows are only reordered.
            self.reordered |= _parameters(origins)
            self._origins[node.output] = (*(origins[0],) * ids.type.rank, *origins[1:])

    def _weighted_sum(self, node: Node) -> None:
        """`sum(x * w, axis = …)` is a matrix product, too."""
        origins, axes = self._weighted[node.inputs[0]], node.attrs["axes"]
        roles = [INPUT if axis in axes else OUTPUT for axis in range(len(origins))]
        self._note(origins, WEIGHTED_SUM, roles)

    def _plain(self, values: Iterable[Value]) -> None:
        for value in values:
            origins = self._origins.get(value, ())
            self._note(origins, PLAIN, [PLAIN] * len(origins))

    def _note(
        self, origins: Origins, operation: str, roles: Sequence[str], adjoint: bool = False
    ) -> None:
        for axes, role in zip(origins, roles, strict=True):
            self.seen |= {_Meaning(axis, operation, role, adjoint) for axis in axes}


def _parameters(origins: Origins) -> set[str]:
    return {name for axes in origins for name, _ in axes}


def _either(left: Origins, right: Origins) -> Iterator[frozenset[Axis]]:
    """Leading axes of a product, which both operands have."""
    return (a | b for a, b in zip(left[:-2], right[:-2], strict=True))


def _reshape(origins: Origins, old: Shape, new: Shape) -> Origins:
    """Axes that were merged or split come from all axes of the run; axes of size 1 from none."""
    result: list[frozenset[Axis]] = [frozenset()] * len(new)
    for before, after in _blocks(old, new):
        merged = frozenset[Axis]().union(*(origins[axis] for axis in before))
        for axis in after:
            result[axis] = merged
    return tuple(result)


def _blocks(old: Shape, new: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """The smallest runs of axes that have the same number of elements before and after."""
    left = [axis for axis, size in enumerate(old) if size != 1]
    right = [axis for axis, size in enumerate(new) if size != 1]
    while left and right:
        before, after = [left.pop(0)], [right.pop(0)]
        sizes = [old[before[0]], new[after[0]]]
        while sizes[0] != sizes[1]:
            if sizes[0] < sizes[1]:
                before.append(left.pop(0))
                sizes[0] *= old[before[-1]]
            else:
                after.append(right.pop(0))
                sizes[1] *= new[after[-1]]
        yield before, after
