"""The passes between elaboration and scheduling, in order, each with the stage it leads to."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from wgcc.errors import Diagnostics, WgError
from wgcc.ir.graph import Graph
from wgcc.ir.loops import map_bodies, where_loops
from wgcc.ir.program import Program
from wgcc.ir.verify import verify_program
from wgcc.ops import OPS, infer_types
from wgcc.ops.registry import Expand, Marker
from wgcc.passes.autograd import autograd
from wgcc.passes.captures import settle_captures
from wgcc.passes.hoist import hoist, hoist_from_gradients
from wgcc.passes.lay_out import lay_out
from wgcc.passes.optimizer import optimizer
from wgcc.passes.prepare.join_products import (
    flatten_joins,
    join_gradients,
    join_products,
    turn_products,
)
from wgcc.passes.prepare.own_gradients import fold_stats, join_arenas, own_gradients
from wgcc.passes.prepare.place_results import (
    numbers_in_memory,
    own_carries,
    pack_results,
    place_results,
)
from wgcc.passes.prepare.split_long import add_onto, split_columns, split_long
from wgcc.passes.rewrite import expand, prune
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


def each_level(graph_pass: Callable[[Graph], Graph]) -> ProgramPass:
    """A pass over all entries and over the bodies of their loops."""

    def run(graph: Graph) -> Graph:
        return map_bodies(graph_pass(graph), run)

    return each_entry(run)


def _settle_captures(program: Program) -> Program:
    return settle_captures(program) if program.capture else program


_hoist_gradients = where_loops(hoist_from_gradients)

# The stage after the pass, the name of the pass, and the pass. The first stage is "ir".
PASSES: tuple[tuple[str, str, ProgramPass], ...] = (
    ("hoisted", "hoist", each_entry(where_loops(hoist))),
    ("grad", "autograd", each_entry(autograd)),
    ("opt", "optimizer", optimizer),
    ("captured", "settle_captures", _settle_captures),
    ("expanded", "expand", each_entry(expand)),
    # Loops that compute gradients have work to take out, too.
    ("simplified", "simplify", each_entry(lambda graph: simplify(_hoist_gradients(graph)))),
    # What follows prepares graphs for kernels: it changes how a value is computed, not what it is.
    ("placed", "lay_out", lay_out),
    ("products", "join_products", each_level(join_products)),
    ("gradients", "join_gradients", each_level(join_gradients)),
    ("statistics", "fold_stats", each_level(fold_stats)),
    ("columns", "split_columns", each_level(split_columns)),
    ("flat", "flatten_joins", each_level(flatten_joins)),
    ("turned", "turn_products", each_level(turn_products)),
    ("added", "add_onto", each_level(lambda graph: prune(add_onto(graph)))),
    ("split", "split_long", each_level(split_long)),
    ("split-simplified", "simplify", each_entry(simplify)),
    ("own-gradients", "own_gradients", each_entry(own_gradients)),
    ("arenas", "join_arenas", join_arenas),
    ("numbers", "numbers_in_memory", each_entry(numbers_in_memory)),
    ("packed", "pack_results", each_entry(pack_results)),
    ("results", "place_results", each_entry(place_results)),
    ("prepared", "own_carries", each_level(own_carries)),
)
STAGES = ("ir", *(stage for stage, _, _ in PASSES))
# The last stage that says what is computed; self-tests evaluate it.
SIMPLIFIED = "simplified"
PREPARED = STAGES[-1]


def run_passes(
    program: Program,
    until: str = SIMPLIFIED,
    since: str = STAGES[0],
    check: bool | None = None,
) -> Program:
    """A program of stage `since` at stage `until`.

    Every pass is verified with `check` (or WGCC_VERIFY=1).
    """
    start = STAGES.index(since)
    done = [name for _, name, _ in PASSES[:start]]
    verify_after(done, program, check)
    for _, name, run in PASSES[start : STAGES.index(until)]:
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
