"""Dependency drawings: of the ops of a graph, or of the dispatches of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from wgcc.cli.drawing_svg import html_page, svg_picture
from wgcc.errors import WgError
from wgcc.ir.dtypes import words_of
from wgcc.ir.graph import Graph

# `buffer`, `offset` and `size`, as bindings have them.
Region = Mapping[str, int]
WRITES = "read_write"


@dataclass(frozen=True, slots=True)
class Box:
    """`kind` is `source`, `step` or `result`."""

    title: str
    detail: str
    kind: str


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
    if form == "html":
        return html_page(drawings)
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
        boxes.append(Box(value.name, str(value.type), "source"))
    for node in graph.nodes:
        arrows += [(made[value.name], len(boxes)) for value in dict.fromkeys(node.inputs)]
        made.update({value.name: len(boxes) for value in node.outputs})
        boxes.append(Box(node.op, f"{node.outputs[0].name}: {node.outputs[0].type}", "step"))
    for kind, results in (("", graph.outputs), ("write ", graph.writes)):
        for name, value in results.items():
            arrows.append((made[value.name], len(boxes)))
            boxes.append(Box(f"{kind}{name}", str(value.type), "result"))
    return Drawing(graph.name, boxes, arrows)


def plan_drawing(plan: Mapping[str, Any], name: str) -> Drawing:
    """A dispatch depends on the last ones that wrote what it reads."""
    entry = plan["entries"][name]
    boxes: list[Box] = []
    arrows: list[tuple[int, int]] = []
    written: list[tuple[Region, int]] = []  # with the number of the box, the newest last
    for key, tensor in entry["inputs"].items():
        written.append((_tensor_region(plan, tensor), len(boxes)))
        boxes.append(Box(key, _type(plan, tensor), "source"))
    for dispatch in entry["dispatches"]:
        kernel = plan["kernels"][dispatch["kernel"]]
        bound = list(zip(dispatch["bindings"], kernel["access"], strict=True))
        reads = [region for region, how in bound if how != WRITES or _lasts(plan, region)]
        arrows += [(box, len(boxes)) for box in _writers(written, reads)]
        written += [(region, len(boxes)) for region, how in bound if how == WRITES]
        boxes.append(Box(kernel["name"], f"{dispatch['label']}  {dispatch['at']}", "step"))
    for key, tensor in entry["outputs"].items():
        region = _tensor_region(plan, tensor)
        arrows += [(box, len(boxes)) for box in _writers(written, [region])]
        boxes.append(Box(key, _type(plan, tensor), "result"))
    return Drawing(name, boxes, arrows)


def _lasts(plan: Mapping[str, Any], region: Region) -> bool:
    """Parameters, moments and counters are updated: a kernel that writes them also reads them."""
    return plan["buffers"][region["buffer"]]["role"] in ("params", "state", "counter")


def _writers(written: Sequence[tuple[Region, int]], regions: Sequence[Region]) -> list[int]:
    """The boxes that wrote the current contents of these regions."""
    found: dict[int, None] = {}
    for region in regions:
        unknown = [(region["offset"], region["offset"] + region["size"])]
        for other, box in reversed(written):
            left = _without(unknown, other) if other["buffer"] == region["buffer"] else unknown
            if left != unknown:
                found[box] = None
                unknown = left
    return list(found)


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
    lines = [f"digraph {_quoted(drawing.name)} {{", "  node [fontname=Helvetica, fontsize=10];"]
    for number, box in enumerate(drawing.boxes):
        label = _quoted(f"{box.title}\n{box.detail}")
        lines.append(f"  n{number} [label={label}, shape={shapes[box.kind]}];")
    lines += [f"  n{a} -> n{b};" for a, b in drawing.arrows]
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
