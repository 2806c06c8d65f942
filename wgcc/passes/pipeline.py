"""The passes between elaboration and scheduling, in order, each with the stage it leads to."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from wgcc.errors import Diagnostics, WgError
from wgcc.ir.graph import Graph
from wgcc.ir.program import Program
from wgcc.ir.verify import verify_program
from wgcc.ops import OPS, infer_types
from wgcc.ops.registry import Expand, Marker
from wgcc.passes.autograd import autograd
from wgcc.passes.expand import expand
from wgcc.passes.hoist import hoist, hoist_from_gradients
from wgcc.passes.optimizer import optimizer
from wgcc.passes.simplify import simplify

ProgramPass = Callable[[Program], Program]


def each_entry(graph_pass: Callable[[Graph], Graph]) -> ProgramPass:
    def run(program: Program) -> Program:
        entries: dict[str, Graph] = {}
        failures: list[WgError] = []
        for name, graph in program.entries.items():
            try:
                entries[name] = graph_pass(graph)
            except WgError as failure:
                failures.append(failure)
        if failures:
            raise _together(failures)
        return replace(program, entries=entries)

    return run


def _together(failures: list[WgError]) -> WgError:
    """The errors of all entries, so that one run shows them all."""
    problems = Diagnostics()
    for failure in failures:
        problems.extend(failure.diagnostics)
    return WgError(str(failures[0]), problems)


# The stage after the pass, the name of the pass, and the pass. The first stage is "ir".
PASSES: tuple[tuple[str, str, ProgramPass], ...] = (
    ("hoisted", "hoist", each_entry(hoist)),
    ("grad", "autograd", each_entry(autograd)),
    ("opt", "optimizer", optimizer),
    ("expanded", "expand", each_entry(expand)),
    # Loops that compute gradients have work to take out, too.
    ("simplified", "simplify", each_entry(lambda graph: simplify(hoist_from_gradients(graph)))),
)
STAGES = ("ir", *(stage for stage, _, _ in PASSES))


def run_passes(program: Program, until: str = STAGES[-1], check: bool | None = None) -> Program:
    """`program` at stage `until`. Every pass is verified with `check` (or WGCC_VERIFY=1)."""
    verify_after([], program, check)
    done: list[str] = []
    for _, name, run in PASSES[: STAGES.index(until)]:
        program = run(program)
        done.append(name)
        verify_after(done, program, check)
    return program


def verify_after(done: list[str], program: Program, check: bool | None = None) -> None:
    """Verify the result of the passes `done`, with `check` (or WGCC_VERIFY=1)."""
    if os.environ.get("WGCC_VERIFY") == "1" if check is None else check:
        verify_program(program, infer_types, _replaced_by(done))


def _replaced_by(done: list[str]) -> set[str]:
    """The ops that no longer exist after these passes."""
    markers = {
        op.name for op in OPS.values() if isinstance(op.lower, Marker) and op.lower.until in done
    }
    composites = {op.name for op in OPS.values() if isinstance(op.lower, Expand)}
    return markers | (composites if "expand" in done else set())
