"""A notebook of marimo: its server runs it, Chromium shows the widget and presses its buttons."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters import ROOT
from web_stacks import run_node

NOTEBOOK = Path(__file__).parent / "live_page.py"
# A machine that is five times slower starts the server in 30 seconds.
START_SECONDS = 120


@pytest.fixture
def address() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "marimo", "run", str(NOTEBOOK), "--headless", "--no-token"]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "runtime_py")])
    server = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": paths},
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(url, server)
        yield url
    finally:
        server.terminate()
        server.wait()


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        assert server.poll() is None, "marimo ended"
        try:
            urllib.request.urlopen(f"{url}/health").close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError("marimo does not answer")


def test_the_widget_is_drawn_and_its_controls_work(address: str) -> None:
    seen = run_node("notebook.mjs", address)
    assert seen["problems"] == []
    assert seen["finished"].startswith("finished   30 / 30   loss ")
    assert seen["second"] == seen["first"] + 1
    assert seen["rate"] == "0.002" and seen["isDisabled"]
    assert seen["points"] >= 2 and seen["captures"] == 1
