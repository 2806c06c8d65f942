"""Knowledge at compile time about values of a graph under construction: which node defines them,
and which of them have one known number in all elements.

Constant folding of numbers, in float64, by each op's reference.

Constant folding of tensors that depend on no input, in float64: rotary tables, sinusoids.

Cheap ones (a causal mask is one comparison of indices) are not folded: a load would cost more.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, isnan

from wgcc.evaluate import as_held, evaluate, nodes_effort, to_words
from wgcc.ir.dtypes import LARGEST_FLOAT
from wgcc.ir.graph import FLOATS, INTEGERS, Builder, Graph, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops import OPS
from wgcc.ops.registry import FromIndex, Indirect, Pointwise, Reduce, View
from wgcc.small_arrays.element_types import NeedsNumpyError

Number = float | int | bool
NUMBERS = frozenset(("const", "not_finite"))


class Known:
    def __init__(self) -> None:
        self._producers: dict[str, Node] = {}

    def note(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self._producers.update((value.name, node) for value in node.outputs)

    def producer(self, value: Value, op: str) -> Node | None:
        """The node that defines `value`, if it applies `op`."""
        node = self._producers.get(value.name)
        return node if node and node.op == op else None

    def is_number(self, value: Value) -> bool:
        """Whether `value` itself is a scalar known now, not a view of one."""
        node = self._producers.get(value.name)
        return node is not None and node.op in NUMBERS

    def number(self, value: Value) -> Number | None:
        """The number in every element of `value`, if there is one and it is known."""
        node = self._producers.get(value.name)
        while node and _has_only_elements(node):
            node = self._producers.get(node.inputs[0].name)
        if node is None or node.op not in NUMBERS:
            return None
        number: Number = node.attrs["value"]
        return number


def is_plain_view(node: Node) -> bool:
    """Whether the output consists of elements of the only operand, at other indices."""
    op = OPS[node.op]
    return isinstance(op.lower, View) and op.moves_elements and len(node.inputs) == 1


def _has_only_elements(node: Node) -> bool:
    """Whether all elements are some of the first operand, as in a lookup."""
    return is_plain_view(node) or isinstance(OPS[node.op].lower, Indirect)


Rule = Callable[[Builder, Known, Node], Value | None]


def fill(builder: Builder, number: Number, like: Value) -> Value:
    """A tensor of the type of `like`, every element `number`."""
    op = "const" if isfinite(number) else "not_finite"
    scalar = builder.apply(op, value=number, dtype=like.dtype)
    return builder.apply("broadcast", scalar, shape=like.shape) if like.shape else scalar


# Above this size, computing a reduction here would cost more time than it saves.
LARGEST_REDUCTION = 2**20


def fold_numbers(b: Builder, known: Known, node: Node) -> Value | None:
    """The number in all elements of the output of `node`, broadcast to its shape."""
    if not node.inputs or _is_folded(known, node):
        return None
    numbers = [known.number(value) for value in node.inputs]
    if any(number is None for number in numbers):
        return None
    result = _result(node, numbers)
    return None if result is None else fill(b, result, node.output)


def _is_folded(known: Known, node: Node) -> bool:
    return node.op == "broadcast" and known.is_number(node.inputs[0])


def _result(node: Node, numbers: list[Number | None]) -> Number | None:
    lower = OPS[node.op].lower
    if is_plain_view(node):
        return numbers[0]
    if isinstance(lower, Pointwise):
        plain = _compute_plainly(node, numbers)
        if plain is not None:
            return plain
        return _compute(node, numbers, [()] * len(numbers), ())
    if isinstance(lower, Reduce) and node.inputs[0].type.size <= LARGEST_REDUCTION:
        return _compute(node, numbers, [node.inputs[0].shape], node.output.shape)
    return None


# What needs no numpy, which takes as long to load as a small model takes to check.
_PLAIN = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv}


def _compute_plainly(node: Node, numbers: list[Number | None]) -> Number | None:
    """The same number as `_compute` gives, if Python's own arithmetic has it."""
    compute = _PLAIN.get(node.op)
    if compute is None or node.output.dtype != "f32" or (node.op == "div" and not numbers[1]):
        return None
    a, b = (float(number) for number in numbers if number is not None)
    result = compute(a, b)
    return result if abs(result) <= LARGEST_FLOAT else None


def _compute(
    node: Node,
    numbers: list[Number | None],
    shapes: list[tuple[int, ...]],
    shape: tuple[int, ...],
) -> Number | None:
    arrays = [
        np.broadcast_to(as_held(number, TensorType((), value.dtype)), wanted)
        for number, value, wanted in zip(numbers, node.inputs, shapes, strict=True)
    ]
    with np.errstate(all="ignore"):
        try:
            output = OPS[node.op].reference(*arrays, **node.attrs)
        except NeedsNumpyError:
            return None
        result: Number = as_held(output, TensorType(shape, node.output.dtype)).flat[0].item()
        if node.output.dtype in FLOATS:
            # As f32 stores it, which may be infinite.
            return result if abs(result) <= LARGEST_FLOAT else float(np.float32(result))
    # NaN converted to an integer is left to the GPU.
    has_nan = any(number is not None and isnan(number) for number in numbers)
    return None if has_nan and node.output.dtype in INTEGERS else result


LARGEST = 2**20
# With more steps than this a formula costs more than a load, if several nodes use it.
FEW_STEPS = 4
# Limits for all constants of a graph: elements, and effort (about a second of numpy).
MOST_ELEMENTS = 2**22
MOST_EFFORT = 40_000_000
# How many values that exceed the limit are tried: each try follows all inputs of the value.
MOST_REFUSED = 100


