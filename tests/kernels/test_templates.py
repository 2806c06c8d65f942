"""Templates are WGSL with holes: Jinja fills names and repeats lines, and computes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import Environment, nodes

TEMPLATES = Path(__file__).parents[2] / "wgcc" / "schedule" / "kernels" / "templates"
# A hole is a name or a field of a record; a flag is a hole or its opposite.
HOLES = (nodes.Name, nodes.Getattr)
FLAGS = (*HOLES, nodes.Not, nodes.And, nodes.Or)
PLAIN = (nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Include)
COLUMNS = 130


def problems(text: str) -> Iterator[str]:
    """What a template computes, and its lines that are too long to read."""
    environment = Environment(line_statement_prefix="//%", trim_blocks=True)
    for node in environment.parse(text).find_all(nodes.Node):
        if isinstance(node, nodes.For) and not _is_repetition(node.iter):
            yield f"line {node.lineno}: repeats something that is no list"
        if not isinstance(node, (*PLAIN, *FLAGS, nodes.Const)) and not _is_range(node):
            yield f"line {node.lineno}: computes ({type(node).__name__})"
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > COLUMNS:
            yield f"line {number}: has {len(line)} columns"


def _is_repetition(expr: nodes.Expr) -> bool:
    return isinstance(expr, HOLES) or _is_range(expr)


def _is_range(node: nodes.Node) -> bool:
    """`range(COUNT)`, which repeats lines."""
    if not isinstance(node, nodes.Call) or len(node.args) != 1 or node.kwargs:
        return False
    is_range = isinstance(node.node, nodes.Name) and node.node.name == "range"
    return is_range and isinstance(node.args[0], (*HOLES, nodes.Const))


def test_templates_compute_nothing() -> None:
    paths = sorted(TEMPLATES.glob("*.jinja"))
    assert len(paths) > 20
    wrong = {path.name: list(problems(path.read_text())) for path in paths}
    assert not any(wrong.values()), wrong


@pytest.mark.parametrize(
    "text",
    [
        "{% macro plus(n) %}{{ n }}{% endmacro %}",
        "//% if COLS % 4\nlet x = 1u;\n//% endif\n",
        "let x = {{ N + 1 }}u;",
        '//% if "fn put" in functions\nput(x);\n//% endif\n',
        '//% if kind == "f16"\nput(x);\n//% endif\n',
        '{% set name = "x" ~ i %}',
        "{{ tests | join(' && ') }}",
        '{{ "a" if b else "c" }}',
        "//% for i in range(N - 1)\nx{{ i }}();\n//% endfor\n",
        '{{ "f32(%s)" % x }}',
        "x" * 131,
    ],
)
def test_templates_that_compute_are_refused(text: str) -> None:
    assert list(problems(text))
