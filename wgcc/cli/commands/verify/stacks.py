"""Runs a JavaScript job on a bundle in Node, Deno or a browser, and returns its result from JSON.

A job is a module whose default export takes what the bundle exports, and arguments.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from wgcc.errors import WgError
from wgcc.files import data_dir

PROGRAMS = {
    "node": ("node",),
    "deno": ("deno",),
    "chrome": ("chromium", "chromium-browser", "google-chrome", "chrome"),
    "firefox": ("firefox", "firefox-esr"),
}
# A job includes compiling all kernels on a software adapter of a busy machine.
SECONDS = 300
# Dawn clears workgroup memory by a loop instead of by the driver: SwiftShader would write a store
# for each word, and take over a second to compile a matrix product.
DAWN_FLAG = "--disable-dawn-features=use_vulkan_zero_initialize_workgroup_memory_extension"
CHROME_FLAGS = (
    "--headless=new", "--enable-unsafe-webgpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--mute-audio", DAWN_FLAG,
)  # fmt: skip
SOFTWARE = "--use-webgpu-adapter=swiftshader"
# Turns off what Firefox does at its first start: showing its own pages, contacting servers.
FIREFOX_SETTINGS = """user_pref("browser.aboutwelcome.enabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("app.normandy.enabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("extensions.update.enabled", false);
"""
TYPES = {".js": "text/javascript", ".html": "text/html", ".json": "application/json"}


class StackError(WgError):
    """The stack is missing or the job failed; the text says what to do. `code` is the runtime's."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


def run_on(
    stack: str, bundle: Path, job: Path, arguments: Mapping[str, Any], folders: Sequence[Path] = ()
) -> Any:
    """Returns what the job returned; Node also looks in `folders` for the npm package webgpu."""
    if not (bundle / "index.js").is_file():
        raise StackError(f"{stack}: {bundle} has no index.js; build it again with this wgcc")
    program = _program(stack)
    if stack == "chrome":
        return _in_chrome(program, bundle, job, arguments)
    if stack == "firefox":
        return _visit(stack, _firefox(program), bundle, job, arguments)
    scripts = data_dir("runtime_js") / "stacks"
    if stack == "node":
        places = [*folders, Path.cwd(), bundle]
        command = [program, str(scripts / "node.mjs"), str(bundle), str(job), *map(str, places)]
    else:
        command = [program, "run", "--allow-all", "--quiet", str(scripts / "deno.mjs")]
        command += [str(bundle), str(job)]
    try:
        done = subprocess.run(
            command, input=json.dumps(arguments), capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        raise StackError(f"{stack}: no answer within {SECONDS} s") from None
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise StackError(f"{stack}: {last[0] if last else 'it ended without an answer'}") from None
    return _result(stack, answer)


def _program(stack: str) -> str:
    for name in PROGRAMS[stack]:
        path = shutil.which(name)
        if path:
            return path
    raise StackError(f"{stack}: not found on this machine; install {PROGRAMS[stack][0]}")


def _result(stack: str, answer: Mapping[str, Any]) -> Any:
    if "result" not in answer:
        raise StackError(f"{stack}: {answer.get('message')}", answer.get("code") or "")
    return answer["result"]


def _in_chrome(program: str, bundle: Path, job: Path, arguments: Mapping[str, Any]) -> Any:
    """Tries the machine's GPU first, then software rendering."""
    try:
        return _visit("chrome", _chrome(program), bundle, job, arguments)
    except StackError as error:
        if error.code not in ("no-adapter", "no-webgpu"):
            raise
    return _visit("chrome", _chrome(program, SOFTWARE), bundle, job, arguments)


# The command that opens an address in a browser, with a folder for what it remembers.
Opening = Callable[[str, str], list[str]]


def _chrome(program: str, *flags: str) -> Opening:
    # Chromium refuses its sandbox to root.
    root = ("--no-sandbox",) if hasattr(os, "geteuid") and os.geteuid() == 0 else ()
    options = (program, *CHROME_FLAGS, *root, *flags)
    return lambda url, profile: [*options, f"--user-data-dir={profile}", url]


def _firefox(program: str) -> Opening:
    def opening(url: str, profile: str) -> list[str]:
        (Path(profile) / "user.js").write_text(FIREFOX_SETTINGS, encoding="utf-8")
        return [program, "--headless", "--no-remote", "--profile", profile, url]

    return opening


def _visit(
    stack: str, opening: Opening, bundle: Path, job: Path, arguments: Mapping[str, Any]
) -> Any:
    answers: list[Any] = []
    arrived = threading.Event()
    served = partial(_Handler, bundle, job, json.dumps(arguments).encode(), answers, arrived)
    server = ThreadingHTTPServer(("127.0.0.1", 0), served)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        url = f"http://127.0.0.1:{server.server_port}/"
        command = opening(url, profile)
        quiet = subprocess.DEVNULL
        browser = subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True)
        try:
            arrived.wait(SECONDS)
        finally:
            _end(browser)
            server.shutdown()
            server.server_close()
    if not answers:
        raise StackError(f"{stack}: no answer within {SECONDS} s")
    return _result(stack, answers[0])


def _end(browser: subprocess.Popen[bytes]) -> None:
    """The browser and the processes it started."""
    if hasattr(os, "killpg"):
        import signal

        with contextlib.suppress(ProcessLookupError):
            os.killpg(browser.pid, signal.SIGKILL)
    else:
        browser.kill()
    browser.wait()


class _Handler(BaseHTTPRequestHandler):
    """Serves the page, the job and the bundle, and takes the result."""

    def __init__(
        self,
        bundle: Path,
        job: Path,
        arguments: bytes,
        answers: list[Any],
        arrived: threading.Event,
        *rest: Any,
    ) -> None:
        self._bundle, self._job, self._arguments = bundle, job, arguments
        self._answers, self._arrived = answers, arrived
        super().__init__(*rest)

    def do_GET(self) -> None:
        name = self.path.partition("?")[0]
        inside = (self._bundle / name.removeprefix("/bundle/")).resolve()
        if name == "/":
            self._send((data_dir("runtime_js") / "stacks" / "chrome.html").read_bytes(), ".html")
        elif name == "/job.js":
            self._send(self._job.read_bytes(), ".js")
        elif name == "/arguments.json":
            self._send(self._arguments, ".json")
        elif inside.is_file() and inside.is_relative_to(self._bundle.resolve()):
            self._send(inside.read_bytes(), inside.suffix)
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        self._answers.append(json.loads(self.rfile.read(length)))
        self._send(b"", ".html")
        self._arrived.set()

    def _send(self, data: bytes, suffix: str) -> None:
        self.send_response(200)
        self.send_header("content-type", TYPES.get(suffix, "application/octet-stream"))
        self.send_header("content-length", str(len(data)))
        # Only such pages may run several threads.
        self.send_header("cross-origin-opener-policy", "same-origin")
        self.send_header("cross-origin-embedder-policy", "require-corp")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Prints nothing: users need not see the requests."""
