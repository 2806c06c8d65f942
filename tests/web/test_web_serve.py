"""`wgcc serve`: pages of this machine follow the model while it is edited."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adapters import ROOT
from cli_runs import MODEL, run
from web_stacks import build_web, run_node
from wgcc.cli.commands.serve.server import Builds, Server, file_inside, with_script


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The URL of a running `wgcc serve`, which is stopped by Ctrl-C in the end."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime_py")])
    process = subprocess.Popen(
        [sys.executable, "-m", "wgcc", "serve", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        match = re.search(r"http://localhost:\d+/", line)
        assert match, line + process.stderr.read()
        yield match[0], process
    finally:
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=120)
    assert process.returncode == 0 and "stopped" in rest and "Traceback" not in rest


def test_a_page_follows_the_model(tmp_path: Path) -> None:
    texts = {
        "right": MODEL,
        "wrong": MODEL.replace("Linear[H, 1]", "Linear[7, 1]"),
        "changed": MODEL.replace("model Net", "model Other"),
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_text(text)
    file = tmp_path / "model" / "net.wg"
    file.parent.mkdir()
    file.write_text(MODEL)
    with serving(str(file), "--port", "0", "--set", "B=8") as (url, _):
        files = [str(tmp_path / f"{name}.txt") for name in texts]
        seen = run_node("served_live.mjs", url, str(file), *files)
    assert seen["title"] == "Net" and seen["isIsolated"] and seen["problems"] == []
    assert "net.wg:10" in seen["problem"] and "error[" in seen["problem"]
    assert seen["stays"] and seen["changed"] == "Other"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("served") / "bundle"
    folder.mkdir()
    (folder / "index.html").write_text("<body>page</body>")
    (folder / "plan.json").write_text("{}")
    (folder.parent / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(folder.parent / "secret.txt")
    os.mkfifo(folder / "pipe")
    server = Server(folder, Builds(), 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.builds.close()
    server.shutdown()
    server.server_close()
    thread.join()


def ask(
    server: Server, path: str, method: str = "GET", host: str | None = None
) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"localhost:{server.server_port}")
    connection.endheaders()
    answer = connection.getresponse()
    headers = dict(answer.getheaders())
    data = answer.read() if headers["Content-Type"] != "text/event-stream" else answer.readline()
    connection.close()
    return answer.status, data, headers


def test_pages_get_a_script_and_may_use_threads(server: Server) -> None:
    status, page, headers = ask(server, "/")
    assert status == 200 and page.startswith(b"<body>page<script") and b"reload.js" in page
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Cross-Origin-Embedder-Policy"] == "require-corp"
    assert headers["Cache-Control"] == "no-store"
    status, script, headers = ask(server, "/.wgcc/reload.js")
    assert b"EventSource" in script and headers["Content-Type"].startswith("text/javascript")
    assert ask(server, "/plan.json?x=1", "HEAD")[:2] == (200, b"")
    assert ask(server, "/.wgcc/events", "HEAD")[0] == 200
    assert with_script(b"no body").endswith(b"</script>")


@pytest.mark.parametrize(
    "path",
    ["/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "//secret.txt", "/link.txt",
     "/%00", "/pipe", "/x" * 3000, "/..", "/%5c..%5csecret.txt", "/missing"],
    ids=lambda path: path[:12],
)  # fmt: skip
def test_nothing_outside_the_bundle_is_served(server: Server, path: str) -> None:
    status, data, _ = ask(server, path)
    assert status == 404 and b"secret" not in data
    assert file_inside(server.folder, str(server.folder.parent / "secret.txt")) is None


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost", "", "127.0.0.1:1"]
)
def test_other_names_of_this_machine_are_refused(server: Server, host: str) -> None:
    """A site whose name points to this machine cannot read what is served."""
    assert ask(server, "/plan.json", host=host or " ")[0] == 403
    assert ask(server, "/plan.json", "POST")[0] == 501


def test_news_tell_builds_and_problems() -> None:
    builds = Builds()
    news = builds.news()
    first = json.loads(next(news))
    builds.fail("wrong")
    assert json.loads(next(news)) == {"build": first["build"], "problem": "wrong"}
    builds.finish()
    assert json.loads(next(news)) == {"build": first["build"] + 1, "problem": ""}
    builds.close()
    assert list(news) == []


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    code, _, error = run(capsys, "serve", str(tmp_path / "empty"))
    assert code == 1 and "not a bundle" in error
    bundle = build_web(ROOT / "examples" / "sin" / "model.wg", tmp_path / "sin")
    code, _, error = run(capsys, "serve", str(bundle), "--set", "B=3")
    assert code == 1 and "need the model file" in error
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, _, error = run(capsys, "serve", str(bundle), "--port", port)
    assert code == 1 and f"port {port} cannot be used" in error


def test_a_bundle_is_served_and_followed(tmp_path: Path) -> None:
    bundle = build_web(ROOT / "examples" / "sin" / "model.wg", tmp_path / "sin")
    with serving(str(bundle), "--port", "0") as (url, _):
        port = int(url.rstrip("/").rpartition(":")[2])
        connection = http.client.HTTPConnection("localhost", port, timeout=120)
        connection.request("GET", "/.wgcc/events")
        events = connection.getresponse()
        builds = set()
        while len(builds) < 2:
            line = events.readline()
            if line.startswith(b"data: "):
                builds.add(json.loads(line[6:])["build"])
                os.utime(bundle / "index.html")
        connection.close()
