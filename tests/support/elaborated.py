"""Small programs for tests, elaborated from text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wgcc.elaborate import check, elaborate
from wgcc.errors import Diagnostics, Source, render_run
from wgcc.ir.graph import Graph, Node
from wgcc.ir.program import Program
from wgcc.ir.verify import verify_program
from wgcc.ops import infer_types
from wgcc.passes.autograd import autograd


def program(text: str, **options: Any) -> Program:
    """The program of a text without errors; its invariants are verified."""
    diagnostics = Diagnostics()
    found = elaborate(Source("test.wg", text), diagnostics, **options)
    assert found is not None, render_run(diagnostics)
    verify_program(found, infer_types)
    return found


def problems(text: str, files: Mapping[str, str] | None = None, **options: Any) -> list[str]:
    """`CODE LINE MESSAGE` of every problem of a text, in the order of its lines."""
    diagnostics = Diagnostics()
    check(Source("test.wg", text, files=files), diagnostics, prepare=autograd, **options)
    items = sorted(diagnostics, key=lambda item: item.span.start)
    return [f"{item.code} {item.span.line} {item.message}" for item in items]


def only(graph: Graph, op: str) -> Node:
    """The one node of this op."""
    (node,) = [node for node in graph.nodes if node.op == op]
    return node
