"""Data from a pipe, where `-` asks for it: kept in a temporary file, so that readers see a file."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import click

# What messages call the file. Without a suffix it is read as a table, or as text by text models.
NAME = "standard-input"
PIECE = 1 << 20


class DataFile(click.Path):
    """A file or folder of data, or `-`."""

    def __init__(self) -> None:
        super().__init__(exists=True, allow_dash=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if str(value) != "-" or ctx is None:
            return super().convert(value, param, ctx)
        folder = tempfile.TemporaryDirectory(prefix="wgcc-")
        ctx.call_on_close(folder.cleanup)
        path = Path(folder.name) / NAME
        _copy_standard_input(path)
        return path


def _copy_standard_input(path: Path) -> None:
    from wgcc_runtime.regular_files import VARIABLE, most_bytes

    if sys.stdin.isatty():
        raise click.UsageError("`-` reads data from a pipe: wgcc train BUNDLE - < data.csv")
    most, size = most_bytes(), 0
    with open(path, "wb") as file:
        while piece := sys.stdin.buffer.read(PIECE):
            size += len(piece)
            if size > most:
                limit = f"at most {most:,} bytes are read here; {VARIABLE} can allow more"
                raise click.ClickException(f"standard input does not end: {limit}")
            file.write(piece)
