"""The text of a map from tensors of a file to parameters, one rule per line.

`PARAMETER <- TENSOR, CHANGES`; `*` stands for the same part of a name on both sides; `#` begins a
comment; a parameter without `<- …` keeps its initial values; `?` marks what is undecided.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from wgcc.errors import WgError
from wgcc.importing.matching import ORDER, SHAPE
from wgcc.importing.propose import Pair, Proposal, Undecided
from wgcc.importing.transforms import Shape, Transform, read_transform
from wgcc.spelling import did_you_mean

UNKNOWN = "?"
# How many names are listed after an assumption.
_LISTED = 3
_FOUND = {SHAPE: "; by its shape", ORDER: "; by order"}


def map_text(proposal: Proposal, targets: Mapping[str, Shape], sources: Mapping[str, Shape]) -> str:
    """The proposal as a map that users can read, edit and pass to --map."""
    rows = {pair.target: _pair_row(pair, targets, sources) for pair in proposal.pairs}
    rows |= {item.target: _undecided_row(item, targets) for item in proposal.undecided}
    lines = _align([rows[name] for name in targets if name in rows])
    lines += [
        f"{name}  # {shape_text(targets[name])} keeps its initial values" for name in proposal.kept
    ]
    for name, hint in proposal.missing.items():
        lines.append(
            f"# not found: {name} {shape_text(targets[name])}" + (f"; {hint}" if hint else "")
        )
    lines += [f"# not used: {name} {shape_text(sources[name])}" for name in proposal.unused]
    if idle := proposal.idle:
        rule = f"`{idle[0]} <- {idle[0]}`"
        lines.append(
            f"# not filled: {listing(idle)}, state that the file has, too (to fill: {rule})"
        )
    return "\n".join(lines + assumptions(proposal))


def read_map(
    text: str, file: str, targets: Iterable[str], sources: Iterable[str]
) -> dict[str, tuple[str, Transform] | None]:
    """Maps each parameter that the text names to its tensor and how to change it, or to None."""
    known, there = list(targets), list(sources)
    rules: dict[str, tuple[str, Transform] | None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line, where = line.partition("#")[0].strip(), f"{file}:{number}"
        if not line:
            continue
        left, arrow, right = (part.strip() for part in line.partition("<-"))
        source, _, changes = (part.strip() for part in right.partition(","))
        if arrow and not source:
            raise WgError(f"{where}: there is no tensor after `<-`")
        for target, parts in _matching(left, known, where):
            if UNKNOWN in (source, changes):
                rules.pop(target, None)
            elif not arrow:
                rules[target] = None
            else:
                name = _fill(source, parts, where)
                if name not in there:
                    raise WgError(f"{where}: the file has no tensor {name}{near(name, there)}")
                rules[target] = name, read_transform(changes, where)
    return rules


def _pair_row(
    pair: Pair, targets: Mapping[str, Shape], sources: Mapping[str, Shape]
) -> tuple[str, str, str]:
    shapes = f"{shape_text(sources[pair.source])} -> {shape_text(targets[pair.target])}"
    return pair.target, right_side(pair.source, pair.transform), shapes + _FOUND.get(pair.found, "")


def _undecided_row(item: Undecided, targets: Mapping[str, Shape]) -> tuple[str, str, str]:
    """`w <- ?`, or `w <- TENSOR, ?` if only the layout is undecided."""
    names = list(dict.fromkeys(source for source, _ in item.choices))
    only_layout = len(names) == 1 and len(item.choices) > 1
    shown = [
        (way.text() or "as it is") if only_layout else right_side(source, way)
        for source, way in item.choices
    ]
    right = f"{names[0]}, {UNKNOWN}" if only_layout else UNKNOWN
    return (
        item.target,
        right,
        f"{shape_text(targets[item.target])}: {' | '.join(shown)}; {item.reason}",
    )


def right_side(source: str, transform: Transform) -> str:
    changes = transform.text()
    return f"{source}, {changes}" if changes else source


def assumptions(proposal: Proposal) -> list[str]:
    by_text: dict[str, list[str]] = {}
    for pair in proposal.pairs:
        if pair.assumed:
            by_text.setdefault(pair.assumed, []).append(pair.target)
    return [f"# assumed: {listing(names)}: {text}" for text, names in by_text.items()]


def listing(names: list[str]) -> str:
    """The first few of many names."""
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _matching(pattern: str, names: list[str], where: str) -> list[tuple[str, list[str]]]:
    """Every parameter that matches a pattern, with what each `*` stands for."""
    regex = re.compile(re.escape(pattern).replace(r"\*", "([^.]+)"))
    matches = [(name, list(m.groups())) for name in names if (m := regex.fullmatch(name))]
    if not matches:
        raise WgError(f"{where}: the model has no parameter {pattern}{near(pattern, names)}")
    return matches


def _fill(pattern: str, parts: list[str], where: str) -> str:
    if pattern.count("*") > len(parts):
        raise WgError(f"{where}: more `*` on the right than on the left")
    for part in parts:
        pattern = pattern.replace("*", part, 1)
    return pattern


def near(name: str, names: Iterable[str]) -> str:
    """A name that may have been meant."""
    near = did_you_mean(name, names)
    return f"; did you mean {near[0]}?" if near else ""


def shape_text(shape: Shape) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def _align(rows: list[tuple[str, str, str]]) -> list[str]:
    left = max((len(row[0]) for row in rows), default=0)
    right = max((len(row[1]) for row in rows), default=0)
    return [f"{a.ljust(left)} <- {b.ljust(right)}  # {c}" for a, b, c in rows]
