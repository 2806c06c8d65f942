"""Keeping the best classes of each row: the score and place of the last one are found bit by bit.

One workgroup shares a row on a GPU; short rows, and those of the twin, have one thread each.
"""

from __future__ import annotations

from dataclasses import dataclass

from wgcc.ir.graph import Node
from wgcc.ir.index import coordinates_of, variable
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import select
from wgcc.kernel.tree import Declaration, Name
from wgcc.ops.ordering import HIDDEN
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.codegen.limits import grid_of, thread_index, unrolled
from wgcc.schedule.codegen.terms import number
from wgcc.schedule.fuse.fuse import Group
from wgcc.schedule.kernel import Launch, WorkgroupVariable
from wgcc.schedule.kernels.context import Context, GroupCode

THREADS = 64
# Longer rows are shared.
MIN_SHARED_ROW = 32
# A row is looked through some 50 times, and a software adapter (llvmpipe) ends the loops of a
# thread after 65,535 iterations in all.
UNROLLED, MAX_UNROLLED = 4, 16
# More often than a row is ever looked through.
LOOKS = 64


def select_code(group: Group, context: Context) -> GroupCode:
    node = group.roots[0]
    shared = node.output.shape[-1] >= MIN_SHARED_ROW
    gpu, twin = (_launch(node, context, *how) for how in ((shared, True), (False, False)))
    return context.code(gpu, twin)


def _launch(node: Node, context: Context, shared: bool, limited: bool) -> Launch:
    """`limited`: a driver ends long loops."""
    emitter = Emitter(context.inlined, context.bindings())
    classes = node.output.shape[-1]
    rows = node.output.type.size // classes
    grid = grid_of(rows if shared else ceil_div(rows, THREADS))
    share = ceil_div(classes, THREADS if shared else 1)
    times = UNROLLED * min(unrolled(LOOKS * share // UNROLLED), MAX_UNROLLED // UNROLLED)
    times = times if limited else 1
    constants = {"ROWS": rows, "CLASSES": classes, "THREADS": THREADS, "UNROLLED": times}
    constants |= {"INDEX_BITS": max(classes - 1, 1).bit_length()}
    if "k" in node.attrs:
        constants["K"] = int(node.attrs["k"])
    return context.launch(
        "select",
        emitter,
        constants=constants,
        functions=_functions(node, emitter, rows, classes),
        holes={"INDEX": thread_index(grid, 1 if shared else THREADS)},
        values={
            "shared": shared,
            "counts_to_k": "k" in node.attrs,
            "reductions": _reductions(node),
            "worker": "workgroup" if shared else "thread",
        },
        workgroup=(THREADS, 1, 1),
        grid=grid,
        iterations=LOOKS * (share // times + 8) + share,
        shared=_workgroup_memory(node) if shared else (),
    )


@dataclass(frozen=True, slots=True)
class Reduction:
    """What the threads of a workgroup combine, in pairs, in an array of this kind."""

    name: str
    array: str
    kind: str
    pattern: str

    @property
    def pair(self) -> str:
        return self.pattern.format(f"{self.array}[lane]", f"{self.array}[lane + half]")


def _reductions(node: Node) -> tuple[Reduction, ...]:
    """Counts and, without `k`, keys and masses of scores."""
    counts = Reduction("sum_counts", "counts", "u32", "{} + {}")
    if "k" in node.attrs:
        return (counts,)
    masses = Reduction("sum_masses", "masses", "f32", "{} + {}")
    return masses, Reduction("greatest_of", "keys", "u32", "max({}, {})"), counts


def _workgroup_memory(node: Node) -> tuple[WorkgroupVariable, ...]:
    arrays = sorted(_reductions(node), key=lambda reduction: reduction.array)
    return tuple(WorkgroupVariable(r.array, r.kind, ("THREADS",)) for r in arrays)


def _functions(node: Node, emitter: Emitter, rows: int, classes: int) -> tuple[Declaration, ...]:
    x, *mass = node.inputs
    position = variable("o", rows) * classes + variable("i", classes)
    at = coordinates_of(position, node.output.shape)
    readers = emitter.reader("score(o: u32, i: u32) -> f32", x, at)
    if mass:
        readers += emitter.reader("mass() -> f32", mass[0], ())
    kept = select(number(HIDDEN, "f32"), Name("x"), Name("kept"))
    store = emitter.store(node.output, at, kept)
    return (*readers, *emitter.function("put(o: u32, i: u32, x: f32, kept: bool)", store))
