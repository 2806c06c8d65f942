"""`wgcc show --isa`: what a real GPU compiler makes of the kernels of a bundle."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from wgcc.cli.printing import size, table
from wgcc.isa import tools
from wgcc.isa.causes import causes
from wgcc.isa.listing import Listing
from wgcc.isa.report import CompilerReport
from wgcc.isa.targets import TARGETS

# Causes that are no work of the kernel.
EXTRA = ("clamp", "loop", "address", "conversion", "move")
_COLUMNS = (
    "kernel", "by", "registers", "spills", "shared", "waves", "instructions",
    "hot loop", "fma", "vector", "special", "lds", "memory", "scalar", "FMA", "tile", "at once",
    "extra", "",
)  # fmt: skip
_SOURCE = re.compile(r"^// from (.+)$", re.M)


def isa_json(reports: Sequence[CompilerReport], with_listing: bool) -> list[dict[str, Any]]:
    return [
        {**item.facts(), **({"listing": _rows(item)} if with_listing and item.listing else {})}
        for item in reports
    ]


def isa_table(reports: Sequence[CompilerReport], kernels: Mapping[str, str], target: str) -> str:
    """All kernels, each by every WGSL compiler; `extra` says what other instructions are for."""
    rows = [list(_COLUMNS)]
    for item in reports:
        rows.append([*_cells(item), _model_lines(kernels[item.kernel])])
    notes = [f"compiled for {TARGETS[target].card}; nothing ran", *_absent(target)]
    return "\n".join([table(rows, right=range(2, len(_COLUMNS) - 2)), "", *notes])


def isa_listing(reports: Sequence[CompilerReport], text: str, target: str) -> str:
    """One kernel: its figures, and its instructions with what each is for."""
    parts = [f"compiled for {TARGETS[target].card}; nothing ran", *_absent(target)]
    for item in reports:
        parts += ["", *_heading(item, text)]
        if item.listing:
            parts += [_line(row) for row in _rows(item)]
    return "\n".join(parts)


def _absent(target: str) -> list[str]:
    """The compilers that could say more if they were installed."""
    return [
        f"not asked: {route}, which needs {'; '.join(lacking)}"
        for route in TARGETS[target].routes
        if (lacking := tools.missing(route))
    ]


def _cells(item: CompilerReport) -> list[str]:
    if item.error:
        return [item.kernel, item.route, *["-"] * (len(_COLUMNS) - 4), item.error]
    hot = [item.hot.get(kind, 0) for kind in ("fma", "vector", "special", "shared", "memory")]
    numbers = (sum(item.hot.values()), *hot, item.hot.get("scalar", 0))
    return [
        item.kernel, item.route, str(item.registers), str(item.spills),
        size(item.shared) if item.shared else "-", str(item.waves), str(item.instructions),
        *map(str, numbers), f"{item.share:.0%}",
        "-" if item.tile is None else f"{item.tile:.0%}", str(item.loads), _extra(item),
    ]  # fmt: skip


def _extra(item: CompilerReport) -> str:
    named = (f"{cause} {item.causes[cause]}" for cause in EXTRA if cause in item.causes)
    return ", ".join(named)


def _model_lines(text: str) -> str:
    match = _SOURCE.search(text)
    return match[1] if match else ""


def _heading(item: CompilerReport, text: str) -> list[str]:
    lines = [f"{item.kernel} by {item.route}, from {_model_lines(text)}"]
    if item.error:
        return [*lines, f"  {item.error}"]
    tile = "" if item.tile is None else f", {item.tile:.0%} of those of a tile"
    hot = ", ".join(f"{count} {kind}" for kind, count in item.hot.items())
    return [
        *lines,
        f"  {item.registers} registers, {item.spills} spilled, {size(item.shared)} shared, "
        f"{item.waves} waves, {item.threads} threads, {item.instructions} instructions",
        f"  hot loop (marked |): {hot}",
        f"  multiply-adds: {item.share:.0%} of its slots{tile}",
        f"  loads under way at once: {item.loads}",
        f"  beside the work: {_extra(item) or 'nothing'}",
    ]


def _rows(item: CompilerReport) -> list[dict[str, Any]]:
    """The instructions, each with its kind and cause, and its line of the kernel where known."""
    listing = item.listing or Listing((), {})
    hot = listing.hot_loop()
    first = next((at for at, one in enumerate(listing.instructions) if one is hot[0]), 0)
    labels = {at: name for name, at in listing.labels.items()}
    rows = []
    why = causes(listing.instructions)
    why[first : first + len(hot)] = causes(hot)
    for at, one in enumerate(listing.instructions):
        rows.append({
            "label": labels.get(at, ""), "text": one.text, "kind": one.kind, "cause": why[at],
            "hot": first <= at < first + len(hot), "source": _source(item, one.line),
        })  # fmt: skip
    return rows


def _source(item: CompilerReport, line: int | None) -> str:
    return item.source[line - 1].strip() if line and line <= len(item.source) else ""


def _line(row: Mapping[str, Any]) -> str:
    mark = "|" if row["hot"] else " "
    text = f"{mark} {row['label']:8} {row['text']:58} {row['cause']:11}"
    return f"{text}{row['source']}".rstrip()
