"""Finds out whether an entry computes each row alone, so that it can run on any number of rows.

Rows are the leading axis of its inputs. Where they mix, or their number plays a part that calls in
parts do not have, the reason is kept for messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isclose

from wgcc.errors import Span
from wgcc.ir.graph import FLOATS, INTEGERS, Graph, Node, Rows, Value
from wgcc.ir.loops import bodies
from wgcc.ir.program import Program, is_capture
from wgcc.ops.markers import DIFFERENTIATING
from wgcc.passes.autograd import without_custom_gradients
from wgcc.passes.rematerialise import MARK
from wgcc.passes.rewrite import expand, prune, without_marks
from wgcc.passes.row_kinds import ByRow, Differs, Family, Fixed, Kind, Mixed, Total, alone, family
from wgcc.passes.row_rules import kinds_of

# Characters of source that a reason shows.
SHORT = 60
# How an entry with another number of rows is traced: its name, its rows, the size of the dim that
# decides their number (`Rows.decided_by`), or else their number. None: it cannot be.
TraceAgain = Callable[[str, Rows, int], Graph | None]
# So many graphs with other numbers of rows are compared.
OTHERS = 2
# The forms of totals, by their powers of the number of rows.
TOTALS = {0: "sum", -1: "mean"}
# The forms that a capture can have in calls in parts.
ALONE = ("rows", "same")


def mark_rows(program: Program, again: TraceAgain | None = None) -> Program:
    """`program` is as traced: what autograd and optimizers make of it does not matter here."""
    entries = {name: _mark(graph, again) for name, graph in program.entries.items()}
    return replace(program, entries=entries)


def _mark(graph: Graph, again: TraceAgain | None) -> Graph:
    possible = graph.entry.rows
    if not possible or any(rows.why or rows.outputs for rows in possible):
        return graph
    why = _never(graph)
    if why:
        return graph.with_facts(rows=(replace(possible[0], why=why),))
    whole = _ordinary(graph)
    judged = [_judge(whole, rows, again) for rows in possible]
    best = next((rows for rows in judged if not rows.why), judged[0])
    return graph.with_facts(rows=(best,))


def _ordinary(graph: Graph) -> Graph:
    """Nothing is differentiated here, so what only concerns gradients is left out."""
    return expand(prune(without_custom_gradients(without_marks(graph, MARK))))


def _never(graph: Graph) -> str:
    """Why an entry cannot run in parts, whatever its rows are; empty if it may be able to."""
    ops = {node.op for part in (graph, *bodies(graph)) for node in part.nodes}
    if graph.entry.trains:
        return "it trains"
    if "random" in ops:
        return "it draws random numbers"
    if graph.writes:
        return f"it writes `{next(iter(graph.writes))}`"
    return "it computes gradients" if ops & {*DIFFERENTIATING} else ""


def _judge(graph: Graph, rows: Rows, again: TraceAgain | None) -> Rows:
    if rows.count == 1 and rows.decided_by is None:
        return _single(graph, rows)
    others = list(_others(graph, rows, again)) if again else []
    if len(others) == OTHERS:
        return _compare(graph, rows, others)
    judged = _without_totals(graph, rows)
    if rows.decided_by and again and not judged.why:
        return replace(rows, why="it cannot be built for other numbers of rows")
    return judged


def _others(graph: Graph, rows: Rows, again: TraceAgain) -> Iterator[Graph]:
    """The entry with other numbers of rows: fewer and more, even and odd."""
    size, traced = rows.decided_by[1] if rows.decided_by else rows.count, 0
    for other in (3 * size + 1, (size + 1) // 2, 2 * size + 1, 2 * size, 3 * size):
        if traced == OTHERS:
            return
        if other in (1, size):
            continue
        other_graph = again(graph.name, rows, other)
        if (
            other_graph
            and len({value.shape[0] for value in _row_inputs(other_graph, rows)} - {1}) == 1
        ):
            traced += 1
            yield _ordinary(other_graph)


def _row_inputs(graph: Graph, rows: Rows) -> list[Value]:
    return [value for value in graph.inputs if value.name in rows.inputs]


def _compare(graph: Graph, rows: Rows, others: Sequence[Graph]) -> Rows:
    graphs = [*others, graph] if rows.count > 1 else [*others]
    counts = [_row_inputs(each, rows)[0].shape[0] for each in graphs]
    judged = rows
    for k in range(len(graphs)):
        try:
            turned = family([*graphs[k:], *graphs[:k]], [*counts[k:], *counts[:k]])
        except Differs as difference:
            return replace(rows, why=f"their number plays a part{_place(difference.at)}")
        last, judged = judged, _check(turned, rows)
        if judged.why or (k and _own(judged.outputs) != _own(last.outputs)):
            return replace(rows, why=judged.why or "the number of rows plays a part")
        if k:
            both = judged.outputs.items() & last.outputs.items()
            judged = replace(
                judged, outputs={n: f for n, f in judged.outputs.items() if (n, f) in both}
            )
    return judged


def _own(outputs: Mapping[str, str]) -> dict[str, str]:
    """The forms of an entry's own outputs, without captures."""
    return {name: form for name, form in outputs.items() if not is_capture(name)}