def fold_tensors(graph: Graph) -> Graph:
    """The values that are computed become constants of the graph, under their own names."""
    fixed = _fixed_nodes(graph)
    chosen = _affordable(_worth_folding(graph, fixed), fixed)
    if not chosen:
        return graph
    try:
        computed = evaluate(_cone(chosen, fixed), {}).outputs
    except NeedsNumpyError:
        return graph
    constants = tuple(
        to_words(computed[name], value)
        for name, value in chosen.items()
        if _can_be_stored(computed[name], value)
    )
    done = {constant.value.name for constant in constants}
    nodes = tuple(node for node in graph.nodes if node.outputs[0].name not in done)
    return replace(graph, nodes=nodes, constants=(*graph.constants, *constants))


def _can_be_stored(array: Array, value: Value) -> bool:
    """Bundles store finite numbers only: tensors with others are left to the GPU."""
    with np.errstate(all="ignore"):
        return value.dtype not in FLOATS or bool(np.isfinite(array.astype(np.float32)).all())


def _fixed_nodes(graph: Graph) -> dict[str, Node]:
    """The nodes of all values that depend on attributes only.

    A copy is not folded, because it exists to store a value separately.
    """
    fixed: dict[str, Node] = {}
    for node in graph.nodes:
        if node.op == "copy" or len(node.outputs) > 1:
            continue
        if all(value.name in fixed for value in node.inputs):
            fixed[node.output.name] = node
    return fixed


def _worth_folding(graph: Graph, fixed: Mapping[str, Node]) -> list[Value]:
    """Values that are cheaper to load than to compute, or their operands: views are not folded."""
    formulas = _formulas(fixed)
    expressions: list[Value] = []
    tables: list[Value] = []
    seen: set[str] = set()
    for value, *others in _uses(graph, fixed).values():
        waiting = [value]
        while waiting:
            part = waiting.pop()
            if part.name in seen:
                continue
            seen.add(part.name)
            node = fixed[part.name]
            lower = OPS[node.op].lower
            formula = formulas[part.name]
            if isinstance(lower, FromIndex) and not lower.cheap(node):
                tables.append(part)
            elif not isinstance(lower, (View, FromIndex)) and formula.is_worth(
                part, 1 + len(others)
            ):
                expressions.append(part)
            else:
                waiting += reversed(node.inputs)
    return [*tables, *expressions]


def _uses(graph: Graph, fixed: Mapping[str, Node]) -> dict[str, list[Value]]:
    """Fixed values that nodes that are not fixed read, once per reader."""
    readers = [node.inputs for node in graph.nodes if node.outputs[0].name not in fixed]
    uses: dict[str, list[Value]] = {}
    for value in (*(value for inputs in readers for value in inputs), *graph.results):
        if value.name in fixed:
            uses.setdefault(value.name, []).append(value)
    return uses


@dataclass(frozen=True, slots=True)
class _Formula:
    """How a value is computed: whether a step of it is expensive, and its first steps."""

    is_expensive: bool
    steps: frozenset[str]

    def is_worth(self, value: Value, uses: int) -> bool:
        often = uses > 1 and len(self.steps) > FEW_STEPS
        return value.type.size <= LARGEST and (self.is_expensive or often)


def _formulas(fixed: Mapping[str, Node]) -> dict[str, _Formula]:
    formulas: dict[str, _Formula] = {}
    for name, node in fixed.items():
        lower = OPS[node.op].lower
        parts = [formulas[value.name] for value in node.inputs]
        steps = frozenset(step for part in parts for step in part.steps)
        expensive = any(part.is_expensive for part in parts)
        if not isinstance(lower, (View, FromIndex)):
            steps |= {name}
            expensive = expensive or not (isinstance(lower, Pointwise) and lower.cheap)
        # Only as many as are needed to decide whether they are few.
        formulas[name] = _Formula(expensive, frozenset(sorted(steps)[: FEW_STEPS + 1]))
    return formulas


def _affordable(wanted: Sequence[Value], fixed: Mapping[str, Node]) -> dict[str, Value]:
    """The values within the limits on numpy's time and on the size of the bundle, by name."""
    chosen: dict[str, Value] = {}
    made: set[str] = set()
    elements = spent = refused = 0
    for value in wanted:
        new = _producers(value, fixed, made)
        more = nodes_effort(fixed[name] for name in new)
        if elements + value.type.size > MOST_ELEMENTS or spent + more > MOST_EFFORT:
            refused += 1
            if refused > MOST_REFUSED:
                break
            continue
        made |= new
        elements, spent = elements + value.type.size, spent + more
        chosen[value.name] = value
    return chosen


def _producers(value: Value, fixed: Mapping[str, Node], made: set[str]) -> set[str]:
    """`value` and the values it is computed from, without those already `made`."""
    needed: set[str] = set()
    waiting = [value.name]
    while waiting:
        name = waiting.pop()
        if name not in needed and name not in made:
            needed.add(name)
            waiting += [operand.name for operand in fixed[name].inputs]
    return needed


def _cone(chosen: Mapping[str, Value], fixed: Mapping[str, Node]) -> Graph:
    needed: set[str] = set()
    for value in chosen.values():
        needed |= _producers(value, fixed, needed)
    nodes = tuple(node for name, node in fixed.items() if name in needed)
    return Graph("constants", nodes=nodes, outputs=chosen)
