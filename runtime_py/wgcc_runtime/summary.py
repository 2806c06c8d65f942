"""Summaries of a model for people: one line, a text, tables of rich, or HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wgcc_runtime.entry_method import signature_text
from wgcc_runtime.plan import Plan
from wgcc_runtime.plan_parts import times_run

if TYPE_CHECKING:
    from wgcc_runtime.model import Model

# A model with more layers shows the first of them.
MOST_LAYERS = 60

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    heads: Row
    rows: Sequence[Row]


def one_line(model: Model) -> str:
    plan = model.plan
    entries = ", ".join(plan.entries)
    return f"<{plan.model}: {_parameters(plan)}; {entries}; {_device(model)}>"


def summary_text(model: Model) -> str:
    """Aligned columns, without colours."""
    lines = [_title(model)]
    for section in _sections(model.plan):
        lines += ["", section.title, *_align([section.heads, *section.rows])]
    return "\n".join(lines)


def summary_html(model: Model) -> str:
    parts = [f"<p><b>{html.escape(_title(model))}</b></p>"]
    for section in _sections(model.plan):
        heads = _cells("th", section.heads)
        rows = "".join(_cells("td", row) for row in section.rows)
        parts.append(f"<table><caption>{section.title}</caption>{heads}{rows}</table>")
    return "".join(parts)


def _cells(tag: str, row: Row) -> str:
    style = ' style="text-align: left"'
    return f"<tr>{''.join(f'<{tag}{style}>{html.escape(cell)}</{tag}>' for cell in row)}</tr>"


def summary_rich(model: Model) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    tables = []
    for section in _sections(model.plan):
        table = Table(*section.heads, title=section.title, title_justify="left")
        for row in section.rows:
            table.add_row(*map(Text, row))
        tables.append(table)
    return Group(Text(_title(model), "bold"), *tables)


def _title(model: Model) -> str:
    steps = model.steps_done
    trained = f", {steps:,} steps trained" if steps else ""
    return f"{model.plan.model}: {_parameters(model.plan)}, {_device(model)}{trained}"


def _device(model: Model) -> str:
    return "closed" if model.is_closed else f"on {model.device_name}"


def _parameters(plan: Plan) -> str:
    tensors = [tensor for tensor in plan.tensors.values() if tensor.role == "param"]
    size, total = sum(tensor.size for tensor in tensors), sum(tensor.bytes for tensor in tensors)
    return f"{size:,} parameters ({byte_text(total)})"


def _sections(plan: Plan) -> Iterable[Section]:
    entries = [
        (signature_text(entry), f"{sum(times_run(entry)):,}", "yes" if entry.training else "")
        for entry in plan.entries.values()
    ]
    yield Section("Entries", ("entry", "dispatches", "trains"), entries)
    yield Section("Parameters", ("layer", "parameters", "bytes", "shapes"), list(_layers(plan)))
    roles: dict[str, int] = {}
    for buffer in plan.buffers:
        roles[buffer.role] = roles.get(buffer.role, 0) + buffer.bytes
    yield Section("Memory", ("what", "bytes"), [(k, byte_text(v)) for k, v in roles.items()])


def _layers(plan: Plan) -> Iterable[Row]:
    """Parameters, joined by the layer that they belong to."""
    layers: dict[str, list[Any]] = {}
    for tensor in plan.tensors.values():
        if tensor.role == "param":
            layers.setdefault(tensor.name.rpartition(".")[0], []).append(tensor)
    for number, (layer, tensors) in enumerate(layers.items()):
        if number == MOST_LAYERS:
            yield (f"… and {len(layers) - MOST_LAYERS} more", "", "", "")
            return
        size, total = sum(t.size for t in tensors), sum(t.bytes for t in tensors)
        shapes = ", ".join(
            f"{t.name.rpartition('.')[2]} {t}{'' if t.trainable else ' frozen'}" for t in tensors
        )
        yield (layer, f"{size:,}", byte_text(total), shapes)


def byte_text(number: int) -> str:
    """`17.4 kB`"""
    amount, unit = float(number), "B"
    for larger in ("kB", "MB", "GB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{number} B" if unit == "B" else f"{amount:.1f} {unit}"


def _align(rows: Sequence[Row]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows)
    return ["  " + "  ".join(row).rstrip() for row in cells]
