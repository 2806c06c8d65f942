"""`wgcc check`: everything that is wrong with some files, in one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.options import all_errors_option, json_option, model_options
from wgcc.cli.printing import plural, say, say_diagnostics, show_json, size

if TYPE_CHECKING:
    from wgcc.errors import Diagnostics
    from wgcc.ir.program import Program

WORD = 4


@click.command()
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILES...",
    type=click.Path(exists=True, path_type=Path),
)
@model_options
@all_errors_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[Path, ...],
    sizes: dict[str, int],
    model: str | None,
    seed: int | None,
    all_errors: bool,
    as_json: bool,
) -> None:
    """Find all that is wrong with model files, without writing anything.

    FILES are .wg files, or folders of them. A file that checks also builds.
    """
    from wgcc.cli.checking import check_file
    from wgcc.errors import Diagnostics

    failed = False
    records: list[dict[str, Any]] = []
    for path in _models(files):
        diagnostics = Diagnostics()
        programs = check_file(path, diagnostics, sizes, model, seed)
        failed = failed or bool(diagnostics.errors)
        if as_json:
            records.append(_record(path, programs, diagnostics))
        else:
            say_diagnostics(diagnostics, all_errors)
            _say_programs(path, programs, diagnostics)
    if as_json:
        show_json(records)
    ctx.exit(1 if failed else 0)


def _models(paths: tuple[Path, ...]) -> Iterator[Path]:
    for path in paths:
        inside = sorted(path.rglob("*.wg")) if path.is_dir() else [path]
        if not inside:
            raise click.UsageError(f"there is no .wg file in {path}")
        yield from inside


def _say_programs(path: Path, programs: Mapping[str, Program], diagnostics: Diagnostics) -> None:
    """One line for each model that is right."""
    if diagnostics.errors:
        return
    for name, program in programs.items():
        parameters = _parameters(program)
        entries = ", ".join(program.entries)
        say(
            f"{path}: {name} is right: {plural(parameters, 'parameter')} "
            f"({size(parameters * WORD)}), {_entries(program)} {entries}",
            style="good",
        )
    if not programs:
        say(f"{path}: no errors, and no model to build", style="good")


def _entries(program: Program) -> str:
    return "entry" if len(program.entries) == 1 else "entries"


def _parameters(program: Program) -> int:
    return sum(tensor.type.size for tensor in program.params.values())


def _record(
    path: Path, programs: Mapping[str, Program], diagnostics: Diagnostics
) -> dict[str, Any]:
    models = {
        name: {
            "parameters": _parameters(program),
            "bytes": _parameters(program) * WORD,
            "entries": list(program.entries),
        }
        for name, program in programs.items()
    }
    return {
        "file": str(path),
        "ok": not diagnostics.errors,
        "models": {} if diagnostics.errors else models,
        "diagnostics": [item.as_json() for item in diagnostics],
    }
