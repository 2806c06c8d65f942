"""Short expressions that are used once are written where they are used."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wgcc.from_onnx.values import Part, Value
from wgcc.from_onnx.writing.blocks import Block

LONGEST = 80
_NUMBER = re.compile(r"\d+")
_PLACE = re.compile(r"\{(\d+)\}")


@dataclass(slots=True)
class Line:
    """An expression whose places are filled by values that have no name yet."""

    text: str
    parts: tuple[Part, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[str, ...]
    targets: str = ""


def without_aliases(lines: list[Line | Block], kept: set[Value]) -> list[Line | Block]:
    """`y = x` is left out: what reads y reads x."""
    same: dict[Part, Part] = {}
    found: list[Line | Block] = []
    for line in lines:
        if not isinstance(line, Line):
            found.append(line)
            continue
        line.parts = tuple(same.get(part, part) for part in line.parts)
        if line.text == "{0}" and line.outputs[0] not in kept:
            same[line.outputs[0]] = line.parts[0]
        else:
            found.append(line)
    return found


def inlined(lines: list[Line | object], kept: set[Value], uses: dict[Value, int]) -> list[object]:
    """`kept` are values that need a name; others are written into the line that uses them."""
    waiting: dict[Value, Line] = {}
    # By identity: lines are in order, and one that was written into another is taken out.
    found: dict[int, object] = {}
    for line in lines:
        found[id(line)] = line
        if not isinstance(line, Line):
            continue
        merged = _merged(line, waiting)
        for part in line.parts:
            inner = waiting.pop(part, None)  # type: ignore[arg-type]
            if inner is not None and merged is not line and part not in merged.parts:
                del found[id(inner)]
        if merged is not line:
            del found[id(line)]
            found[id(merged)] = merged
        if _may_wait(merged, kept, uses):
            waiting[merged.outputs[0]] = merged
    return list(found.values())


def _may_wait(line: Line, kept: set[Value], uses: dict[Value, int]) -> bool:
    if len(line.outputs) != 1 or line.outputs[0] in kept:
        return False
    return uses.get(line.outputs[0], 0) == 1 and _length(line) <= LONGEST // 2


def _length(line: Line) -> int:
    return width(line.text) + sum(6 for _ in line.parts)


def width(text: str) -> int:
    """Whole numbers count as two letters, so that the form of a text depends on no size."""
    return len(_NUMBER.sub("00", text))


def _merged(line: Line, waiting: dict[Value, Line]) -> Line:
    """The line with expressions of its parts in it."""
    for place, part in enumerate(line.parts):
        inner = waiting.get(part) if isinstance(part, Value) else None
        if inner is None or line.text.count(f"{{{place}}}") != 1:
            continue
        if line.parts.count(part) > 1 or _length(line) + _length(inner) > LONGEST:
            continue
        return _merged(_filled(line, place, inner), waiting)
    return line


def _filled(line: Line, place: int, inner: Line) -> Line:
    offset = len(line.parts)
    moved = _PLACE.sub(lambda found: f"{{{int(found[1]) + offset}}}", inner.text)
    mark = f"{{{place}}}"
    if not _is_atom(inner.text) and not _is_alone(line.text, mark):
        moved = f"({moved})"
    parts: list[Part] = [*line.parts, *inner.parts]
    parts[place] = ""
    nodes = tuple(dict.fromkeys((*inner.nodes, *line.nodes)))
    return Line(line.text.replace(mark, moved), tuple(parts), line.outputs, nodes, line.targets)


def _is_atom(text: str) -> bool:
    """A name, or one call."""
    if _PLACE.fullmatch(text):
        return True
    head = re.match(r"(\w+|\{\d+\})\(", text)
    if not head or not text.endswith(")"):
        return False
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if depth == 0 and position >= head.end() and position < len(text) - 1:
            return False
    return True


def _is_alone(text: str, mark: str) -> bool:
    """A whole argument, or the whole text."""
    before, _, after = text.partition(mark)
    return (not before or before.endswith(("(", ", ", "["))) and (
        not after or after.startswith((")", ",", "]"))
    )
