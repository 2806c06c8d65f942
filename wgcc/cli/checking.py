"""Checks a file all the way: a model that passes here can be built."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from wgcc.elaborate import check
from wgcc.errors import Diagnostics, Source, Span, WgError
from wgcc.ir.program import Program
from wgcc.passes.autograd import autograd
from wgcc.passes.pipeline import run_passes
from wgcc.schedule.schedule import schedule


def check_file(
    path: Path,
    diagnostics: Diagnostics,
    sizes: Mapping[str, int],
    model: str | None,
    seed: int | None,
) -> dict[str, Program]:
    """The file's models (or the one called `model`); what is wrong goes to `diagnostics`."""
    programs = check(path, diagnostics, sizes=sizes, seed=seed, prepare=autograd)
    if model is not None:
        if model not in programs and not diagnostics.errors:
            raise WgError(f"there is no model {model} in {path.name}")
        programs = {name: program for name, program in programs.items() if name == model}
    if not diagnostics.errors:
        for program in programs.values():
            _check_back_end(path, program, diagnostics)
    return programs


def _check_back_end(path: Path, program: Program, diagnostics: Diagnostics) -> None:
    """Everything up to the kernels: limits of WebGPU are only known then."""
    try:
        schedule(run_passes(program))
    except WgError as error:
        diagnostics.items += error.diagnostics.items
        if not error.diagnostics.errors:
            start = Span(Source(path.name, path.read_text(encoding="utf-8")), 0, 0)
            diagnostics.error("WG0600", str(error), start)
