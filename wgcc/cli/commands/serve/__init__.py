"""`wgcc serve`: the page of a model on this machine, built again whenever the model is saved."""

from __future__ import annotations

import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.options import model_options
from wgcc.cli.printing import print_error, say
from wgcc.cli.source_files import changes
from wgcc.errors import WgError

if TYPE_CHECKING:
    from wgcc.cli.commands.serve.server import Builds, Server

# Tried first, so that a page has the same address each time.
PORT = 8100
PAGE = "index.html"


@click.command("serve")
@click.argument("path", metavar="MODEL.wg|BUNDLE", type=click.Path(exists=True, path_type=Path))
@model_options
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"Default: {PORT}, or a free one if that is taken; 0: any free one.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
def command(path: Path, port: int | None, opens: bool, **options: Any) -> None:
    """Serve the page of a model or bundle to browsers of this machine, until Ctrl-C.

    A model is built into a temporary folder, and again whenever a .wg file in its folder is saved;
    pages reload then. What is wrong with it is shown over the page. A bundle's page reloads when
    the bundle is built anew. Pages may use threads, which a file that is opened directly may not.
    """
    from wgcc.cli.commands.serve.server import Builds

    builds = Builds()
    if path.is_dir():
        _check_bundle(path, options)
        with _server(path, builds, port, opens):
            _follow(builds, changes([path], PAGE), lambda: _look(path))
        return
    with tempfile.TemporaryDirectory(prefix="wgcc-serve-") as name:
        folder = Path(name) / "bundle"
        with _server(folder, builds, port, opens):
            _follow(builds, changes([path.parent]), lambda: _build(path, folder, options))


def _check_bundle(path: Path, options: Mapping[str, Any]) -> None:
    if options["sizes"] or options["model"] or options["seed"] is not None:
        raise WgError(f"{path} is a bundle: --set, --model and --seed need the model file instead")
    if not (path / "plan.json").is_file() or not (path / PAGE).is_file():
        raise WgError(f"{path} is not a bundle with a page: it has no plan.json or no {PAGE}")


@contextmanager
def _server(folder: Path, builds: Builds, port: int | None, opens: bool) -> Iterator[None]:
    """Within it, the folder is served; Ctrl-C ends it without an error."""
    server = _listen(folder, builds, port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
    thread.start()
    try:
        say(f"serving {server.url} (Ctrl-C stops)")
        if opens:
            webbrowser.open(server.url)
        yield
    except KeyboardInterrupt:
        say("stopped")
    finally:
        builds.close()
        server.shutdown()
        server.server_close()
        thread.join()


def _listen(folder: Path, builds: Builds, port: int | None) -> Server:
    from wgcc.cli.commands.serve.server import Server

    try:
        return Server(folder, builds, PORT if port is None else port)
    except OSError as error:
        if port is not None:
            raise WgError(f"port {port} cannot be used: {error.strerror}") from None
    return Server(folder, builds, 0)


def _follow(builds: Builds, saves: Iterator[None], build: Callable[[], str]) -> None:
    for _ in saves:
        try:
            told = build()
        except WgError as error:
            print_error(error)
            builds.fail(_problem(error))
            continue
        if told:
            say(told)
            builds.finish()


def _build(path: Path, folder: Path, options: Mapping[str, Any]) -> str:
    from wgcc.bundle.folder import write_files
    from wgcc.compiler import compile_file

    if not path.is_file():
        raise WgError(f"{path} is gone")
    compiled = compile_file(path, **options)
    write_files(compiled.files(), folder)
    return f"built {path.name}"


def _look(bundle: Path) -> str:
    """While a bundle is replaced, it has no page."""
    return f"read {bundle}" if (bundle / PAGE).is_file() else ""


def _problem(error: WgError) -> str:
    from wgcc.errors import SHOWN, render_run

    return render_run(error.diagnostics, SHOWN) if error.diagnostics.errors else str(error)
