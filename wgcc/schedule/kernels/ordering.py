"""Kernels that order the elements of rows: by sorting, and by keeping the best classes.

A bitonic network sorts the positions of elements, in workgroup memory if a row fits. The score and
the place of the last class to keep are found bit by bit. One workgroup shares a row on a GPU; short
rows have one thread each, and so has their work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wgcc.ir.graph import Node
from wgcc.ir.index import Coordinates, Index, coordinates_of, linear, variable
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import expression, select, statements
from wgcc.kernel.rewrite.transform import Body
from wgcc.kernel.tree import Call, Declaration, Expr, Name, Return
from wgcc.ops.ordering import HIDDEN
from wgcc.ops.registry import wgsl_type
from wgcc.schedule.codegen.bindings import number, thread_index
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.fuse.group import Group
from wgcc.schedule.kernel import Launch, WorkgroupVariable, grid_of, unroll_times
from wgcc.schedule.kernels.context import GroupCode, GroupContext

THREADS = 64
# The most that WebGPU's default limits allow.
MOST_THREADS = 256
# Longer rows are shared.
MIN_SHARED_ROW = 32
# Two words of each element take 16 KiB, all the workgroup memory of the default limits.
MOST_IN_WORKGROUP = 2048


def sort_code(group: Group, context: GroupContext) -> GroupCode:
    node = group.roots[0]
    shared = node.output.shape[node.attrs["axis"]] > MIN_SHARED_ROW
    launch = _launch_row_sort(node, context, shared)
    return context.code(launch, _launch_row_sort(node, context, False).work)


def _launch_row_sort(node: Node, context: GroupContext, shared: bool) -> Launch:
    emitter = Emitter(context.inlined, context.bindings())
    length = node.output.shape[node.attrs["axis"]]
    rows = node.output.type.size // length
    in_workgroup = shared and 1 << (length - 1).bit_length() <= MOST_IN_WORKGROUP
    own = _sort_functions(node, emitter, rows, length, in_workgroup)
    return launch_sort(context, emitter, own, (rows, length), shared, in_workgroup)


def launch_sort(
    context: GroupContext,
    emitter: Emitter,
    own: tuple[Declaration, ...],
    size: tuple[int, int],
    shared: bool,
    in_workgroup: bool,
    constants: Mapping[str, int] | None = None,
) -> Launch:
    """Sorts rows of some length by `key(o, i)`; `put(o, i, place)` stores where elements were.

    `shared`: one workgroup for each row, else one thread.
    """
    rows, length = size
    padded = 1 << (length - 1).bit_length()
    threads = MOST_THREADS if shared and padded > 4 * THREADS else THREADS
    step = threads if shared else 1
    grid = grid_of(rows if shared else ceil_div(rows, threads))
    stages = padded.bit_length() * (padded.bit_length() - 1) // 2
    sizes = {"ROWS": rows, "LENGTH": length, "PADDED": padded, "THREADS": threads, "STEP": step}
    worker = "workgroup" if shared else "thread"
    memory = [WorkgroupVariable(name, "u32", ("PADDED",)) for name in ("keys", "places")]
    return context.launch(
        "sort",
        emitter,
        constants={**sizes, **(constants or {})},
        functions=own,
        holes={"INDEX": thread_index(grid, 1 if shared else threads)},
        values={"shared": shared, "worker": worker, "keys_in_workgroup": in_workgroup},
        workgroup=(threads, 1, 1),
        grid=grid,
        iterations=stages * (ceil_div(padded, 2 * step) + 1) + 2 * ceil_div(length, step),
        shared=tuple(memory) if in_workgroup else (),
    )


def _sort_functions(
    node: Node, emitter: Emitter, rows: int, length: int, in_workgroup: bool
) -> tuple[Declaration, ...]:
    axis, output = node.attrs["axis"], node.output
    others = coordinates_of(variable("o", rows), (*output.shape[:axis], *output.shape[axis + 1 :]))
    at = _place(others, axis, variable("i", length))
    key = key_of(node.inputs[0].dtype, emitter.at(node.inputs[0], at), "found")
    result = expression("~found" if node.attrs["descending"] else "found")
    own = emitter.function("key(o: u32, i: u32) -> u32", *key, Return(result))
    position = linear(at, output.shape)
    store = emitter.bindings.store(output, position, expression("i32(place)"))
    if not in_workgroup:
        place = Return(Call("u32", (emitter.bindings.load(output, position),)))
        own += emitter.function("place(o: u32, i: u32) -> u32", place)
    return (*own, *emitter.function("put(o: u32, i: u32, place: u32)", store))


def _place(others: Coordinates, axis: int, along: Index) -> Coordinates:
    return (*others[:axis], along, *others[axis:])


def key_of(dtype: str, x: Expr, name: str) -> Body:
    """Statements that define `name`, a u32 that grows with the element `x`."""
    if dtype == "bool":
        return statements(f"let {name} = select(0u, 1u, X);", X=x)
    match wgsl_type(dtype):
        case "u32":
            return statements(f"let {name} = X;", X=x)
        case "i32":
            return statements(f"let {name} = bitcast<u32>(X) ^ 0x80000000u;", X=x)
    return statements(
        f"""
        let bits = bitcast<u32>(select(X, 0.0, X == 0.0));
        let ordered = select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
        let {name} = select(ordered, 0xffffffffu, (bits & 0x7fffffffu) > 0x7f800000u);
        """,
        X=x,
    )


# A row is looked through some 50 times, and a software adapter (llvmpipe) ends the loops of a
# thread after 65,535 iterations in all.
UNROLLED, MAX_UNROLLED = 4, 16
# More often than a row is ever looked through.
LOOKS = 64


def select_code(group: Group, context: GroupContext) -> GroupCode:
    node = group.roots[0]
    shared = node.output.shape[-1] >= MIN_SHARED_ROW
    gpu, plain = (_launch_select(node, context, *how) for how in ((shared, True), (False, False)))
    return context.code(gpu, plain.work)


def _launch_select(node: Node, context: GroupContext, shared: bool, limited: bool) -> Launch:
    """`limited`: a driver ends long loops."""
    emitter = Emitter(context.inlined, context.bindings())
    classes = node.output.shape[-1]
    rows = node.output.type.size // classes
    grid = grid_of(rows if shared else ceil_div(rows, THREADS))
    share = ceil_div(classes, THREADS if shared else 1)
    times = UNROLLED * min(unroll_times(LOOKS * share // UNROLLED), MAX_UNROLLED // UNROLLED)
    times = times if limited else 1
    constants = {"ROWS": rows, "CLASSES": classes, "THREADS": THREADS, "UNROLLED": times}
    constants |= {"INDEX_BITS": max(classes - 1, 1).bit_length()}
    if "k" in node.attrs:
        constants["K"] = int(node.attrs["k"])
    return context.launch(
        "select",
        emitter,
        constants=constants,
        functions=_select_functions(node, emitter, rows, classes),
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
class PairReduction:
    """The threads of a workgroup combine this, in pairs, in an array of this kind."""

    name: str
    array: str
    kind: str
    pattern: str

    @property
    def pair(self) -> str:
        return self.pattern.format(f"{self.array}[lane]", f"{self.array}[lane + half]")


def _reductions(node: Node) -> tuple[PairReduction, ...]:
    """Counts and, without `k`, keys and masses of scores."""
    counts = PairReduction("sum_counts", "counts", "u32", "{} + {}")
    if "k" in node.attrs:
        return (counts,)
    masses = PairReduction("sum_masses", "masses", "f32", "{} + {}")
    return masses, PairReduction("greatest_of", "keys", "u32", "max({}, {})"), counts


def _workgroup_memory(node: Node) -> tuple[WorkgroupVariable, ...]:
    arrays = sorted(_reductions(node), key=lambda reduction: reduction.array)
    return tuple(WorkgroupVariable(r.array, r.kind, ("THREADS",)) for r in arrays)


def _select_functions(
    node: Node, emitter: Emitter, rows: int, classes: int
) -> tuple[Declaration, ...]:
    x, *mass = node.inputs
    position = variable("o", rows) * classes + variable("i", classes)
    at = coordinates_of(position, node.output.shape)
    readers = emitter.reader("score(o: u32, i: u32) -> f32", x, at)
    if mass:
        readers += emitter.reader("mass() -> f32", mass[0], ())
    kept = select(number(HIDDEN, "f32"), Name("x"), Name("kept"))
    store = emitter.store(node.output, at, kept)
    return (*readers, *emitter.function("put(o: u32, i: u32, x: f32, kept: bool)", store))
