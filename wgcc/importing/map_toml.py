"""A map from tensors of a file to parameters as TOML: what --propose writes and --map reads.

`"fc.weight" = { to = "fc.w", transpose = true }`; `*` stands for the same part of a name on both
sides; `keep = [...]` lists parameters that keep their initial values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from math import prod
from typing import Any

from wgcc.errors import WgError
from wgcc.importing.map_text import assumptions, near, shape_text
from wgcc.importing.propose import Pair, Proposal, Undecided
from wgcc.importing.transforms import TRANSPOSED, Shape, Transform, read_gates

_KEEP = "keep"
_HEAD = """\
# Which parameter each tensor of the file is, and how it is changed: edit it, give it with --map.
# Changes: transpose = true, axes = [2, 3, 1, 0], rows = [0, 64], columns = [0, 64], flip = true,
# reshape = true, gates = "zrn", rope = 8; to = ["a", "b"], split = 0 cuts a tensor into several.
"""


@dataclass(slots=True)
class ReadMap:
    """A tensor and its change for each parameter that is named, or None; notes on unused rules."""

    rules: dict[str, tuple[str, Transform] | None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def toml_text(
    proposal: Proposal, targets: Mapping[str, Shape], sources: Mapping[str, Shape]
) -> str:
    lines = [_HEAD]
    if proposal.kept:
        lines.append(f"{_KEEP} = {json.dumps(proposal.kept, ensure_ascii=False)}\n")
    by_source: dict[str, list[Pair]] = {}
    for pair in proposal.pairs:
        by_source.setdefault(pair.source, []).append(pair)
    lines += [_entry(name, pairs, targets, sources) for name, pairs in by_source.items()]
    for item in proposal.undecided:
        lines += ["", *_undecided_lines(item, targets)]
    lines += [f"# not found: {name} {shape_text(targets[name])}" for name in proposal.missing]
    lines += [f"# not used: {name} {shape_text(sources[name])}" for name in proposal.unused]
    return "\n".join(lines + assumptions(proposal)) + "\n"


def _entry(
    name: str, pairs: list[Pair], targets: Mapping[str, Shape], sources: Mapping[str, Shape]
) -> str:
    """One table for a tensor, or a list of them if it is cut into several parameters."""
    rows = [(rule_text(p.target, p.transform), shape_text(targets[p.target])) for p in pairs]
    shape = shape_text(sources[name])
    if len(rows) == 1:
        return f"{_quote(name)} = {rows[0][0]}  # {shape} -> {rows[0][1]}"
    inner = "".join(f"  {table},  # {shape} -> {wanted}\n" for table, wanted in rows)
    return f"{_quote(name)} = [\n{inner}]"


def _undecided_lines(item: Undecided, targets: Mapping[str, Shape]) -> Iterator[str]:
    wanted = f"{item.target} {shape_text(targets[item.target])}"
    yield f"# undecided: {wanted}, as {item.reason}; remove the # before one of these lines:"
    for source, way in item.choices:
        yield f"# {_quote(source)} = {rule_text(item.target, way)}"
    yield f"# or let it keep its initial values: {_KEEP} = [{_quote(item.target)}]"


def _quote(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def read_toml_map(
    text: str, file: str, targets: Mapping[str, Shape], sources: Mapping[str, Shape]
) -> ReadMap:
    toml_map, explicit = ReadMap(), set[str]()
    for key, value in _parse(text, file).items():
        where = f"{file}:{_line(text, key)}"
        if key == _KEEP and _is_list_of(value, str):
            toml_map.rules |= {name: None for name in _kept_names(value, where, targets)}
            continue
        rules = read_rules(value, where)
        matches = _matching(key, sources)
        if not matches:
            text_near = near(key, sources)
            toml_map.notes.append(f"{where}: no tensor of the file is {key}{text_near}: not used")
        for rule in rules:
            for target, choice in _fill(rule, matches, where, targets, sources):
                _add(toml_map, explicit, target, choice, "*" not in key, where)
    return toml_map


def _add(
    toml_map: ReadMap,
    explicit: set[str],
    target: str,
    choice: tuple[str, Transform],
    is_explicit: bool,
    where: str,
) -> None:
    """A rule without `*` is stronger than one with it."""
    if target in toml_map.rules and (target in explicit) == is_explicit:
        raise WgError(f"{where}: two rules fill {target}")
    if is_explicit or target not in toml_map.rules:
        toml_map.rules[target] = choice
    if is_explicit:
        explicit.add(target)


def _fill(
    rule: Rule,
    matches: list[tuple[str, list[str]]],
    where: str,
    targets: Mapping[str, Shape],
    sources: Mapping[str, Shape],
) -> Iterator[tuple[str, tuple[str, Transform]]]:
    """Files may have more layers than the model: of several matches one parameter is enough."""
    missing, count = [], 0
    for source, parts in matches:
        names = [_with_parts(name, parts, where) for name in rule.to]
        absent = [name for name in names if name not in targets]
        missing += absent
        if not absent:
            count += 1
            shapes = [targets[name] for name in names]
            ways = rule.transforms(sources[source], shapes, where)
            yield from ((n, (source, way)) for n, way in zip(names, ways, strict=True))
    if missing and not count:
        raise WgError(
            f"{where}: the model has no parameter {missing[0]}{near(missing[0], targets)}"
        )


def _matching(pattern: str, names: Mapping[str, Shape]) -> list[tuple[str, list[str]]]:
    regex = re.compile(re.escape(pattern).replace(r"\*", "([^.]+)"))
    return [(name, list(match.groups())) for name in names if (match := regex.fullmatch(name))]


def _with_parts(pattern: str, parts: list[str], where: str) -> str:
    if pattern.count("*") > len(parts):
        raise WgError(f"{where}: `{pattern}` has more `*` than the tensor's name")
    for part in parts:
        pattern = pattern.replace("*", part, 1)
    return pattern


def _kept_names(names: list[str], where: str, targets: Mapping[str, Shape]) -> Iterator[str]:
    for pattern in names:
        matches = [name for name, _ in _matching(pattern, targets)]
        if not matches:
            raise WgError(f"{where}: the model has no parameter {pattern}{near(pattern, targets)}")
        yield from matches


def _is_list_of(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)


def _parse(text: str, file: str) -> dict[str, Any]:
    try:
        reader = import_module("tomllib")
    except ImportError:
        raise WgError(
            f"{file}: maps in TOML need Python 3.11; others are written as text"
        ) from None
    try:
        table: dict[str, Any] = reader.loads(text)
        return table
    except (ValueError, RecursionError) as error:
        reason = re.match(r"(.*) \(at line (\d+), column (\d+)\)", str(error))
        place = f"{file}:{reason[2]}:{reason[3]}: {reason[1]}" if reason else f"{file}: {error}"
        raise WgError(f"{place}; names with dots are written in quotes") from None


def _line(text: str, key: str) -> int:
    """The line of a key; tomllib does not say it."""
    spellings = "|".join(re.escape(name) for name in (_quote(key), f"'{key}'", key))
    regex = re.compile(rf"\s*\[*\s*(?:{spellings})\s*[=\].]")
    return next((n for n, line in enumerate(text.splitlines(), 1) if regex.match(line)), 1)


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
        """The rows or columns that are split: those that the rule takes, or all of them."""
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
        if bounds := _numbers(table, key, where):
            if len(bounds) != 2:
                raise WgError(f"{where}: `{key}` must be [first, end]")
            ranges[key] = bounds[0], bounds[1]
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
