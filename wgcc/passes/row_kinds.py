"""How a value of an entry depends on the rows of its inputs: types, and how axes carry them.

An index along an axis may be made of digits, as reshape makes them: [rows, 3] as one axis has the
row in (index // 3) % rows.

The elements of a value may grow with the number of rows, n: `power` p says that they are n^p times
what does not depend on n. The number 1 / B has power -1, and so has a mean.

How values that grow with the number of rows, n, combine. This table is all the proof knows.

A sum over n rows has power 0, a mean -1, the number of rows 1. Of two operands with powers p and q:

| op | gives | if |
|---|---|---|
| `mul`, `matmul` | p + q | at most one is a total; a total is only multiplied by `mul` |
| `div` | p - q | floats; the divisor is no total |
| `add`, `sub`, a join | p | p = q |
| the same, a total and what is fixed | p, a total | q = p + 1: n^p (Σ x + n c) = n^p Σ (x + c) |
| `neg`, views, copies, a cast to a float | p | |
| `sum` over rows | p, a total | they do not grow along another axis that it adds up |
| `sum` of equal, fixed elements along an axis that grows as n | p + 1 | |
| any other | 0 | all powers are 0, and none is a total |

Outputs: rows and fixed values of power 0, totals of power 0 (`sum`) and -1 (`mean`).

A `Family` is one entry traced with several numbers of rows: it knows what depends on that number.
The graphs must be alike but for numbers and sizes. A number is known as a power of the number of
rows; a size either stays or grows; anything else that differs is odd, and proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose, prod

from wgcc.errors import Span
from wgcc.ir.graph import FLOATS, Graph, Node, Value
from wgcc.ops import OPS
from wgcc.ops.registry import Join, View

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Digit:
    """(index // inner) % size of an axis."""

    axis: int
    inner: int
    size: int


@dataclass(frozen=True, slots=True)
class Fixed:
    """It does not depend on rows; all its elements are equal along the `uniform` digits."""

    uniform: frozenset[Digit] = frozenset()
    power: int = 0

    def is_uniform_along(self, row: Digit) -> bool:
        return any(
            digit.axis == row.axis
            and row.inner % digit.inner == 0
            and digit.size % (row.inner // digit.inner * row.size) == 0
            for digit in self.uniform
        )


@dataclass(frozen=True, slots=True)
class ByRow:
    """Elements whose `row` is i depend on the i-th rows of the inputs only, for all i alike."""

    row: Digit
    power: int = 0


@dataclass(frozen=True, slots=True)
class Total:
    """n^power times the sum over all n rows of what each gives alone: -1 is a mean."""

    power: int = 0


@dataclass(frozen=True, slots=True)
class Mixed:
    """Unknown: several rows may play a part, or their number, because of what `at` says."""

    at: Span | None
    by_number: bool = False


Kind = Fixed | ByRow | Total | Mixed


def whole_axis(axis: int, shape: Shape) -> Digit:
    return Digit(axis, 1, shape[axis])


def reshape_digit(digit: Digit, before: Shape, after: Shape) -> Iterator[Digit]:
    """The digits that a digit of a shape becomes in another shape of the same elements."""
    low = digit.inner * prod(before[digit.axis + 1 :])
    high = low * digit.size
    base = 1
    for axis in reversed(range(len(after))):
        end = base * after[axis]
        first, last = max(low, base), min(high, end)
        ratios = ((first, base), (first, low), (last, first), (end, last), (high, last))
        if first < last and all(a % b == 0 for a, b in ratios):
            yield Digit(axis, first // base, last // first)
        base = end


Powers = Sequence[int]
Rule = Callable[[Powers], int | None]


def _equal(powers: Powers) -> int | None:
    return powers[0] if len(set(powers)) == 1 else None


def _none(powers: Powers) -> int | None:
    return None if any(powers) else 0


RULES: dict[str, Rule] = {
    "mul": sum,
    "matmul": sum,
    "div": lambda powers: powers[0] - powers[1],
    "add": _equal,
    "sub": _equal,
    "neg": _equal,
    "cast": _equal,
    "sum": _equal,
}
# Of integers, or to integers, these round.
ROUNDING = ("div", "cast")


def power_of(node: Node, given: Sequence[Kind]) -> int | None:
    """The power of what a node computes; None if it is no power of the number of rows."""
    powers = [kind.power for kind in given if not isinstance(kind, Mixed)]
    if not any(powers):
        return 0
    lower = OPS[node.op].lower
    if node.op in ROUNDING and node.outputs[0].dtype not in FLOATS:
        return _none(powers)
    keeps = isinstance(lower, View | Join) or OPS[node.op].identity
    return RULES.get(node.op, _equal if keeps else _none)(powers)


def total_of(node: Node, given: Sequence[Kind]) -> Kind:
    """Sums and means stay what they are in linear functions."""
    op, totals = OPS[node.op], [kind for kind in given if isinstance(kind, Total)]
    others = [kind for kind in given if not isinstance(kind, Total)]
    first = totals[0]
    if isinstance(op.lower, View) or op.identity or node.op in ("neg", "sum"):
        at_known_places = all(isinstance(kind, Fixed) and not kind.power for kind in others)
        return first if given[0] is first and at_known_places else Mixed(node.span)
    if node.op == "cast":
        return first if node.output.dtype in FLOATS else Mixed(node.span)
    if isinstance(op.lower, Join) or node.op in ("add", "sub"):
        fits = all(isinstance(kind, Fixed) and kind.power == first.power + 1 for kind in others)
        return first if fits and len(set(totals)) == 1 else Mixed(node.span)
    is_scaled = node.op == "mul" or (node.op == "div" and given[0] is first)
    if is_scaled and len(totals) == 1 and node.output.dtype in FLOATS:
        return _scale(node, first, others[0])
    return Mixed(node.span)


def _scale(node: Node, total: Total, factor: Kind) -> Kind:
    if not isinstance(factor, Fixed):
        return Mixed(node.span)
    sign = 1 if node.op == "mul" else -1
    return Total(total.power + sign * factor.power)


# Powers of the number of rows that a constant may be: B * B, 1 / B.
POWERS = (0, 1, -1, 2, -2)
# What these attributes hold is the shape of the result, or follows from it and the operand's.
SHAPES = {("broadcast", "shape"), ("reshape", "shape"), ("iota", "n"), ("slice", "sizes")}
Sizes = tuple[int, ...]


class Differs(Exception):
    """The graphs are not alike, from a node at `at` on."""

    def __init__(self, at: Span | None) -> None:
        super().__init__()
        self.at = at


@dataclass
class Family:
    """`graph` has `counts[0]` rows. Its values and those of bodies, by name:

    `sizes` has every axis in all graphs, `powers` the constants that are not the same in all,
    `odd` what differs in another way.
    """

    graph: Graph
    counts: Sizes
    sizes: dict[str, tuple[Sizes, ...]] = field(default_factory=dict)
    powers: dict[str, int] = field(default_factory=dict)
    odd: set[str] = field(default_factory=set)

    def grows(self, value: Value) -> list[int]:
        """The axes of a value that differ from graph to graph."""
        sizes = self.sizes.get(value.name, ())
        return [axis for axis, each in enumerate(sizes) if len(set(each)) > 1]

    def is_proportional(self, value: Value, axis: int) -> bool:
        """Whether an axis is as many times the number of rows in all graphs."""
        sizes, first = self.sizes[value.name][axis], self.counts[0]
        return all(
            size * first == sizes[0] * count for size, count in zip(sizes, self.counts, strict=True)
        )

    def is_same_axis(self, a: Value, i: int, b: Value, j: int) -> bool:
        known, other = self.sizes.get(a.name), self.sizes.get(b.name)
        return known is None or other is None or known[i] == other[j]


def alone(graph: Graph, count: int) -> Family:
    """An entry of which there is no second graph: nothing is known to depend on rows."""
    return Family(graph, (count,))


def family(graphs: Sequence[Graph], counts: Sequence[int]) -> Family:
    """Raises `Differs` where the graphs are not alike."""
    entry_family = Family(graphs[0], tuple(counts))
    _compare_choices([graph for graph in graphs if graph.entry.choices])
    _compare(entry_family, graphs)
    return entry_family


def _compare_choices(graphs: Sequence[Graph]) -> None:
    for choices in zip(*(graph.entry.choices for graph in graphs), strict=False):
        if len({(at.start, numbers) for at, numbers in choices}) > 1:
            raise Differs(choices[0][0])
    if len({len(graph.entry.choices) for graph in graphs}) > 1:
        raise Differs(None)


def _compare(family: Family, graphs: Sequence[Graph]) -> None:
    parts = {
        (len(graph.nodes), len(graph.sources), *_ends(graph), *graph.entry.ranges.items())
        for graph in graphs
    }
    if len(parts) > 1:
        raise Differs(_first_difference(graphs))
    for values in zip(*(graph.sources for graph in graphs), strict=True):
        _note_sizes(family, values)
    for constants in zip(*(graph.constants for graph in graphs), strict=True):
        if len({constant.words for constant in constants}) > 1:
            family.odd.add(constants[0].value.name)
    for nodes in zip(*(graph.nodes for graph in graphs), strict=True):
        _compare_nodes(family, nodes)


def _ends(graph: Graph) -> Iterator[tuple[str, str]]:
    for name, value in (*graph.outputs.items(), *graph.writes.items()):
        yield name, value.name


def _first_difference(graphs: Sequence[Graph]) -> Span | None:
    for nodes in zip(*(graph.nodes for graph in graphs), strict=False):
        first: Node = nodes[0]
        if not _alike(nodes):
            return first.span
    return None


def _alike(nodes: Sequence[Node]) -> bool:
    return len({(node.op, _names(node.inputs), _names(node.outputs)) for node in nodes}) == 1


def _names(values: Sequence[Value]) -> tuple[str, ...]:
    return tuple(value.name for value in values)


def _compare_nodes(family: Family, nodes: Sequence[Node]) -> None:
    first = nodes[0]
    if not _alike(nodes) or any(node.attrs.keys() != first.attrs.keys() for node in nodes):
        raise Differs(first.span)
    for values in zip(*(node.outputs for node in nodes), strict=True):
        _note_sizes(family, values)
    for name in _differing(nodes):
        if (first.op, name) == ("const", "value"):
            _note_power(family, nodes)
        elif name == "body":
            _compare(family, [node.attrs["body"] for node in nodes])
        elif (first.op, name) not in SHAPES:
            family.odd.update(value.name for value in first.outputs)


def _differing(nodes: Sequence[Node]) -> Iterator[str]:
    attrs: Sequence[Mapping[str, object]] = [node.attrs for node in nodes]
    for name, value in attrs[0].items():
        if name == "body" or any(each[name] != value for each in attrs):
            yield name


def _note_sizes(family: Family, values: Sequence[Value]) -> None:
    first = values[0]
    if any((v.name, v.dtype, v.type.rank) != (first.name, first.dtype, first.type.rank)
           for v in values):  # fmt: skip
        raise Differs(None)
    family.sizes[first.name] = tuple(zip(*(value.shape for value in values), strict=True))


def _note_power(family: Family, nodes: Sequence[Node]) -> None:
    name, numbers = nodes[0].output.name, [float(node.attrs["value"]) for node in nodes]
    power = next((p for p in POWERS if _is_power(numbers, family.counts, p)), None)
    if power is None:
        family.odd.add(name)
    elif power:
        family.powers[name] = power


def _is_power(numbers: Sequence[float], counts: Sizes, power: int) -> bool:
    return all(
        isclose(number, numbers[0] * (count / counts[0]) ** power, rel_tol=1e-9)
        for number, count in zip(numbers, counts, strict=True)
    )