def _check(family: Family, rows: Rows) -> Rows:
    kinds = kinds_of(family, rows.inputs)
    outputs = {}
    for name, value in family.graph.outputs.items():
        form = _form(family, value, kinds[value.name])
        if is_capture(name) and form not in ALONE:
            continue  # it is known after calls with exactly this number of rows
        why = _unclear(family, rows, name, value, kinds) if form == "sum" else ""
        if form is None or why:
            return replace(rows, why=why or _reason(family, name, value, kinds))
        outputs[name] = form
    if not any(form != "same" for form in _own(outputs).values()):
        return replace(rows, why="no output depends on its rows")
    return replace(rows, outputs=outputs)


def _single(graph: Graph, rows: Rows) -> Rows:
    """One row cannot mix with others."""
    outputs = {}
    for name, value in graph.outputs.items():
        if value.shape[:1] == (1,):
            outputs[name] = "rows"
        elif not is_capture(name):
            return replace(rows, why=f"it takes one row, and `{name}` has none")
    return replace(rows, outputs=outputs)


def _without_totals(graph: Graph, rows: Rows) -> Rows:
    """Nothing shows which numbers depend on rows: only outputs that have none are certain."""
    single = alone(graph, rows.count)
    kinds = kinds_of(single, rows.inputs)
    for name, value in graph.outputs.items():
        if isinstance(kinds[value.name], Total) and not is_capture(name):
            text = f"`{name}` adds up rows whose number has no name"
            return replace(rows, why=f"{text}: declare it, `dim B = {rows.count}`")
    return _check(single, rows)


def _form(family: Family, value: Value, kind: Kind) -> str | None:
    growing = family.grows(value)
    if isinstance(kind, Fixed) and not kind.power and not growing:
        return "same"
    if isinstance(kind, ByRow) and not kind.power and not set(growing) - {0}:
        row, length = kind.row, value.shape[0]
        return "rows" if row.axis == 0 and row.inner * row.size == length else None
    return TOTALS.get(kind.power) if isinstance(kind, Total) and not growing else None


def _unclear(family: Family, rows: Rows, name: str, value: Value, kinds: Mapping[str, Kind]) -> str:
    """Why a sum may be meant as a mean: one of its numbers looks like the number of rows."""
    for node in _numbers_in(family.graph, value, kinds):
        written = node.output.name not in family.powers
        if written and rows.count > 1 and _looks_like_rows(family, rows, node.attrs["value"]):
            text = f"`{name}` adds up rows, and {node.attrs['value']:g}{_place(node.span)} may be"
            divisor = f", or `{rows.dim}`" if rows.dim else ""
            return f"{text} meant as their number: write `mean`{divisor}"
    return ""


def _looks_like_rows(family: Family, rows: Rows, number: float) -> bool:
    """Whether it is the number of rows or of all elements of an input, or one over that."""
    first = family.counts[0]
    sizes = {value.type.size // first * rows.count for value in _row_inputs(family.graph, rows)}
    return any(
        isclose(abs(number), wanted, rel_tol=1e-6)
        for size in {rows.count, *sizes}
        for wanted in (size, 1 / size)
    )


def _numbers_in(graph: Graph, value: Value, kinds: Mapping[str, Kind]) -> Iterator[Node]:
    """The constants that a value is computed from; none can scale what integers count in rows."""
    wanted = {value.name}
    for node in reversed(graph.nodes):
        if any(output.name in wanted for output in node.outputs):
            wanted.update(v.name for v in node.inputs if _may_scale(v, kinds[v.name]))
            if node.op == "const":
                yield node


def _may_scale(value: Value, kind: Kind) -> bool:
    return value.dtype in FLOATS or (isinstance(kind, Fixed) and value.dtype in INTEGERS)


def _reason(family: Family, output: str, value: Value, kinds: Mapping[str, Kind]) -> str:
    kind = kinds[value.name]
    if isinstance(kind, Mixed):
        text = "their number plays a part" if kind.by_number else "rows mix"
        return f"{text}{_place(kind.at)}"
    own = {kind.row.axis} if isinstance(kind, ByRow) else set()
    if kind.power or set(family.grows(value)) - own:
        numbers = _numbers_in(family.graph, value, kinds)
        spans = [node.span for node in numbers if node.output.name in family.powers]
        return f"`{output}` depends on their number{_place(spans[0] if spans else None)}"
    return f"the rows of `{output}` are not its leading axis"


def _place(span: Span | None) -> str:
    if span is None:
        return ""
    is_short = 0 < len(span.text) <= SHORT and "\n" not in span.text
    return f" in `{span.text}` ({span.place})" if is_short else f" at {span.place}"
