"""How commands print: messages for people go to stderr, results to stdout."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from wgcc.errors import Diagnostics, WgError

_STYLES: dict[str, dict[str, Any]] = {
    "error": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow", "bold": True},
    "good": {"fg": "green"},
    "dim": {"dim": True},
    "": {},
}
# What is coloured in a rendered diagnostic.
_COLOURS = (
    (re.compile(r"^error\[\w+\]", re.M), "error"),
    (re.compile(r"^warning\[\w+\]", re.M), "warning"),
    (re.compile(r"^ *(-->|:::) .*$", re.M), "dim"),
    (re.compile(r"(?<== )help:", re.M), "good"),
)


_muted: list[bool] = []


def mute() -> None:
    """Silences `say` from here on: another process of the same command speaks for all."""
    _muted.append(True)


def is_muted() -> bool:
    return bool(_muted)


def say(text: str, style: str = "") -> None:
    """A message for people, on stderr."""
    if _muted:
        return
    click.echo(_style(text, style), err=True)


def show(text: str) -> None:
    """A result, on stdout."""
    click.echo(text)


def show_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=1, ensure_ascii=False))


def say_diagnostics(diagnostics: Diagnostics, everything: bool = False) -> None:
    """All problems of a run, if there are any."""
    if not diagnostics.items:
        return
    from wgcc.errors import SHOWN, render_run

    text = render_run(diagnostics, None if everything else SHOWN)
    for pattern, style in _COLOURS:
        text = pattern.sub(_style(r"\g<0>", style), text)
    click.echo(text, err=True)


def print_error(error: WgError, everything: bool = False) -> None:
    say_diagnostics(error.diagnostics, everything)
    if not error.diagnostics.errors:
        say(f"wgcc: {error}", style="error")


def thousands(number: int) -> str:
    return f"{number:,}"


def size(number: int) -> str:
    """`17.4 kB`"""
    amount = float(number)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{number} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def plural(count: int, noun: str, nouns: str = "") -> str:
    return f"{thousands(count)} {noun if count == 1 else nouns or noun + 's'}"


def dispatches(distinct: int, runs: int) -> str:
    """How many dispatches a call runs; in loops, more than there are."""
    loops = f" ({thousands(distinct)} of them different)" if runs != distinct else ""
    return plural(runs, "dispatch", "dispatches") + loops


def table(rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Aligned columns; those in `right` are aligned right."""
    lines = [list(map(str, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _style(text: str, style: str) -> str:
    coloured = style and sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return click.style(text, **_STYLES[style]) if coloured else text
