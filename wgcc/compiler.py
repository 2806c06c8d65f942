"""The pipeline: model file → traced program → passes → schedule → bundle.

`compile_file` is all of it; `lower` is its middle, one line for each step. A check of a model needs
less, so each function imports what only it needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from wgcc import __version__
from wgcc.elaborate import Trees, elaborate, trace_again
from wgcc.errors import Diagnostics, Source, WgError
from wgcc.files import check_file_name, read_text
from wgcc.ir.graph import Graph, Rows
from wgcc.ir.loops import bodies
from wgcc.ir.places import optimizer_state
from wgcc.ir.program import Program, Wanted
from wgcc.lazy_numpy import Array
from wgcc.passes.captures import add_captures
from wgcc.passes.mark_rows import TraceAgain, mark_rows
from wgcc.passes.pipeline import PREPARED, SIMPLIFIED, run_passes
from wgcc.passes.rematerialise import mark_remat
from wgcc.schedule.keep_limits import keeps_limits
from wgcc.schedule.limits import RAISED, REMAT_PARTS, Lowered, check_raised, first_within

if TYPE_CHECKING:
    from wgcc.bundle.content import Content
    from wgcc.bundle.plan import Plan, Planned
    from wgcc.schedule.kernel import Schedule

# Why a bundle has no twin.
NOT_WANTED = "it was built with --no-twin: build it again without"


@dataclass(frozen=True)
class Compiled:
    """A model on its way to a bundle. `diagnostics` holds its warnings.

    `remat_parts`: activations are computed in so many parts, and all but the last rematerialised.
    `twin`: with the WebAssembly form that runs where there is no GPU. `fast`: in that, large
    products can be left to numpy's BLAS.
    """

    source: Source
    program: Program
    schedule: Schedule
    diagnostics: Diagnostics
    remat_parts: int = 1
    twin: bool = True
    fast: bool = False

    def _plan_with_twin(self) -> Planned:
        from wgcc.backends.wasm.twin import why_too_large, write_twin
        from wgcc.bundle.plan import make_plan

        done, source = self.schedule, self.source
        twin = write_twin(done, self.fast) if self.twin else None
        why = "" if twin else why_too_large(done) if self.twin else NOT_WANTED
        generator = f"wgcc {__version__}"
        return make_plan(self.program, done, source.name, source.text, generator, twin, why)

    # Made when somebody needs it.
    planned = cached_property(_plan_with_twin)

    def plan(self) -> Plan:
        """plan.json of a bundle that no weights are given for."""
        from wgcc.bundle.emit import complete_plan

        return complete_plan(self.planned, self.program)[0]

    def runtime_files(self) -> dict[str, bytes]:
        """The files that a runtime needs to run the model in memory: no self-test and no page."""
        from wgcc.bundle.emit import runtime_files

        return runtime_files(self.planned, self.program)

    def files(
        self,
        weights: Mapping[str, Array] | None = None,
        data: bytes | None = None,
        drawn: bool = False,
    ) -> dict[str, Content]:
        """The bundle's files. `weights` replaces first values, by parameter name.

        `data` is what `wgcc.bundle.content.data_bytes` gives, for the page to train with. `drawn`:
        runtimes draw the first values, and there is no self-test: none of this needs numpy.
        """
        from wgcc.bundle.emit import bundle_files

        name, text = self.source.name, self.source.text
        return bundle_files(self.planned, self.program, name, text, weights, data, drawn)

    def write(self, folder: str | Path, weights: Mapping[str, Array] | None = None) -> None:
        """Write the bundle into an empty or new folder, or over an older bundle."""
        from wgcc.bundle.folder import write_files

        write_files(self.files(weights), Path(folder))


def compile_file(
    path: str | Path | Source,
    *,
    sizes: Mapping[str, float] | None = None,
    model: str | None = None,
    seed: int | None = None,
    entries: Sequence[str] | None = None,
    candidates: bool = False,
    memory: int | None = None,
    twin: bool = True,
    limits: str = RAISED,
    strict_dims: bool = False,
    capture: Sequence[Wanted] = (),
    fast: bool = False,
    pairs: bool = False,
) -> Compiled:
    """Compile a `.wg` file, or its text. Raises `WgError`, with all its diagnostics, on errors.

    `candidates`: with kernels for tuning to choose from. `memory`: how many bytes of GPU memory it
    may need. `twin`: with the WebAssembly form that runs where there is no GPU. `limits`: `default`
    refuses a model that needs more than WebGPU's default limits. `strict_dims`: dims that agree by
    coincidence are errors. `capture`: what to store beside the outputs of entries. `fast`: the twin
    can leave large products to numpy's BLAS. `pairs`: one dispatch may start two small kernels.
    """
    source, program, diagnostics = read_program(
        path,
        sizes=sizes,
        model=model,
        seed=seed,
        entries=entries,
        strict_dims=strict_dims,
        capture=capture,
    )
    options = candidates, memory, twin, limits, fast, pairs
    return compile_program(source, program, diagnostics, *options)


def read_program(
    path: str | Path | Source,
    *,
    sizes: Mapping[str, float] | None = None,
    model: str | None = None,
    seed: int | None = None,
    entries: Sequence[str] | None = None,
    strict_dims: bool = False,
    capture: Sequence[Wanted] | None = (),
) -> tuple[Source, Program, Diagnostics]:
    """Check a file and trace its model: the first stage.

    With `capture` None, nothing is captured, not even what the source asks for.
    """
    name = path.name if isinstance(path, Source) else Path(path).name
    check_file_name(name)
    diagnostics = Diagnostics()
    trees: Trees = {}
    program = elaborate(
        path,
        diagnostics,
        sizes=sizes,
        model=model,
        seed=seed,
        strict_dims=strict_dims,
        trees=trees,
    )
    if program is None:
        raise WgError("the model has errors", diagnostics)
    source = path if isinstance(path, Source) else Source(name, read_text(Path(path)))
    again = trace_for_rows(path, program, sizes or {}, capture, trees)
    return source, mark_rows(_with_captures(_only(program, entries), capture), again), diagnostics


def _with_captures(
    program: Program, capture: Sequence[Wanted] | None, strict: bool = True
) -> Program:
    graphs = program.entries.values()
    levels = (level for graph in graphs for level in (graph, *bodies(graph)))
    if capture is None or not (capture or any(level.entry.captured for level in levels)):
        return program
    return add_captures(program, capture, strict)


def trace_for_rows(
    root: str | Path | Source,
    program: Program,
    sizes: Mapping[str, float],
    capture: Sequence[Wanted] | None = None,
    trees: Trees | None = None,
) -> TraceAgain:
    """How `mark_rows` sees an entry with another number of rows. `trees` has the parsed files."""
    kept: Trees = {} if trees is None else trees

    def again(entry: str, rows: Rows, size: int) -> Graph | None:
        if rows.decided_by is None:
            literal = (rows.count, size)
            graph = trace_again(root, sizes, program.name, entry, literal, kept)
        else:
            changed = {**sizes, rows.decided_by[0]: size}
            graph = trace_again(root, changed, program.name, entry, trees=kept)
        if graph is None:
            return None
        others = replace(program, entries={entry: graph})
        return _with_captures(others, capture, strict=False).entries[entry]

    return again


def compile_program(
    source: Source,
    program: Program,
    diagnostics: Diagnostics,
    candidates: bool = False,
    memory: int | None = None,
    twin: bool = True,
    limits: str = RAISED,
    fast: bool = False,
    pairs: bool = False,
) -> Compiled:
    """Passes and schedule of a traced program; its twin and plan are made later.

    Where it needs more than `memory` bytes, activations of more and more parts are
    rematerialised.
    """
    # A program that was not read from a file has no second trace: less is known about its rows.
    program = mark_rows(program)
    attempts = (lower(program, parts, candidates, pairs) for parts in REMAT_PARTS)
    lowered = next(attempts) if memory is None else first_within(memory, attempts)
    done, scheduled = lowered.program, lowered.schedule
    check_raised(scheduled, done, diagnostics, limits)
    return Compiled(source, done, scheduled, diagnostics, lowered.remat_parts, twin, fast)


def lower(
    program: Program, remat_parts: int = 1, candidates: bool = False, pairs: bool = False
) -> Lowered:
    """A traced program as kernels, with all but the last of so many parts rematerialised."""
    from wgcc.schedule.schedule import schedule

    marked = _marked_for_remat(program, remat_parts)
    simplified = run_passes(marked)
    prepared = run_passes(simplified, until=PREPARED, since=SIMPLIFIED)
    return Lowered(simplified, schedule(prepared, candidates, pairs), remat_parts)


def check_limits(program: Program, diagnostics: Diagnostics, limits: str = RAISED) -> None:
    """Raise or warn where WebGPU's limits are too small for a traced program.

    Kernels are only written where they could be too large.
    """
    simplified = run_passes(program)
    prepared = run_passes(simplified, until=PREPARED, since=SIMPLIFIED)
    if not keeps_limits(prepared):
        from wgcc.schedule.schedule import schedule

        check_raised(schedule(prepared), simplified, diagnostics, limits)


def _marked_for_remat(program: Program, parts: int) -> Program:
    if parts == 1:
        return program
    entries = {name: mark_remat(graph, parts) for name, graph in program.entries.items()}
    return replace(program, entries=entries)


def _only(program: Program, entries: Sequence[str] | None) -> Program:
    if not entries:
        return program
    for name in entries:
        if name not in program.entries:
            known = ", ".join(program.entries)
            raise WgError(f"there is no entry {name} in model {program.name} (it has {known})")
    kept = {name: program.entries[name] for name in program.entries if name in entries}
    # A schedule counts steps in state that only the entries which train read and write.
    used = {value.name for graph in kept.values() for value in graph.sources}
    state = {
        name: item
        for name, item in program.state.items()
        if name in used or optimizer_state(name) is None
    }
    return replace(program, entries=kept, state=state)
