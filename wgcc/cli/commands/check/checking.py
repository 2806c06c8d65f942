"""Checks a file through every stage: a model that passes can be built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wgcc.compiler import check_limits
from wgcc.elaborate import check
from wgcc.errors import Diagnostics, WgError
from wgcc.files import check_file_name
from wgcc.ir.program import Program
from wgcc.passes.autograd import autograd
from wgcc.schedule.limits import RAISED


@dataclass(slots=True)
class Checked:
    """`problem` is an error that belongs to the whole file, not to a place in it."""

    path: Path
    programs: dict[str, Program] = field(default_factory=dict)
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    problem: str = ""

    @property
    def is_ok(self) -> bool:
        return not self.problem and not self.diagnostics.errors


def check_file(
    path: Path,
    sizes: Mapping[str, float],
    model: str | None,
    seed: int | None,
    limits: str = RAISED,
    strict_dims: bool = False,
) -> Checked:
    """All models of a file, or the one called `model`."""
    result = Checked(path)
    try:
        check_file_name(path.name)
        programs = check(
            path, result.diagnostics, sizes=sizes, seed=seed, prepare=autograd,
            strict_dims=strict_dims,
        )  # fmt: skip
        if model is not None and model not in programs and not result.diagnostics.errors:
            raise WgError(f"there is no model {model}")
        for name, program in programs.items():
            if model in (None, name) and not result.diagnostics.errors:
                check_limits(program, result.diagnostics, limits)
                result.programs[name] = program
    except WgError as error:
        if error.diagnostics.errors:
            result.diagnostics.items += error.diagnostics.items
        else:
            result.problem = str(error)
    return result
