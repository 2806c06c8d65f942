"""Warns of names: locals that nothing reads, and functions that hide built-in ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from wgcc.elaborate.builtins import BUILTINS
from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.values import LoadedFile
from wgcc.errors import Span
from wgcc.syntax import ast
from wgcc.syntax.walk import walk


def warn_of_names(context: Context, file: LoadedFile) -> None:
    """For a file of the user without errors."""
    for piece in walk(file.tree):
        if isinstance(piece, ast.Function):
            _report_hidden(context, piece)
            _report_locals(context, piece)
        elif isinstance(piece, ast.Test):
            _report_locals(context, piece)


def _report_hidden(context: Context, function: ast.Function) -> None:
    name = function.name
    if name.text in BUILTINS and not function.is_entry:
        text = f"this function hides the built-in function `{name.text}`"
        found = context.report.warning("WG0909", text, name)
        found.help("give it another name, or remove it to use the built-in one")


def _report_locals(context: Context, owner: ast.Function | ast.Test) -> None:
    reads = _read_names(owner)
    for block in (piece for piece in walk(owner) if isinstance(piece, ast.Block)):
        for statement, replaced in _bindings(block):
            names = list(_targets(statement.targets))
            unused = all(name.text not in reads or name.text in replaced for name in names)
            if unused and not _is_private(names):
                _report_unused(context, statement, names)


def _bindings(block: ast.Block) -> Iterator[tuple[ast.Bind, frozenset[str]]]:
    """The bindings of a block, each with those of its names that a later one replaces unread."""
    replaced: set[str] = set()
    for statement in reversed(block.statements):
        if isinstance(statement, ast.Bind):
            names = {target.text for target in _targets(statement.targets)}
            yield statement, frozenset(names & replaced)
            replaced |= names
        else:
            replaced -= _bound_inside(statement)
        replaced -= _read_names(statement)


def _bound_inside(statement: ast.Statement) -> set[str]:
    """Names that a loop or a condition may bind."""
    pieces = (piece for piece in walk(statement) if isinstance(piece, ast.Bind))
    return {target.text for piece in pieces for target in _targets(piece.targets)}


def _is_private(names: Sequence[ast.Name]) -> bool:
    return not names or any(name.text.startswith("_") for name in names)


def _report_unused(context: Context, statement: ast.Bind, names: Sequence[ast.Name]) -> None:
    words = ", ".join(f"`{name.text}`" for name in names)
    at = Span(names[0].span.source, names[0].span.start, names[-1].span.end)
    found = context.report.warning("WG0906", f"nothing uses {words}", at)
    if _has_effects(statement):
        edits = [(name.span, "_") for name in names]
        found.help("remove it, or call it `_` if its calls have effects", *edits)
    else:
        found.help("remove it", (_whole_line(statement.span), ""))


def _has_effects(statement: ast.Bind) -> bool:
    """Whether it may write state: built-in functions do not."""
    calls = (piece for value in statement.values for piece in walk(value))
    return any(_is_own_call(piece) for piece in calls)


def _is_own_call(piece: ast.Syntax) -> bool:
    """`scan` calls a function of the user."""
    if isinstance(piece, ast.Call):
        function = piece.function
    elif isinstance(piece, ast.Pipe):
        function = piece.target
    else:
        return False
    if isinstance(function, ast.Call):
        return False
    name = function.text if isinstance(function, ast.Name) else ""
    return not isinstance(function, ast.Dtype) and (name not in BUILTINS or name == "scan")


def _whole_line(span: Span) -> Span:
    """The statement with its line break, if the line holds nothing else."""
    text = span.source.text
    start, end = text.rfind("\n", 0, span.start) + 1, text.find("\n", span.end)
    if end < 0 or text[start : span.start].strip() or text[span.end : end].strip():
        return span
    return Span(span.source, start, end + 1)


def _read_names(piece: ast.Syntax) -> set[str]:
    """Names that it reads; words in strings count, because patterns name sizes."""
    pieces = list(walk(piece))
    bound = {
        id(target)
        for statement in pieces
        if isinstance(statement, ast.Bind)
        for target in _targets(statement.targets)
    }
    names = {each.text for each in pieces if isinstance(each, ast.Name) and id(each) not in bound}
    texts = (each.value for each in pieces if isinstance(each, ast.String))
    return names.union(*(re.findall(r"\w+", text) for text in texts))


def _targets(targets: Sequence[ast.Expr]) -> Iterator[ast.Name]:
    for target in targets:
        if isinstance(target, ast.Name):
            yield target
        elif isinstance(target, ast.TupleExpr):
            yield from _targets(target.items)
