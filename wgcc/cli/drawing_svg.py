"""Drawings as SVG: boxes in rows, each below all boxes it depends on, joined by curves."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wgcc.cli.drawing import Box, Drawing

CHAR, PADDING, HEIGHT = 6.6, 12, 36
ROW, GAP, MARGIN = 74, 18, 20

_STYLE = """
text { font: 11px ui-monospace, monospace; fill: #222; text-anchor: middle }
.detail { fill: #666; font-size: 10px }
rect { stroke: #888; fill: #fff }
.source rect { fill: #e8f1ff } .result rect { fill: #e9f9e9 }
path { fill: none; stroke: #9aa }
"""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 15px system-ui, sans-serif; margin: 2rem }} svg {{ max-width: none }}
section {{ overflow-x: auto }}</style></head><body>
{sections}
</body></html>
"""


def html_page(drawings: Sequence[Drawing]) -> str:
    """A self-contained page with one section for each entry."""
    sections = "\n".join(
        f"<section><h2>{escape(drawing.name)}</h2>\n{svg_picture(drawing)}</section>"
        for drawing in drawings
    )
    title = escape(", ".join(drawing.name for drawing in drawings))
    return _PAGE.format(title=title, sections=sections)


def svg_picture(drawing: Drawing) -> str:
    centres, width, height = _places(drawing)
    parts = [_curve(centres[a], centres[b]) for a, b in drawing.arrows]
    parts += [_box(box, centres[number]) for number, box in enumerate(drawing.boxes)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}">\n'
        f"<style>{_STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


Point = tuple[float, float]


def _places(drawing: Drawing) -> tuple[dict[int, Point], float, float]:
    """The centre of each box, and the size of the picture."""
    rows = _rows(drawing)
    widths = [sum(_width(drawing.boxes[n]) + GAP for n in row) for row in rows]
    widest = max(widths, default=0.0)
    centres: dict[int, Point] = {}
    for depth, row in enumerate(rows):
        x = MARGIN + (widest - widths[depth]) / 2
        for number in row:
            width = _width(drawing.boxes[number])
            centres[number] = (x + width / 2, MARGIN + depth * ROW + HEIGHT / 2)
            x += width + GAP
    return centres, widest + 2 * MARGIN, len(rows) * ROW + 2 * MARGIN


def _rows(drawing: Drawing) -> list[list[int]]:
    """Each box is one row below the lowest it depends on; a row is sorted by its dependencies."""
    needs: dict[int, list[int]] = {number: [] for number in range(len(drawing.boxes))}
    for a, b in drawing.arrows:
        needs[b].append(a)
    depth: dict[int, int] = {}
    for number in needs:
        depth[number] = 1 + max((depth[a] for a in needs[number]), default=-1)
    rows: list[list[int]] = [[] for _ in range(1 + max(depth.values(), default=-1))]
    for number, row in depth.items():
        rows[row].append(number)
    place: dict[int, float] = {}
    for row_boxes in rows:
        row_boxes.sort(key=lambda n: _middle([place[a] for a in needs[n] if a in place]))
        for at, number in enumerate(row_boxes):
            place[number] = (at + 0.5) / len(row_boxes)
    return rows


def _middle(places: list[float]) -> float:
    return sum(places) / len(places) if places else 0.5


def _width(box: Box) -> float:
    return max(len(box.title), len(box.detail)) * CHAR + PADDING


def _box(box: Box, centre: Point) -> str:
    width, (x, y) = _width(box), centre
    return (
        f'<g class="{box.kind}"><rect x="{x - width / 2:.1f}" y="{y - HEIGHT / 2:.1f}" '
        f'width="{width:.1f}" height="{HEIGHT}" rx="5"/>'
        f'<text x="{x:.1f}" y="{y - 3:.1f}">{escape(box.title)}</text>'
        f'<text class="detail" x="{x:.1f}" y="{y + 11:.1f}">{escape(box.detail)}</text></g>'
    )


def _curve(start: Point, end: Point) -> str:
    (x1, y1), (x2, y2) = start, end
    top, bottom = y1 + HEIGHT / 2, y2 - HEIGHT / 2
    bend = (bottom - top) / 2
    return (
        f'<path d="M{x1:.1f} {top:.1f} C{x1:.1f} {top + bend:.1f} '
        f'{x2:.1f} {bottom - bend:.1f} {x2:.1f} {bottom:.1f}"/>'
    )
