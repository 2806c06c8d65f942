"""The documents that an editor has open, each checked once for each of its versions."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from wgcc.cli.commands.lsp.positions import PositionCodec
from wgcc.errors import Source
from wgcc.language_service.analysis import Analysis, analyse

# A folder with more programs than this is no project.
MOST_SIBLINGS = 500


@dataclass(frozen=True, slots=True)
class Document:
    uri: str
    analysis: Analysis
    positions: PositionCodec


class Documents:
    def __init__(self, server: LanguageServer) -> None:
        self._server = server
        self._checked: dict[str, tuple[str, Document]] = {}

    @property
    def units(self) -> str:
        encoding = self._server.workspace.position_encoding
        return str(getattr(encoding, "value", encoding) or "utf-16")

    def source(self, uri: str) -> Source:
        """The text as the editor has it; what it imports is read from files."""
        path = to_fs_path(uri) or uri
        try:
            text = self._server.workspace.get_text_document(uri).source
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise JsonRpcInvalidParams(f"cannot read {path}: {reason}") from None
        return Source(path, text, path)

    def siblings(self, uri: str) -> list[Source]:
        """The other programs in and below the folder of a document, as the editor has them."""
        path = Path(to_fs_path(uri) or uri)
        files = (file for file in sorted(path.parent.rglob("*.wg")) if file != path)
        return [self.source(file.as_uri()) for file in itertools.islice(files, MOST_SIBLINGS)]

    def get(self, uri: str) -> Document:
        source = self.source(uri)
        text, document = self._checked.get(uri, ("", None))
        if document is None or text != source.text:
            document = Document(uri, analyse(source), PositionCodec(source, self.units))
            self._checked[uri] = source.text, document
        return document

    def check_again(self) -> None:
        """A file was saved, which others may import."""
        self._checked.clear()

    def close(self, uri: str) -> None:
        self._checked.pop(uri, None)
