"""Drawings of graphs and plans, as text, DOT or SVG: boxes in rows, each below all boxes it
depends on, joined by curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import prod
from typing import Any

from wgcc.errors import WgError
from wgcc.ir.dtypes import words_of
from wgcc.ir.graph import Graph

CHAR, PADDING, HEIGHT = 6.6, 12, 36
ROW, GAP, MARGIN = 74, 18, 20

_STYLE = """
text { font: 11px ui-monospace, monospace; fill: #222; text-anchor: middle }
.detail { fill: #666; font-size: 10px }
rect { stroke: #888; fill: #fff }
.source rect { fill: #e8f1ff } .result rect { fill: #e9f9e9 }
path { fill: none; stroke: #9aa }
"""


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


# `buffer`, `offset` and `size`, as bindings have them.
Region = Mapping[str, int]
WRITES = "read_write"


@dataclass(frozen=True, slots=True)
class Box:
    """`kind` is `source`, `step` or `result`; `name` that of the value it makes.

    `at` is a line of the source, `place` one in the model.
    """

    title: str
    detail: str
    kind: str
    name: str = ""
    at: str = ""
    kernel: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes, and arrows between them by their numbers; a box comes after those it depends on."""

    name: str
    boxes: Sequence[Box]
    arrows: Sequence[tuple[int, int]]


def draw(drawings: Sequence[Drawing], form: str) -> str:
    if form == "text":
        return "\n".join(map(_text, drawings))
    if form == "dot":
        return "\n".join(map(_dot, drawings))
    if len(drawings) != 1:
        names = ", ".join(drawing.name for drawing in drawings)
        raise WgError(f"an svg shows one entry: choose one with --entry ({names})")
    return svg_picture(drawings[0])


def graph_drawing(graph: Graph) -> Drawing:
    boxes: list[Box] = []
    arrows: list[tuple[int, int]] = []
    made: dict[str, int] = {}
    for value in graph.sources:
        made[value.name] = len(boxes)
        boxes.append(Box(value.name, str(value.type), "source", value.name))
    for node in graph.nodes:
        arrows += [(made[value.name], len(boxes)) for value in dict.fromkeys(node.inputs)]
        made.update({value.name: len(boxes) for value in node.outputs})
        first = node.outputs[0]
        at = node.span.place if node.span else ""
        boxes.append(Box(node.op, f"{first.name}: {first.type}", "step", first.name, at))
    for kind, results in (("", graph.outputs), ("write ", graph.writes)):
        for name, value in results.items():
            arrows.append((made[value.name], len(boxes)))
            boxes.append(Box(f"{kind}{name}", str(value.type), "result", name))
    return Drawing(graph.name, boxes, arrows)


def plan_drawing(
    plan: Mapping[str, Any], name: str, places: Sequence[object] | None = None
) -> Drawing:
    """A dispatch depends on the last ones that wrote what it reads."""
    entry = plan["entries"][name]
    boxes: list[Box] = []
    arrows: list[tuple[int, int]] = []
    written: list[tuple[Region, int]] = []  # with the number of the box, the newest last
    for key, tensor in entry["inputs"].items():
        written.append((_tensor_region(plan, tensor), len(boxes)))
        boxes.append(Box(key, _type(plan, tensor), "source", key))
    for number, dispatch in enumerate(entry["dispatches"]):
        kernel = plan["kernels"][dispatch["kernel"]]
        bound = list(zip(dispatch["bindings"], kernel["access"], strict=True))
        reads = [region for region, how in bound if how != WRITES or _lasts(plan, region)]
        arrows += [(box, len(boxes)) for box in _writers(written, reads)]
        written += [(region, len(boxes)) for region, how in bound if how == WRITES]
        label, at, place = dispatch["label"], dispatch["at"], str(places[number]) if places else ""
        box = Box(kernel["name"], f"{label}  {at}", "step", label, at, kernel["name"], place)
        boxes.append(box)
    for key, tensor in entry["outputs"].items():
        region = _tensor_region(plan, tensor)
        arrows += [(box, len(boxes)) for box in _writers(written, [region])]
        boxes.append(Box(key, _type(plan, tensor), "result", key))
    return Drawing(name, boxes, arrows)


def drawing_record(name: str, stages: Sequence[tuple[str, Drawing]]) -> dict[str, Any]:
    """The drawings of an entry as runtime_js/graph reads them.

    Boxes that several stages have are written once.
    """
    numbers: dict[tuple[str, ...], int] = {}
    records = []
    for stage, drawing in stages:
        boxes = [
            numbers.setdefault(
                (box.title, box.detail, box.kind, box.name, box.at, box.kernel, box.place),
                len(numbers),
            )
            for box in drawing.boxes
        ]
        arrows = [number for arrow in drawing.arrows for number in arrow]
        records.append({"name": stage, "boxes": boxes, "arrows": arrows})
    return {"name": name, "boxes": list(numbers), "stages": records}


def _lasts(plan: Mapping[str, Any], region: Region) -> bool:
    """Parameters, moments and counters are updated: a kernel that writes them also reads them."""
    return plan["buffers"][region["buffer"]]["role"] in ("params", "state", "counter")


def _writers(written: Sequence[tuple[Region, int]], regions: Sequence[Region]) -> list[int]:
    """The boxes that wrote the current contents of these regions."""
    boxes: dict[int, None] = {}
    for region in regions:
        unknown = [(region["offset"], region["offset"] + region["size"])]
        for other, box in reversed(written):
            left = _without(unknown, other) if other["buffer"] == region["buffer"] else unknown
            if left != unknown:
                boxes[box] = None
                unknown = left
    return list(boxes)


def _without(intervals: list[tuple[int, int]], region: Region) -> list[tuple[int, int]]:
    """The parts of the intervals outside the region."""
    start, end = region["offset"], region["offset"] + region["size"]
    pieces = [
        piece
        for low, high in intervals
        for piece in ((low, min(high, start)), (max(low, end), high))
    ]
    return [(low, high) for low, high in pieces if low < high]


def _tensor_region(plan: Mapping[str, Any], name: str) -> Region:
    tensor = plan["tensors"][name]
    size = 4 * words_of(tensor["dtype"], prod(tensor["shape"]))
    return {"buffer": tensor["buffer"], "offset": tensor["offset"], "size": size}


def _type(plan: Mapping[str, Any], name: str) -> str:
    tensor = plan["tensors"][name]
    return f"{tensor['dtype']}{tensor['shape'] or ''}"


def _text(drawing: Drawing) -> str:
    """A line for each box, with the numbers of those it depends on."""
    lines = [f"entry {drawing.name}"]
    for number, box in enumerate(drawing.boxes):
        needs = [str(a) for a, b in drawing.arrows if b == number]
        after = f"  after {', '.join(needs)}" if needs else ""
        lines.append(f"{number:5}  {box.title}  ({box.detail.strip()}){after}")
    return "\n".join([*lines, ""])


def _dot(drawing: Drawing) -> str:
    shapes = {"source": "ellipse", "step": "box", "result": "doubleoctagon"}
    lines = [f"digraph {_quote(drawing.name)} {{", "  node [fontname=Helvetica, fontsize=10];"]
    for number, box in enumerate(drawing.boxes):
        label = _quote(f"{box.title}\n{box.detail}")
        lines.append(f"  n{number} [label={label}, shape={shapes[box.kind]}];")
    lines += [f"  n{a} -> n{b};" for a, b in drawing.arrows]
    return "\n".join([*lines, "}", ""])


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
