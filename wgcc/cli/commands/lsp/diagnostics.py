"""Diagnostics of the compiler as those of the protocol, and their corrections as code actions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lsprotocol import types

from wgcc.cli.commands.lsp.documents import Document
from wgcc.errors import Diagnostic, Help
from wgcc.language_service.fixes import Edit, chosen_edits
from wgcc.syntax import ast

SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
}
# Warnings about code that nothing uses, which editors draw pale.
UNUSED = "WG09"


def diagnostics(document: Document) -> list[types.Diagnostic]:
    problems = [_convert(document, item) for item in document.analysis.diagnostics]
    if document.analysis.problem:
        start = document.positions.range(0, 0)
        problems.append(types.Diagnostic(start, document.analysis.problem, source="wgcc"))
    return problems


def code_actions(document: Document, asked: types.Range) -> list[types.CodeAction]:
    """Corrections of the problems in a range, and all corrections of errors at once."""
    actions = [
        types.CodeAction(
            _title(help_),
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[_convert(document, item)],
            edit=workspace_edit(document, list(help_.edits)),
        )
        for item in document.analysis.diagnostics
        if _overlaps(_range(document, item), asked)
        for help_ in item.helps
        if help_.edits and all(_is_own(document, edit) for edit in help_.edits)
    ]
    return [*actions, *_fix_all(document)]


def workspace_edit(document: Document, edits: list[Edit]) -> types.WorkspaceEdit:
    """Edits in the document, and in other files if they have some."""
    changes: dict[str, list[types.TextEdit]] = {}
    for span, text in edits:
        own = span.source is document.analysis.source
        codec = document.positions if own else document.positions.of_other(span.source)
        uri = document.uri if own else Path(span.source.path).absolute().as_uri()
        changes.setdefault(uri, []).append(types.TextEdit(codec.of(span), text))
    return types.WorkspaceEdit(changes)


def _fix_all(document: Document) -> Iterator[types.CodeAction]:
    edits = chosen_edits(document.analysis.diagnostics.errors).get(document.analysis.source)
    if edits:
        yield types.CodeAction(
            "Apply all corrections of errors",
            kind=types.CodeActionKind.SourceFixAll,
            edit=workspace_edit(document, edits),
        )


def _convert(document: Document, item: Diagnostic) -> types.Diagnostic:
    advice = [*item.notes, *(f"help: {help_.text}" for help_ in item.helps if help_.text)]
    where = "" if _is_here(document, item) else f"{item.span.source.path}:{item.span.line}: "
    label = f" ({item.label})" if item.label else ""
    return types.Diagnostic(
        _range(document, item),
        "\n".join([f"{where}{item.message}{label}", *advice]),
        severity=SEVERITIES[item.severity],
        code=item.code,
        source="wgcc",
        tags=[types.DiagnosticTag.Unnecessary] if item.code.startswith(UNUSED) else None,
        related_information=[
            types.DiagnosticRelatedInformation(
                types.Location(
                    _uri(document, span.source.path),
                    document.positions.of_other(span.source).of(span),
                ),
                text,
            )
            for span, text in item.others
        ],
    )


def _range(document: Document, item: Diagnostic) -> types.Range:
    """Its place; for a problem in another file, that of the import."""
    if _is_here(document, item):
        return document.positions.of(item.span)
    for node in document.analysis.tree.items:
        path = node.path if isinstance(node, (ast.ImportNames, ast.ImportModule)) else None
        if path is not None and item.span.source.name.endswith(path.value):
            return document.positions.of(path.span)
    return document.positions.range(0, 0)


def _is_here(document: Document, item: Diagnostic) -> bool:
    return item.span.source is document.analysis.source


def _is_own(document: Document, edit: Edit) -> bool:
    return edit[0].source is document.analysis.source


def _overlaps(a: types.Range, b: types.Range) -> bool:
    return a.start <= b.end and b.start <= a.end


def _title(help_: Help) -> str:
    if help_.text:
        return help_.text.splitlines()[0]
    span, text = help_.edits[0]
    return f"Replace `{span.text}` by `{text.strip()}`" if span.text else f"Insert `{text.strip()}`"


def _uri(document: Document, path: str) -> str:
    own = document.analysis.source.path
    return document.uri if path == own else Path(path).absolute().as_uri()
