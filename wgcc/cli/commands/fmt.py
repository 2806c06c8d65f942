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
from wgcc.errors import Diagnostics, Source, WgError

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
        try:
            new = _format(path, text)
        except WgError as error:
            say_diagnostics(error.diagnostics)
            failed += 1
            continue
        changed += new != text
        if as_diff:
            show(_diff(path, text, new)) if new != text else None
        elif path == STDIN and not only_check:
            click.echo(new, nl=False)
        elif new != text:
            say(f"{'would change' if only_check else 'formatted'} {path}")
            if not only_check:
                write_source(path, new)
    if not (only_check or as_diff or STDIN in files):
        say(f"{plural(changed, 'file')} changed", style="good")
    ctx.exit(1 if failed or ((only_check or as_diff) and changed) else 0)


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


def _format(path: Path, text: str) -> str:
    from wgcc.language_service.layout import format_source

    diagnostics = Diagnostics()
    shown = "<stdin>" if path == STDIN else str(path)
    new = format_source(Source(path.name, text, shown), diagnostics)
    if new is None:
        raise WgError("it has syntax errors", diagnostics)
    return new


def _diff(path: Path, old: str, new: str) -> str:
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), str(path), str(path), lineterm=""
    )
    return "\n".join(lines)
