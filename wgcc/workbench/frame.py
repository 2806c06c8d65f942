"""The workbench in a cell of a notebook: a frame of the site, which this process serves."""

from __future__ import annotations

import functools
import tempfile
import threading
from dataclasses import dataclass
from html import escape
from pathlib import Path

from wgcc.workbench.address import address_of
from wgcc.workbench.serve import make_server

HEIGHT = 640
NAME = "model.wg"


@dataclass(frozen=True, slots=True)
class WorkbenchFrame:
    """Notebooks show it as a frame; elsewhere it is its address."""

    address: str
    height: int = HEIGHT

    def __repr__(self) -> str:
        return f"the workbench at {self.address}"

    def _repr_html_(self) -> str:
        return (
            f'<iframe src="{escape(self.address)}" title="wgcc workbench" width="100%" '
            f'height="{self.height}" style="border: 0" allow="clipboard-write"></iframe>'
        )


def frame(text: str, height: int = HEIGHT) -> WorkbenchFrame:
    """A program in the workbench. It runs on this machine; a notebook elsewhere cannot show it."""
    return WorkbenchFrame(f"{_serve_site()}?embed{address_of({NAME: text}, NAME)}", height)


@functools.cache
def _serve_site() -> str:
    """The address of the site, served as long as this process lives."""
    from wgcc.workbench.folder import write_site

    folder = Path(tempfile.mkdtemp(prefix="wgcc-workbench-")) / "site"
    write_site(folder)
    server = make_server(folder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}/"
