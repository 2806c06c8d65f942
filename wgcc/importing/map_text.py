"""The text of a map from tensors of a file to parameters: one `PARAMETER <- TENSOR, turned` a line.

`*` stands for the same part of a name on both sides; `#` begins a comment; a parameter without
`<- …` keeps its own first values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from wgcc.errors import WgError
from wgcc.importing.propose import Pair, Proposal
from wgcc.importing.transforms import Shape, Transform, read_transform
from wgcc.spelling import did_you_mean


def map_text(proposal: Proposal, targets: Mapping[str, Shape], sources: Mapping[str, Shape]) -> str:
    """What was proposed, to be read, changed and given back."""
    rows = []
    for pair in proposal.pairs:
        turned = pair.transform.text()
        right = f"{pair.source}, {turned}" if turned else pair.source
        shapes = f"{_shape(sources[pair.source])} -> {_shape(targets[pair.target])}"
        doubt = f"; or {' or '.join(pair.others)}?" if pair.others else ""
        rows.append((pair.target, right, f"# {shapes}{doubt}"))
    lines = _aligned(rows)
    lines += [f"# not found: {name} {_shape(targets[name])}" for name in proposal.missing]
    lines += [f"# not used: {name} {_shape(sources[name])}" for name in proposal.unused]
    return "\n".join(lines)


def read_map(
    text: str, file: str, targets: Iterable[str], sources: Iterable[str]
) -> dict[str, tuple[str, Transform] | None]:
    """For every parameter that the text names: its tensor and how to turn it, or None."""
    known, there = list(targets), list(sources)
    found: dict[str, tuple[str, Transform] | None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line, where = line.partition("#")[0].strip(), f"{file}:{number}"
        if not line:
            continue
        left, arrow, right = (part.strip() for part in line.partition("<-"))
        source, _, turned = (part.strip() for part in right.partition(","))
        if arrow and not source:
            raise WgError(f"{where}: there is no tensor after `<-`")
        transform = read_transform(turned, where)
        for target, parts in _matching(left, known, where):
            name = _filled(source, parts, where) if arrow else ""
            if arrow and name not in there:
                raise WgError(f"{where}: the file has no tensor {name}{_near(name, there)}")
            found[target] = (name, transform) if arrow else None
    return found


def corrected(proposal: Proposal, said: Mapping[str, tuple[str, Transform] | None]) -> list[Pair]:
    """The pairs proposed for what is not said, and those that are said."""
    kept = [pair for pair in proposal.pairs if pair.target not in said]
    return kept + [Pair(target, *value) for target, value in said.items() if value is not None]


def _matching(pattern: str, names: list[str], where: str) -> list[tuple[str, list[str]]]:
    """Every parameter that a pattern names, with what each `*` stands for."""
    regex = re.compile(re.escape(pattern).replace(r"\*", "([^.]+)"))
    found = [(name, list(m.groups())) for name in names if (m := regex.fullmatch(name))]
    if not found:
        raise WgError(f"{where}: the model has no parameter {pattern}{_near(pattern, names)}")
    return found


def _filled(pattern: str, parts: list[str], where: str) -> str:
    if pattern.count("*") > len(parts):
        raise WgError(f"{where}: more `*` on the right than on the left")
    for part in parts:
        pattern = pattern.replace("*", part, 1)
    return pattern


def _near(name: str, names: Iterable[str]) -> str:
    near = did_you_mean(name, names)
    return f"; did you mean {near[0]}?" if near else ""


def _shape(shape: Shape) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def _aligned(rows: list[tuple[str, str, str]]) -> list[str]:
    left = max((len(row[0]) for row in rows), default=0)
    right = max((len(row[1]) for row in rows), default=0)
    return [f"{a.ljust(left)} <- {b.ljust(right)}  {c}".rstrip() for a, b, c in rows]
