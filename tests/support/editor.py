"""An editor that talks to `wgcc lsp` over its stdin and stdout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from adapters import ROOT

# Far beyond what any answer takes; the server is ended then, and reading fails.
LONGEST_WAIT = 300.0


class Editor:
    def __init__(self, capabilities: dict[str, Any] | None = None) -> None:
        paths = os.pathsep.join((str(ROOT), str(ROOT / "runtime_py")))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "wgcc", "lsp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths},
        )
        self._timer = threading.Timer(LONGEST_WAIT, self.process.kill)
        self._timer.start()
        self._last = 0
        self._versions: dict[str, int] = {}
        self.notifications: list[dict[str, Any]] = []
        self.initialized = self.request(
            "initialize",
            {"processId": None, "rootUri": None, "capabilities": capabilities or {}},
        )["result"]
        self.notify("initialized", {})

    def close(self) -> int:
        self.request("shutdown", None)
        self.notify("exit", None)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait()
        self.process.stdout.close()
        self._timer.cancel()
        return code

    def open(self, path: Path, text: str | None = None) -> str:
        uri = path.as_uri()
        content = path.read_text() if text is None else text
        document = {"uri": uri, "languageId": "wg", "version": 1, "text": content}
        self.notify("textDocument/didOpen", {"textDocument": document})
        self._versions[uri] = 1
        return uri

    def change(self, uri: str, text: str) -> None:
        self._versions[uri] += 1
        document = {"uri": uri, "version": self._versions[uri]}
        changes = [{"text": text}]
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": changes})

    def ask(self, method: str, uri: str, **params: Any) -> Any:
        """The result of a request about a document."""
        answer = self.request(f"textDocument/{method}", {"textDocument": {"uri": uri}, **params})
        assert "error" not in answer, answer
        return answer["result"]

    def request(self, method: str, params: Any) -> dict[str, Any]:
        self._last += 1
        self._send({"id": self._last, "method": method, "params": params})
        while True:
            message = self._read()
            if message.get("id") == self._last and "method" not in message:
                return message
            self.notifications.append(message)

    def notify(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def wait_for(self, method: str) -> Any:
        """The parameters of the next notification of this kind."""
        while True:
            for index, message in enumerate(self.notifications):
                if message.get("method") == method:
                    return self.notifications.pop(index)["params"]
            self.notifications.append(self._read())

    def send_raw(self, body: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def _send(self, message: dict[str, Any]) -> None:
        self.send_raw(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def _read(self) -> dict[str, Any]:
        stream = self.process.stdout
        assert stream is not None
        length = 0
        while (line := stream.readline()) != b"\r\n":
            assert line, "the server ended"
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        message: dict[str, Any] = json.loads(stream.read(length))
        return message
