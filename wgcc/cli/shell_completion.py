"""Names that shells complete: entries and kernels of the bundle or model that was typed before.

A shell asks while the line is being typed, so whatever cannot be read has no names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import click

_ENTRY = re.compile(r"^\s*entry\s+(\w+)", re.MULTILINE)
_ARGUMENTS = ("bundle", "path", "model_file")


def entries(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Those of a bundle, or of a model file; after a comma, the next of several."""
    before, comma, word = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _entries(_subject(ctx)) if name.startswith(word)]


def kernels(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    folder = _subject(ctx) / "kernels"
    names = sorted(path.stem for path in folder.glob("*.wgsl"))
    return [name for name in names if name.startswith(incomplete)]


def _subject(ctx: click.Context) -> Path:
    """Before an option that has no value yet, click leaves the arguments in `args`."""
    values = [*(ctx.params.get(name) for name in _ARGUMENTS), *ctx.args]
    paths = [Path(value) for value in values if value]
    return next((path for path in paths if path.exists()), Path())


def _entries(subject: Path) -> Iterable[str]:
    from wgcc.errors import WgError
    from wgcc.files import read_text

    try:
        if subject.suffix == ".wg":
            return _ENTRY.findall(read_text(subject))
        return list(json.loads((subject / "plan.json").read_bytes())["entries"])
    except (OSError, ValueError, KeyError, TypeError, WgError):
        return []
