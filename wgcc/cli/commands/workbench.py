"""`wgcc workbench`: a page in which models are written, compiled, looked at and trained."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path

import click

from wgcc.workbench.folder import write_site


@click.command("workbench")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write the site there; do not serve it."
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of the loopback server.")
@click.option("--no-browser", is_flag=True, help="Serve without opening a browser.")
def command(output: Path | None, port: int, no_browser: bool) -> None:
    """Write models in a page that checks, compiles, shows and trains them.

    The site consists of static files, works offline and contacts no host. Writing it needs Node and
    npm, unless the package wgcc-workbench is installed.
    """
    if output is not None:
        size = write_site(output)
        click.echo(f"wrote {output} ({size / 1e6:.1f} MB): serve it from any host")
        return
    with tempfile.TemporaryDirectory(prefix="wgcc-workbench-") as folder:
        write_site(Path(folder) / "site")
        _serve(Path(folder) / "site", port, not no_browser)


def _serve(folder: Path, port: int, opens: bool) -> None:
    from wgcc.workbench.serve import make_server

    with make_server(folder, port) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        click.echo(f"the workbench is at {address} (Ctrl-C ends it)")
        if opens:
            webbrowser.open(address)
        server.serve_forever()
