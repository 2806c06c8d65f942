"""The server of `wgcc serve`: files of a bundle for this machine alone, and news of builds.

A page of another site can make a browser send requests here, under a name of its own that it lets
point to this machine. So requests must name this machine, and no answer is for other origins.
"""

from __future__ import annotations

import json
import mimetypes
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from wgcc.files import data_dir

ADDRESS = "127.0.0.1"
NAMES = (ADDRESS, "localhost", "[::1]")
USUAL_PORT = 80
EVENTS, SCRIPT = "/.wgcc/events", "/.wgcc/reload.js"
# With these headers a page may use threads, and no other site can read what is served.
HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
TYPES = {".js": "text/javascript", ".wasm": "application/wasm", ".wgsl": "text/plain"}
_TAG = f'<script type="module" src="{SCRIPT}"></script>'
_WAITING = f"<!doctype html><meta charset=utf-8><title>wgcc serve</title><body>{_TAG}</body>"
# A page that went away is noticed when something is sent to it.
ALIVE_SECONDS = 5.0


@dataclass
class Builds:
    """The number of the last build that succeeded, and what is wrong with the model now."""

    # Pages of an earlier server reload, too.
    number: int = field(default_factory=lambda: secrets.randbelow(1 << 30))
    problem: str = ""
    is_closed: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def finish(self) -> None:
        with self._changed:
            self.number, self.problem = self.number + 1, ""
            self._changed.notify_all()

    def fail(self, problem: str) -> None:
        with self._changed:
            self.problem = problem
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()

    def news(self) -> Iterator[str]:
        """The state now and after each change; empty texts while nothing changes."""
        last = ""
        while not self.is_closed:
            with self._changed:
                state = json.dumps({"build": self.number, "problem": self.problem})
                if state == last:
                    self._changed.wait(ALIVE_SECONDS)
                    state = json.dumps({"build": self.number, "problem": self.problem})
            yield "" if state == last else state
            last = state


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder: Path, builds: Builds, port: int) -> None:
        self.folder, self.builds = folder, builds
        super().__init__((ADDRESS, port), Handler)

    @property
    def own_names(self) -> list[str]:
        """The names that browsers of this machine call it by; they leave out the usual port."""
        with_port = [f"{name}:{self.server_port}" for name in NAMES]
        return [*with_port, *NAMES] if self.server_port == USUAL_PORT else with_port

    @property
    def url(self) -> str:
        return f"http://{NAMES[1]}:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    server: Server
    # Seconds in which a client must send its request.
    timeout = 30

    def do_GET(self) -> None:
        if (self.headers.get("Host") or "").lower() not in self.server.own_names:
            self._answer(HTTPStatus.FORBIDDEN, b"wgcc serve answers this machine alone", ".txt")
            return
        path = unquote(urlsplit(self.path).path)
        if path == EVENTS:
            self._send_events()
        elif path == SCRIPT:
            script = data_dir("runtime_js") / "live" / "reload.js"
            self._answer(HTTPStatus.OK, script.read_bytes(), ".js")
        else:
            self._send_file(path)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _send_file(self, path: str) -> None:
        file = file_inside(self.server.folder, path)
        data = None
        if file is not None:
            try:
                data = file.read_bytes()
            except OSError:  # replaced at this moment
                data = None
        if data is None and path == "/":
            data, file = _WAITING.encode(), Path("index.html")
        if data is None and path == "/favicon.ico":
            self._answer(HTTPStatus.NO_CONTENT, b"", ".ico")
        elif data is None or file is None:
            self._answer(HTTPStatus.NOT_FOUND, b"there is no such file in the bundle", ".txt")
        else:
            page = with_script(data) if file.suffix == ".html" else data
            self._answer(HTTPStatus.OK, page, file.suffix)

    def _send_events(self) -> None:
        self._begin(HTTPStatus.OK, "text/event-stream")
        news = self.server.builds.news() if self.command == "GET" else ()
        try:
            for state in news:
                self.wfile.write((f"data: {state}\n\n" if state else ": waiting\n\n").encode())
                self.wfile.flush()
        except OSError:
            return  # the page was closed

    def _answer(self, status: HTTPStatus, data: bytes, suffix: str) -> None:
        kind = TYPES.get(suffix) or mimetypes.types_map.get(suffix, "application/octet-stream")
        text = "; charset=utf-8" if kind.startswith("text/") else ""
        self._begin(status, kind + text, len(data))
        if self.command != "HEAD":
            self.wfile.write(data)

    def _begin(self, status: HTTPStatus, kind: str, length: int | None = None) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not printed: they are many, and say nothing about the model."""


def file_inside(folder: Path, path: str) -> Path | None:
    """The regular file that a path names, if it is in the folder; links may not lead out of it."""
    try:
        root = folder.resolve()
        file = (root / (path.lstrip("/") or "index.html")).resolve()
        return file if file.is_relative_to(root) and file.is_file() else None
    except (OSError, ValueError):  # a NUL, a name that is too long
        return None


def with_script(page: bytes) -> bytes:
    before, end, after = page.rpartition(b"</body>")
    return before + _TAG.encode() + end + after if end else page + _TAG.encode()
