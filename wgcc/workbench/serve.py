"""Serves a site on the loopback of this machine."""

from __future__ import annotations

import functools
import http.server
from pathlib import Path
from typing import Any

# Browsers compile modules of other types only slowly, or not at all.
_TYPES = {".mjs": "text/javascript", ".js": "text/javascript", ".wasm": "application/wasm"}


class _Handler(http.server.SimpleHTTPRequestHandler):
    def guess_type(self, path: Any) -> str:
        return _TYPES.get(Path(path).suffix) or super().guess_type(path)

    def end_headers(self) -> None:
        # Twins with several threads need both.
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: requests are of no interest."""


def make_server(folder: Path, port: int = 0) -> http.server.ThreadingHTTPServer:
    """A server that answers this machine only. Port 0 is any free one."""
    handler = functools.partial(_Handler, directory=str(folder))
    return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
