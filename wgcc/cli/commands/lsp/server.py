"""The server: each request of the protocol is one function of the language service, and the rest
is conversion. A request that fails is answered by an error; the server goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol

from wgcc import __version__
from wgcc.cli.commands.lsp.diagnostics import code_actions, diagnostics, workspace_edit
from wgcc.cli.commands.lsp.documents import Document, Documents
from wgcc.cli.commands.lsp.kinds import (
    COMPLETION_KINDS,
    LIBRARY_KINDS,
    SYMBOL_KINDS,
    TOKEN_LEGEND,
)
from wgcc.cli.commands.lsp.positions import PositionCodec
from wgcc.errors import Diagnostics, Span
from wgcc.language_service import completion, hover, inlay_hints, outline, rename, signatures
from wgcc.syntax.layout import format_source

# Seconds without typing before a text is checked.
PAUSE = 0.1

# Before the rules that a renamed parameter implies.
MAP = "Weights saved before have other names; rules for `wgcc import WEIGHTS MODEL.wg --map FILE`:"

Request = Callable[["EditorSession", Any], Any]


def make_server() -> LanguageServer:
    server = LanguageServer(
        "wgcc",
        __version__,
        text_document_sync_kind=types.TextDocumentSyncKind.Full,
        protocol_cls=Protocol,
    )
    session = EditorSession(server)
    for method, options, request in REQUESTS:
        register = server.feature(method, options) if options else server.feature(method)
        register(_bind(session, request))
    return server


def _bind(session: EditorSession, request: Request) -> Callable[[Any], Any]:
    def handler(params: Any) -> Any:
        return request(session, params)

    return handler


class Protocol(LanguageServerProtocol):
    """Answers requests that cannot be read, too; pygls only logs them, and editors would wait."""

    def structure_message(self, data: dict[str, Any]) -> Any:
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if "id" in data and "method" in data:
                self._send_response(data["id"], error=error.to_response_error())
            raise


class EditorSession:
    """One editor: its documents, and the checks that wait for a pause in its typing."""

    def __init__(self, server: LanguageServer) -> None:
        self.server = server
        self.documents = Documents(server)
        self._waiting: dict[str, asyncio.TimerHandle] = {}

    def locate(self, params: Any) -> tuple[Document, int]:
        document = self.documents.get(params.text_document.uri)
        return document, document.positions.offset(params.position)

    def check_soon(self, uri: str, pause: float) -> None:
        """Editors that pull diagnostics ask for them themselves."""
        capabilities = self.server.client_capabilities.text_document
        if capabilities is not None and capabilities.diagnostic is not None:
            return
        self.forget(uri)
        loop = asyncio.get_running_loop()
        self._waiting[uri] = loop.call_later(pause, self._publish, uri)

    def show(self, text: str) -> None:
        message = types.ShowMessageParams(types.MessageType.Info, text)
        self.server.window_show_message(message)

    def forget(self, uri: str) -> None:
        if (waiting := self._waiting.pop(uri, None)) is not None:
            waiting.cancel()

    def _publish(self, uri: str) -> None:
        """Diagnostics name the version of the text, so that an editor can tell old ones."""
        version = self.server.workspace.get_text_document(uri).version
        problems = diagnostics(self.documents.get(uri))
        params = types.PublishDiagnosticsParams(uri, problems, version)
        self.server.text_document_publish_diagnostics(params)


def did_open(session: EditorSession, params: types.DidOpenTextDocumentParams) -> None:
    session.check_soon(params.text_document.uri, 0)


def did_change(session: EditorSession, params: types.DidChangeTextDocumentParams) -> None:
    session.check_soon(params.text_document.uri, PAUSE)


def did_save(session: EditorSession, params: types.DidSaveTextDocumentParams) -> None:
    session.documents.check_again()
    for uri in session.server.workspace.text_documents:
        session.check_soon(uri, 0)


def did_close(session: EditorSession, params: types.DidCloseTextDocumentParams) -> None:
    session.forget(params.text_document.uri)
    session.documents.close(params.text_document.uri)


def pull_diagnostics(
    session: EditorSession, params: types.DocumentDiagnosticParams
) -> types.RelatedFullDocumentDiagnosticReport:
    document = session.documents.get(params.text_document.uri)
    return types.RelatedFullDocumentDiagnosticReport(diagnostics(document))


def show_hover(session: EditorSession, params: types.HoverParams) -> types.Hover | None:
    document, offset = session.locate(params)
    explanation = hover.hover(document.analysis, offset)
    if explanation is None:
        return None
    return types.Hover(_markdown(explanation.markdown), document.positions.of(explanation.span))


def show_inlay_hints(
    session: EditorSession, params: types.InlayHintParams
) -> list[types.InlayHint]:
    document = session.documents.get(params.text_document.uri)
    start, end = (document.positions.offset(at) for at in (params.range.start, params.range.end))
    return [
        types.InlayHint(
            document.positions.position(hint.offset),
            hint.text.strip(),
            kind=types.InlayHintKind.Type,
            padding_left=hint.text.startswith(" "),
        )
        for hint in inlay_hints.inlay_hints(document.analysis, start, end)
    ]


def complete(session: EditorSession, params: types.CompletionParams) -> list[types.CompletionItem]:
    document, offset = session.locate(params)
    return [
        types.CompletionItem(
            item.label,
            kind=COMPLETION_KINDS.get(item.kind, types.CompletionItemKind.Text),
            detail=item.detail or None,
            documentation=_markdown(item.markdown) if item.markdown else None,
            sort_text=f"{item.kind in LIBRARY_KINDS:d}{item.label}",
        )
        for item in completion.complete(document.analysis, offset)
    ]


def help_with_signature(
    session: EditorSession, params: types.SignatureHelpParams
) -> types.SignatureHelp | None:
    document, offset = session.locate(params)
    call_help = signatures.signature_help(document.analysis, offset)
    if call_help is None:
        return None
    parameters = [types.ParameterInformation(text) for text in call_help.parameters]
    documentation = _markdown(call_help.documentation) if call_help.documentation else None
    information = types.SignatureInformation(call_help.signature, documentation, parameters)
    return types.SignatureHelp([information], 0, call_help.active)


def go_to_definition(
    session: EditorSession, params: types.DefinitionParams
) -> types.Location | None:
    document, offset = session.locate(params)
    span = rename.definition(document.analysis, offset)
    return _location(session, document, span) if span is not None else None


def find_references(session: EditorSession, params: types.ReferenceParams) -> list[types.Location]:
    document, offset = session.locate(params)
    spans = rename.references(document.analysis, offset)
    return [_location(session, document, span) for span in spans]


def highlight(
    session: EditorSession, params: types.DocumentHighlightParams
) -> list[types.DocumentHighlight]:
    document, offset = session.locate(params)
    spans = rename.references(document.analysis, offset)
    return [types.DocumentHighlight(document.positions.of(span)) for span in spans]


def prepare_rename(session: EditorSession, params: types.PrepareRenameParams) -> types.Range | None:
    document, offset = session.locate(params)
    use = document.analysis.names.used_at(offset)
    return document.positions.of(use[1]) if use is not None else None


def rename_symbol(session: EditorSession, params: types.RenameParams) -> types.WorkspaceEdit:
    document, offset = session.locate(params)
    try:
        others = session.documents.siblings(document.uri)
        edits = rename.rename(document.analysis, offset, params.new_name, others)
    except rename.CannotRename as problem:
        code = types.LSPErrorCodes.RequestFailed.value
        raise JsonRpcException(str(problem), code) from None
    if rules := rename.weights_map(document.analysis, edits):
        session.show(f"{MAP} {'; '.join(rules)}")
    return workspace_edit(document, edits)


def list_symbols(
    session: EditorSession, params: types.DocumentSymbolParams
) -> list[types.DocumentSymbol]:
    document = session.documents.get(params.text_document.uri)
    items = outline.outline(document.analysis)
    return [_symbol(document.positions, item) for item in items]


def list_folds(
    session: EditorSession, params: types.FoldingRangeParams
) -> list[types.FoldingRange]:
    document = session.documents.get(params.text_document.uri)
    return [
        types.FoldingRange(first, last, kind=types.FoldingRangeKind(kind))
        for first, last, kind in outline.folding_ranges(document.analysis)
    ]


def list_tokens(session: EditorSession, params: types.SemanticTokensParams) -> types.SemanticTokens:
    """Each token relative to the one before: lines, columns, length, type, modifiers."""
    document = session.documents.get(params.text_document.uri)
    data: list[int] = []
    line = column = 0
    for start, length, kind in outline.semantic_tokens(document.analysis):
        at = document.positions.position(start)
        begin = at.character - (column if at.line == line else 0)
        token_type = TOKEN_LEGEND.token_types.index(outline.TOKEN_TYPES[kind])
        data += [at.line - line, begin, length, token_type, int(kind in LIBRARY_KINDS)]
        line, column = at.line, at.character
    return types.SemanticTokens(data)


def list_code_actions(
    session: EditorSession, params: types.CodeActionParams
) -> list[types.CodeAction]:
    return code_actions(session.documents.get(params.text_document.uri), params.range)


def format_document(
    session: EditorSession, params: types.DocumentFormattingParams
) -> list[types.TextEdit]:
    source = session.documents.source(params.text_document.uri)
    text = format_source(source, Diagnostics())
    if text is None or text == source.text:
        return []
    return [types.TextEdit(PositionCodec(source, session.documents.units).whole(), text)]


def _markdown(text: str) -> types.MarkupContent:
    return types.MarkupContent(types.MarkupKind.Markdown, text)


def _location(session: EditorSession, document: Document, span: Span) -> types.Location:
    """A place in the document itself, in a file that it imports, or in the library."""
    if span.source.text == document.analysis.source.text:
        return types.Location(document.uri, document.positions.of(span))
    path = rename.path_of(span.source, Path(document.analysis.source.path))
    return types.Location(path.as_uri(), document.positions.of_other(span.source).of(span))


def _symbol(positions: PositionCodec, item: outline.OutlineItem) -> types.DocumentSymbol:
    return types.DocumentSymbol(
        item.name or "test",
        SYMBOL_KINDS.get(item.kind, types.SymbolKind.Variable),
        positions.of(item.span),
        positions.of(item.name_span),
        detail=item.detail or None,
        children=[_symbol(positions, child) for child in item.children],
    )


# Method, options of its registration, function.
REQUESTS: tuple[tuple[str, Any, Request], ...] = (
    (types.TEXT_DOCUMENT_DID_OPEN, None, did_open),
    (types.TEXT_DOCUMENT_DID_CHANGE, None, did_change),
    (types.TEXT_DOCUMENT_DID_SAVE, None, did_save),
    (types.TEXT_DOCUMENT_DID_CLOSE, None, did_close),
    (
        types.TEXT_DOCUMENT_DIAGNOSTIC,
        types.DiagnosticOptions(inter_file_dependencies=True, workspace_diagnostics=False),
        pull_diagnostics,
    ),
    (types.TEXT_DOCUMENT_HOVER, None, show_hover),
    (types.TEXT_DOCUMENT_INLAY_HINT, None, show_inlay_hints),
    (
        types.TEXT_DOCUMENT_COMPLETION,
        types.CompletionOptions(trigger_characters=[".", '"']),
        complete,
    ),
    (
        types.TEXT_DOCUMENT_SIGNATURE_HELP,
        types.SignatureHelpOptions(trigger_characters=["(", "[", ","]),
        help_with_signature,
    ),
    (types.TEXT_DOCUMENT_DEFINITION, None, go_to_definition),
    (types.TEXT_DOCUMENT_REFERENCES, None, find_references),
    (types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT, None, highlight),
    (types.TEXT_DOCUMENT_PREPARE_RENAME, None, prepare_rename),
    (types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True), rename_symbol),
    (types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, None, list_symbols),
    (types.TEXT_DOCUMENT_FOLDING_RANGE, None, list_folds),
    (types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, TOKEN_LEGEND, list_tokens),
    (types.TEXT_DOCUMENT_CODE_ACTION, None, list_code_actions),
    (types.TEXT_DOCUMENT_FORMATTING, None, format_document),
)
