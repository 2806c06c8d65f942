"""`entry predict(…) -> (…) with ema { … }`: entries that read moving averages of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wgcc.elaborate.declarations.selectors import listing
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.context import Context
from wgcc.errors import Span
from wgcc.ir.graph import Graph
from wgcc.ir.state_names import AVERAGE
from wgcc.syntax import ast


def averaged_entries(
    context: Context, entries: Iterable[ast.Function], graphs: Mapping[str, Graph]
) -> dict[str, str]:
    """The optimizer whose averages an entry reads, by the name of the entry."""
    keeping = sorted(
        {
            node.attrs["optimizer"]
            for graph in graphs.values()
            for node in graph.nodes
            if node.op == "minimize" and AVERAGE in node.attrs["settings"]
        }
    )
    found: dict[str, str] = {}
    for entry in entries:
        if not entry.averages or entry.name.text not in graphs:
            continue
        try:
            _refuse_changes(context, entry, graphs[entry.name.text])
            found[entry.name.text] = _optimizer(context, entry, keeping)
        except Stop:
            continue
    return found


def _optimizer(context: Context, entry: ast.Function, keeping: list[str]) -> str:
    words, at = [name.text for name in entry.averages], _place(entry)
    if words[-1] != AVERAGE or len(words) > 2:
        text = f"after `with` comes `{AVERAGE}` or `NAME.{AVERAGE}`, with the name of an optimizer"
        raise Stop(context.report.error("WG0610", text, at))
    if not keeping:
        text = "no optimizer that an entry uses keeps averages of its parameters"
        found = context.report.error("WG0610", text, at)
        raise Stop(found.help(f"give it the setting `{AVERAGE} = 0.999`"))
    if len(words) == 2:
        if words[0] not in keeping:
            text = f"`{words[0]}` is no optimizer that keeps averages"
            found = context.report.error("WG0610", text, entry.averages[0])
            raise Stop(found.note(f"these do: {listing(keeping)}"))
        return words[0]
    if len(keeping) > 1:
        text = f"several optimizers keep averages: {listing(keeping)}"
        found = context.report.error("WG0610", text, at)
        raise Stop(found.help(f"say which: `with {keeping[0]}.{AVERAGE}`"))
    return keeping[0]


def _refuse_changes(context: Context, entry: ast.Function, graph: Graph) -> None:
    changed = [value.name for value in graph.params if value.name in graph.writes]
    if changed:
        text = f"an entry with averages cannot change parameters such as {listing(changed)}"
        raise Stop(context.report.error("WG0610", text, _place(entry)))


def _place(entry: ast.Function) -> Span:
    first, last = entry.averages[0].span, entry.averages[-1].span
    return Span(first.source, first.start, last.end)
