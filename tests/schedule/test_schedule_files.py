"""tests/filetests/{fuse,memory,steps}/*.ir: which values share kernels, where they are, and why.

A file of `fuse` is checked against the groups of its graph and the reason for each value, a file
of `memory` against its kernels in order and the place of each stored value, a file of `steps`
against the plan of its entry after the step that it is named after.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters import ROOT
from filecheck import filecheck
from read_ir import program_of, read_graphs
from wgcc.ir.graph import Graph
from wgcc.passes.lay_out import Layout, lay_out
from wgcc.passes.pipeline import PREPARED, SIMPLIFIED, run_passes
from wgcc.schedule.fuse import materialise, merge
from wgcc.schedule.fuse.fuse import FIRST, fuse
from wgcc.schedule.kernel import Place
from wgcc.schedule.memory.slots import Slots
from wgcc.schedule.schedule import schedule
from wgcc.schedule.steps import STAGES, Shared, plan_entry, stage_text

FOLDER = ROOT / "tests" / "filetests"
FUSE = sorted((FOLDER / "fuse").glob("*.ir"))
MEMORY = sorted((FOLDER / "memory").glob("*.ir"))


@pytest.mark.parametrize("case", FUSE, ids=lambda case: case.stem)
def test_what_shares_a_kernel(case: Path) -> None:
    source = case.read_text(encoding="utf-8")
    filecheck(source, "\n".join(_fused(case)))


def _fused(case: Path) -> Iterator[str]:
    for graph in read_graphs(case.read_text(encoding="utf-8")).values():
        _schedule(graph, "f32")
        fused = fuse(graph)
        for group in fused.groups:
            yield f"kernel {group.kind}"
            for root in group.roots:
                why = group.why[root.outputs[0].name]
                for value in root.outputs:
                    yield f"  %{value.name}: {why}; {fused.reasons[value.name].text}"
        for name in fused.inlined:
            yield f"inlined %{name}: {fused.reasons[name].text}"


def test_every_reason_has_a_file() -> None:
    found = "\n".join(line for case in FUSE for line in _fused(case))
    reasons = [reason.text for reason, _ in materialise.RULES] + [materialise.CUT.text]
    answers = [a.reason for a in vars(merge).values() if isinstance(a, merge.Answer)]
    assert len(reasons) > 10 and len(answers) > 8
    # A value that joins a group states the profit, not that it is legal. A kernel that is too long
    # would need a very long file: see the next test.
    answers = [a for a in answers if a not in (merge.LEGAL.reason, merge.TOO_LONG.reason)]
    assert [reason for reason in reasons + answers if reason not in found] == []


@pytest.mark.parametrize("case", MEMORY, ids=lambda case: case.stem)
def test_where_values_are_stored(case: Path) -> None:
    source = case.read_text(encoding="utf-8")
    precision = "f16" if re.search(r"^// precision = f16$", source, re.M) else "f32"
    (graph,) = read_graphs(source).values()
    filecheck(source, "\n".join(_planned(graph, precision)))


def _planned(graph: Graph, precision: str) -> Iterator[str]:
    program = program_of(graph, precision)
    _schedule(graph, precision)
    layout, slots = Layout.of(lay_out(program)), Slots(precision=precision)
    planned = plan_entry(graph, Shared(layout, slots), {})
    for number, group in enumerate(planned.order):
        yield f"kernel {number} {group.kind}"
        for root in group.roots:
            for value in root.outputs:
                place = planned.places.get(value.name)
                shown = _place(place) if place else "not stored"
                yield f"  %{value.name}: {shown} ({group.why[root.outputs[0].name]})"
    for slot, words in enumerate(slots.sizes):
        yield f"temp{slot} has {words} words"


def _place(place: Place) -> str:
    """`params[64:72]`: words 64 to 71 of a buffer."""
    words = place.bytes // 4
    halves = " as f16" if place.half else ""
    return f"{place.buffer}[{place.offset}:{place.offset + words}]{halves}"


def _schedule(graph: Graph, precision: str) -> None:
    """All kernels can be written, so the graph is a valid input of the scheduler."""
    schedule(run_passes(program_of(graph, precision), until=PREPARED, since=SIMPLIFIED))


@pytest.mark.parametrize("stage", STAGES)
def test_what_a_step_decides(stage: str) -> None:
    """Every step has a file, which may begin with `// trains` (the entry does) or `// pairs`."""
    source = (FOLDER / "steps" / f"{stage}.ir").read_text(encoding="utf-8")
    (graph,) = read_graphs(source).values()
    trains = graph.with_facts(trains=source.startswith("// trains\n"))
    pairs = source.startswith("// pairs\n")
    filecheck(source, stage_text(lay_out(program_of(trains)), stage, pairs))


def test_a_kernel_has_a_limited_number_of_ops() -> None:
    """300 ops in a row: expressions are cut before they get too long, and so are kernels."""
    chain = [f"%y{i} = sin(%{'x' if not i else f'y{i - 1}'})" for i in range(300)]
    lines = ["entry chain {", "input %x: f32[9]", *chain, "output y = %y299", "}"]
    (graph,) = read_graphs("\n".join(lines)).values()
    fused = fuse(graph)
    firsts = [group.why[group.roots[0].output.name] for group in fused.groups]
    assert firsts[1:] == [f"{FIRST}, not that of y95: {merge.TOO_LONG.reason}"]
