"""`wgcc check`: everything that is wrong with some files, in one run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.options import all_errors_option, json_option, model_options
from wgcc.cli.printing import plural, say, say_diagnostics, show_json, size

if TYPE_CHECKING:
    from wgcc.cli.checking import Checked
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

    results = [check_file(path, sizes, model, seed) for path in _models(files)]
    if as_json:
        show_json([_record(result) for result in results])
    else:
        for result in results:
            _say(result, all_errors)
    ctx.exit(0 if all(result.is_right for result in results) else 1)


def _models(paths: tuple[Path, ...]) -> Iterator[Path]:
    for path in paths:
        found = sorted(path.rglob("*.wg")) if path.is_dir() else [path]
        inside = [file for file in found if not file.is_dir()]
        if not inside:
            raise click.UsageError(f"there is no .wg file in {path}")
        yield from inside


def _say(result: Checked, all_errors: bool) -> None:
    """What is wrong, or one line for each model that is right."""
    say_diagnostics(result.diagnostics, all_errors)
    if result.problem:
        say(f"{result.path}: {result.problem}", style="error")
    if not result.is_right:
        return
    for name, program in result.programs.items():
        parameters = _parameters(program)
        entries = "entry" if len(program.entries) == 1 else "entries"
        say(
            f"{result.path}: {name} is right: {plural(parameters, 'parameter')} "
            f"({size(parameters * WORD)}), {entries} {', '.join(program.entries)}",
            style="good",
        )
    if not result.programs:
        say(f"{result.path}: no errors, and no model to build", style="good")


def _parameters(program: Program) -> int:
    return sum(tensor.type.size for tensor in program.params.values())


def _record(result: Checked) -> dict[str, Any]:
    models = {
        name: {
            "parameters": _parameters(program),
            "bytes": _parameters(program) * WORD,
            "entries": list(program.entries),
        }
        for name, program in result.programs.items()
    }
    return {
        "file": str(result.path),
        "ok": result.is_right,
        "problem": result.problem,
        "models": models if result.is_right else {},
        "diagnostics": [item.as_json() for item in result.diagnostics],
    }
