"""The right side of a rule in TOML: `{ to = "fc.w", transpose = true }`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from wgcc.errors import WgError
from wgcc.importing.map_text import near
from wgcc.importing.transforms import TRANSPOSED, Shape, Transform, read_gates

_KEYS = ("to", "transpose", "axes", "rows", "columns", "split", "flip", "reshape", "gates", "rope")
_MOST_AXES = 8


@dataclass(frozen=True, slots=True)
class Rule:
    """Parameters, one change for all of them, and the axis along which they share the tensor."""

    to: tuple[str, ...]
    change: Transform
    split: int | None = None

    def transforms(self, source: Shape, targets: Sequence[Shape], where: str) -> list[Transform]:
        """Pieces as large as the parameters are: queries may be wider than keys."""
        if self.split is None:
            return [self.change] * len(targets)
        start, stop = self._range(source)
        size, counts = stop - start, [*map(prod, targets)]
        if size <= 0 or any(size * count % max(sum(counts), 1) for count in counts):
            raise WgError(f"{where}: {self._part(source)} cannot be split along axis {self.split} "
                          f"into {', '.join(str(list(shape)) for shape in targets)}")  # fmt: skip
        pieces = []
        for count in counts:
            end = start + size * count // sum(counts)
            place, start = (start, end), end
            pieces.append(
                replace(self.change, columns=place)
                if self.split
                else replace(self.change, rows=place)
            )
        return pieces

    def _range(self, source: Shape) -> tuple[int, int]:
        """What is split: the rows or columns that the rule takes, or all of them."""
        size = source[self.split] if self.split is not None and self.split < len(source) else 0
        first, stop = (self.change.columns if self.split else self.change.rows) or (0, size)
        return (first, stop) if stop <= size else (0, 0)

    def _part(self, source: Shape) -> str:
        taken = self.change.columns if self.split else self.change.rows
        words = "columns" if self.split else "rows"
        return f"{list(source)}" + (f", {words} {list(taken)}" if taken else "")


def read_rules(value: Any, where: str) -> list[Rule]:
    """A table, or a list of tables."""
    tables = value if isinstance(value, list) else [value]
    if not tables or not all(isinstance(table, dict) for table in tables):
        raise WgError(f'{where}: a rule is a table such as {{ to = "fc.w", transpose = true }}')
    return [_rule(table, where) for table in tables]


def _rule(table: dict[str, Any], where: str) -> Rule:
    for key in table:
        if key not in _KEYS:
            raise WgError(f"{where}: a rule has no `{key}`{near(key, _KEYS)}; it has "
                          f"{', '.join(_KEYS)}")  # fmt: skip
    to = table.get("to")
    names = [to] if isinstance(to, str) else to
    if not names or not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise WgError(f"{where}: `to` must be the name of a parameter, or a list of names")
    split = table.get("split")
    if split is not None and (type(split) is not int or split not in (0, 1)):
        raise WgError(f"{where}: `split` must be 0 or 1, the axis that is cut")
    if len(names) > 1 and split is None:
        raise WgError(f"{where}: several parameters share a tensor: `split` must be its axis")
    return Rule(tuple(names), _transform(table, where), split)


def _transform(table: dict[str, Any], where: str) -> Transform:
    axes = tuple(_numbers(table, "axes", where))
    if _flag(table, "transpose", where):
        if axes:
            raise WgError(f"{where}: `transpose` and `axes` say the same: give one of them")
        axes = TRANSPOSED
    ranges = {}
    for key in ("rows", "columns"):
        if found := _numbers(table, key, where):
            if len(found) != 2:
                raise WgError(f"{where}: `{key}` must be [first, end]")
            ranges[key] = found[0], found[1]
    gates, rope = table.get("gates", ""), table.get("rope", 0)
    if not isinstance(gates, str) or isinstance(rope, bool) or not isinstance(rope, int):
        raise WgError(f'{where}: write gates = "zrn" or rope = 8')
    if rope < 0:
        raise WgError(f"{where}: `rope` must be the number of heads")
    return Transform(
        axes, ranges.get("rows"), ranges.get("columns"), _flag(table, "flip", where),
        _flag(table, "reshape", where), read_gates(gates, where) if gates else "", rope,
    )  # fmt: skip


def _flag(table: dict[str, Any], key: str, where: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise WgError(f"{where}: `{key}` must be true or false")
    return value


def _numbers(table: dict[str, Any], key: str, where: str) -> list[int]:
    value = table.get(key, [])
    is_list = isinstance(value, list) and len(value) <= _MOST_AXES
    if not is_list or any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in value):
        raise WgError(f"{where}: `{key}` must be a list of whole numbers")
    return list(value)


def rule_text(target: str, change: Transform) -> str:
    parts = [f"to = {json.dumps(target, ensure_ascii=False)}"]
    for key, piece in (("rows", change.rows), ("columns", change.columns)):
        parts += [f"{key} = [{piece[0]}, {piece[1]}]"] if piece else []
    parts += ["flip = true"] if change.flipped else []
    if change.axes == TRANSPOSED:
        parts.append("transpose = true")
    elif change.axes:
        parts.append(f"axes = {list(change.axes)}")
    parts += ["reshape = true"] if change.reshaped else []
    parts += [f'gates = "{change.gates}"'] if change.gates else []
    parts += [f"rope = {change.rope}"] if change.rope else []
    return "{ " + ", ".join(parts) + " }"
