"""`wgcc check`: reports every error in the given files, in one run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.options import (
    all_errors_option,
    json_option,
    limits_option,
    model_options,
    programs_in,
    strict_dims_option,
)
from wgcc.cli.printing import plural, say, say_diagnostics, show_json, size
from wgcc.cli.source_files import changes
from wgcc.ir.dtypes import DTYPE_TABLE

if TYPE_CHECKING:
    from wgcc.cli.commands.check.checking import Checked
    from wgcc.ir.program import Program


@click.command()
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILES...",
    type=click.Path(exists=True, path_type=Path),
)
@model_options
@strict_dims_option
@limits_option
@all_errors_option
@click.option("--fix", is_flag=True, help="Apply the corrections of errors to the files.")
@click.option("--watch", is_flag=True, help="Check again whenever a .wg file is saved.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[Path, ...],
    sizes: dict[str, float],
    model: str | None,
    seed: int | None,
    strict_dims: bool,
    limits: str,
    all_errors: bool,
    fix: bool,
    watch: bool,
    as_json: bool,
) -> None:
    """Report every error in model files, without writing anything but what --fix corrects.

    FILES are .wg files, or folders of them. A file that passes also builds.
    """
    options = sizes, model, seed, limits, strict_dims

    def run() -> bool:
        results = [_check(path, fix, options) for path in programs_in(files)]
        if as_json:
            show_json([_record(result) for result in results])
        else:
            for result in results:
                _say(result, all_errors)
        return all(result.is_ok for result in results)

    if not watch:
        ctx.exit(0 if run() else 1)
    for _ in changes({path if path.is_dir() else path.parent for path in files}):
        run()
        say("watching; press Ctrl-C to stop", style="dim")


def _check(path: Path, fix: bool, options: tuple[Any, ...]) -> Checked:
    from wgcc.cli.commands.check.checking import check_file
    from wgcc.cli.commands.check.fixing import fix_file

    check = partial(check_file, path, *options)
    if not fix:
        return check()
    result, corrections = fix_file(check)
    if corrections:
        say(f"{path}: {plural(corrections, 'correction')} applied")
    return result


def _say(result: Checked, all_errors: bool) -> None:
    """The errors, or one line for each model if there are none."""
    say_diagnostics(result.diagnostics, all_errors)
    if result.problem:
        say(f"{result.path}: {result.problem}", style="error")
    if not result.is_ok:
        return
    for name, program in result.programs.items():
        parameters = _parameters(program)
        entries = "entry" if len(program.entries) == 1 else "entries"
        say(
            f"{result.path}: ok: {name}, {plural(parameters, 'parameter')} "
            f"({size(_bytes(program))}), {entries} {', '.join(program.entries)}",
            style="good",
        )
    if not result.programs:
        say(f"{result.path}: ok: no model, so nothing to build", style="good")


def _parameters(program: Program) -> int:
    return sum(tensor.type.size for tensor in program.params.values())


def _bytes(program: Program) -> int:
    """The bytes of all parameters in memory, without the padding of words."""
    types = (tensor.type for tensor in program.params.values())
    return sum(type_.size * DTYPE_TABLE[type_.dtype].bytes for type_ in types)


def _record(result: Checked) -> dict[str, Any]:
    models = {
        name: {
            "parameters": _parameters(program),
            "bytes": _bytes(program),
            "entries": list(program.entries),
        }
        for name, program in result.programs.items()
    }
    return {
        "file": str(result.path),
        "ok": result.is_ok,
        "problem": result.problem,
        "models": models if result.is_ok else {},
        "diagnostics": [item.as_json() for item in result.diagnostics],
    }
