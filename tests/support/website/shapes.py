"""Shapes of every function and layer: what the compiler infers for the calls of `calls.wg`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wgcc.errors import Source
from wgcc.language_service.analysis import Analysis, analyse
from wgcc.language_service.inlay_hints import bound_types
from wgcc.language_service.reference import Entry, reference
from wgcc.syntax import ast

CALLS = Path(__file__).parent / "calls.wg"
# They take and give lists, layers, files and functions, which have no shape.
WITHOUT_SHAPES = {"append", "grad_error", "params", "reversed", "wgsl"}
_ELEMENTWISE = re.compile(r"\w+\(x(, \w+=[^,)]*)*\)")
_REDUCTION = re.compile(r"\w+\(x, (p=2, )?axis=none, keep=false.*\)")


@dataclass(frozen=True, slots=True)
class Call:
    """`code` is the call alone; `given` and `results` are names with their types."""

    code: str
    given: list[tuple[str, str]]
    results: list[tuple[str, str]]


@cache
def calls() -> dict[str, Call]:
    text = CALLS.read_text(encoding="utf-8")
    written = set(re.findall(r'^test "(\w+)"', text, re.MULTILINE))
    rest = (e for e in reference().values() if e.name not in written | WITHOUT_SHAPES)
    analysis = analyse(Source(str(CALLS), text + "".join(map(_usual, rest))))
    errors = [item for item in analysis.diagnostics if item.severity == "error"]
    assert not errors, f"{CALLS}: {errors[0].message}, line {errors[0].span.line}"
    types = {node.span.start: (node.text, type_) for node, type_ in bound_types(analysis)}
    tests = (item for item in analysis.tree.items if isinstance(item, ast.Test))
    return {test.name.value: _call(analysis, test, types) for test in tests}


def _usual(entry: Entry) -> str:
    """The call of a function that has no line of its own, as a test."""
    if _REDUCTION.fullmatch(entry.signature):
        call = f"{entry.name}(x, axis = D)"
    elif _ELEMENTWISE.fullmatch(entry.signature):
        call = f"{entry.name}(x)"
    else:
        return ""  # a test names it
    return f'test "{entry.name}" {{ x = zeros(f32[N, D]); y = {call} }}\n'


def _call(analysis: Analysis, test: ast.Test, types: dict[int, tuple[str, str]]) -> Call:
    """The last statement of a test, which is the call; those before it bind what it is given."""
    *before, last = (s for s in test.body.statements if isinstance(s, ast.Bind))
    value = last.values[0].span
    code = analysis.source.text[value.start : value.end]
    made = [_layer(analysis, bind) for bind in before]
    code = "; ".join([*filter(None, made), code])
    given = [item for bind in before for item in _names(bind, types)]
    return Call(code, given, list(_names(last, types)))


def _names(bind: ast.Bind, types: dict[int, tuple[str, str]]) -> Iterator[tuple[str, str]]:
    return (types[t.span.start] for t in bind.targets if t.span.start in types)


def _layer(analysis: Analysis, bind: ast.Bind) -> str:
    """`f = Linear[I, O]()`, which belongs to the call; "" for an input."""
    text = analysis.source.text[bind.span.start : bind.span.end]
    return text if text.startswith("f = ") else ""
