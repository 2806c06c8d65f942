"""`wgcc fmt`: the canonical layout of programs."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from wgcc.cli.options import programs_in
from wgcc.cli.printing import plural, say, say_diagnostics, show
from wgcc.cli.source_files import write_source
from wgcc.errors import Diagnostics, Source

STDIN = Path("-")


@click.command()
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILES...",
    type=click.Path(exists=True, allow_dash=True, path_type=Path),
)
@click.option(
    "--check", "only_check", is_flag=True, help="Write nothing; exit with 1 if one differs."
)
@click.option("--diff", "as_diff", is_flag=True, help="Write nothing; print what would change.")
@click.pass_context
def command(ctx: click.Context, files: tuple[Path, ...], only_check: bool, as_diff: bool) -> None:
    """Lay out model files in the one canonical way, in place.

    FILES are .wg files, or folders of them; - reads stdin and writes to stdout. Spaces,
    indentation and blank lines change, code and comments never do. A file with syntax errors stays
    as it is.
    """
    failed = changed = 0
    for path in _inputs(files):
        text = _read(path)
        new = _format(path, text)
        if new is None:
            failed += 1
            continue
        changed += new != text
        if as_diff:
            _show_diff(path, text, new)
        elif only_check:
            _say_change("would change", path, text, new)
        elif path == STDIN:
            click.echo(new, nl=False)
        elif new != text:
            write_source(path, new)
            _say_change("formatted", path, text, new)
    if not (only_check or as_diff or STDIN in files):
        say(f"{plural(changed, 'file')} changed", style="good")
    ctx.exit(1 if failed or ((only_check or as_diff) and changed) else 0)


def _say_change(what: str, path: Path, old: str, new: str) -> None:
    if new != old:
        say(f"{what} {path}")


def _inputs(files: tuple[Path, ...]) -> Iterator[Path]:
    for path in files:
        yield from [path] if path == STDIN else programs_in([path])


def _read(path: Path) -> str:
    from wgcc.files import read_text

    if path != STDIN:
        return read_text(path)
    try:
        return sys.stdin.buffer.read().decode().replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise click.UsageError("stdin is not UTF-8 text") from None


def _format(path: Path, text: str) -> str | None:
    """None if it has syntax errors, which are printed."""
    from wgcc.syntax.layout import format_source

    diagnostics = Diagnostics()
    shown = "<stdin>" if path == STDIN else str(path)
    new = format_source(Source(path.name, text, shown), diagnostics)
    if new is None:
        say_diagnostics(diagnostics)
    return new


def _show_diff(path: Path, old: str, new: str) -> None:
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), str(path), str(path), lineterm=""
    )
    if new != old:
        show("\n".join(lines))
