"""Finds out whether an entry computes each row alone, so that it can run on any number of rows.

Rows are the leading axis of its inputs. Where they mix, the reason is kept for messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import isclose, prod

from wgcc.errors import Span
from wgcc.ir.graph import FLOATS, INTEGERS, Graph, Node, Rows, Value
from wgcc.ir.loops import bodies
from wgcc.ir.program import Program
from wgcc.ops.markers import DIFFERENTIATING
from wgcc.passes.custom_gradients import without_custom_gradients
from wgcc.passes.expand import expand
from wgcc.passes.prune import prune
from wgcc.passes.rematerialise import without_marks
from wgcc.passes.row_kinds import ByRow, Fixed, Kind, Mixed, Total, whole_axis
from wgcc.passes.row_rules import kinds_of

# Characters of source that a reason shows.
SHORT = 60
# What a sum is divided by may be so many times the number of rows.
MOST_TIMES = 64


def mark_rows(program: Program) -> Program:
    """`program` is as traced: what autograd and optimizers make of it does not matter here."""
    entries = {name: _marked(graph) for name, graph in program.entries.items()}
    return replace(program, entries=entries)


def _marked(graph: Graph) -> Graph:
    if not graph.rows:
        return graph
    why = _never(graph)
    if why:
        return replace(graph, rows=(replace(graph.rows[0], why=why),))
    # Nothing is differentiated here, so what only concerns gradients is left out.
    whole = expand(prune(without_custom_gradients(without_marks(graph))))
    found = [_checked(whole, rows) for rows in graph.rows]
    best = next((rows for rows in found if not rows.why), found[0])
    return replace(graph, rows=(best,))


def _never(graph: Graph) -> str:
    """What keeps an entry from running in parts, whatever its rows are."""
    ops = {node.op for part in (graph, *bodies(graph)) for node in part.nodes}
    if graph.trains:
        return "it trains"
    if "random" in ops:
        return "it draws random numbers"
    if graph.writes:
        return f"it writes `{next(iter(graph.writes))}`"
    return "it computes gradients" if ops & {*DIFFERENTIATING} else ""


def _checked(graph: Graph, rows: Rows) -> Rows:
    if rows.count == 1:
        return _single(graph, rows)
    kinds = kinds_of(graph, rows.inputs, rows.count)
    outputs = {}
    for name, value in graph.outputs.items():
        form = _form(graph, value, kinds, rows.count)
        if form is None:
            return replace(rows, why=_reason(name, kinds[value.name]))
        outputs[name] = form
    if not any(form != "same" for form in outputs.values()):
        return replace(rows, why="no output depends on its rows")
    return replace(rows, outputs=outputs)


def _single(graph: Graph, rows: Rows) -> Rows:
    """One row cannot mix with others."""
    for name, value in graph.outputs.items():
        if value.shape[:1] != (1,):
            return replace(rows, why=f"it takes one row, and `{name}` has none")
    return replace(rows, outputs={name: "rows" for name in graph.outputs})


def _form(graph: Graph, value: Value, kinds: Mapping[str, Kind], count: int) -> str | None:
    kind = kinds[value.name]
    if isinstance(kind, Fixed):
        return "same"
    if isinstance(kind, ByRow):
        row, length = kind.row, value.shape[0]
        return "rows" if row.axis == 0 and row.inner * row.size == length else None
    if isinstance(kind, Total) and kind.is_mean:
        return "mean"
    if isinstance(kind, Total) and not _may_divide(graph, value, kinds, count):
        return "sum"
    return None


def _may_divide(graph: Graph, value: Value, kinds: Mapping[str, Kind], count: int) -> bool:
    """Is there a number that may come from the number of rows? Then a mean may be meant."""
    numbers = [abs(number) for number in _numbers_in(graph, value, kinds) if number]
    return any(_is_multiple(n, count) or _is_multiple(1 / n, count) for n in numbers)


def _is_multiple(number: float, count: int) -> bool:
    times = round(number / count)
    return 0 < times <= MOST_TIMES and isclose(number, times * count, rel_tol=1e-6)


def _numbers_in(graph: Graph, value: Value, kinds: Mapping[str, Kind]) -> Iterator[float]:
    """The constants that a value is computed from, and how many equal elements it adds up, as in
    `sum(ones(f32[B]))`; none can scale what integers count in rows."""
    wanted = {value.name}
    for node in reversed(graph.nodes):
        if any(output.name in wanted for output in node.outputs):
            wanted.update(v.name for v in node.inputs if _may_scale(v, kinds[v.name]))
            if node.op == "const":
                yield float(node.attrs["value"])
            elif node.op == "sum":
                yield float(_equal_elements(node, kinds[node.inputs[0].name]))


def _may_scale(value: Value, kind: Kind) -> bool:
    return value.dtype in FLOATS or (isinstance(kind, Fixed) and value.dtype in INTEGERS)


def _equal_elements(node: Node, kind: Kind) -> int:
    """How many equal elements that do not depend on rows a sum adds up."""
    if not isinstance(kind, Fixed):
        return 1
    axes = (whole_axis(axis, node.inputs[0].shape) for axis in node.attrs["axes"])
    return prod(axis.size for axis in axes if kind.is_uniform_along(axis))


def _reason(output: str, kind: Kind) -> str:
    if isinstance(kind, Mixed):
        return f"rows mix{_place(kind.at)}"
    if isinstance(kind, Total):
        return f"`{output}` adds up rows and may be divided by their number: use `mean`"
    return f"the rows of `{output}` are not its leading axis"


def _place(span: Span | None) -> str:
    if span is None:
        return ""
    is_short = 0 < len(span.text) <= SHORT and "\n" not in span.text
    return f" in `{span.text}` ({span.place})" if is_short else f" at {span.place}"
