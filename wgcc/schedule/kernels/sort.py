"""Sorting rows: the positions of their elements, put in order by a bitonic network.

One workgroup shares a row on a GPU, in workgroup memory if it fits; short rows, and those of the
twin, have one thread each.
"""

from __future__ import annotations

from collections.abc import Mapping

from wgcc.ir.graph import Node
from wgcc.ir.index import Coordinates, Index, coordinates_of, linear, variable
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import expression
from wgcc.kernel.tree import Call, Declaration, Return
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.codegen.limits import grid_of, thread_index
from wgcc.schedule.fuse.fuse import Group
from wgcc.schedule.kernel import Launch, WorkgroupVariable
from wgcc.schedule.kernels.context import Context, GroupCode
from wgcc.schedule.kernels.order_keys import key_of

THREADS = 64
# The most that WebGPU's default limits allow.
MOST_THREADS = 256
# Longer rows are shared.
MIN_SHARED_ROW = 32
# Two words of each element take 16 KiB, all the workgroup memory of the default limits.
MOST_IN_WORKGROUP = 2048


def sort_code(group: Group, context: Context) -> GroupCode:
    node = group.roots[0]
    shared = node.output.shape[node.attrs["axis"]] > MIN_SHARED_ROW
    return context.code(_launch(node, context, shared), _launch(node, context, False))


def _launch(node: Node, context: Context, shared: bool) -> Launch:
    emitter = Emitter(context.inlined, context.bindings())
    length = node.output.shape[node.attrs["axis"]]
    rows = node.output.type.size // length
    in_workgroup = shared and 1 << (length - 1).bit_length() <= MOST_IN_WORKGROUP
    own = _functions(node, emitter, rows, length, in_workgroup)
    return launch_sort(context, emitter, own, (rows, length), shared, in_workgroup)


def launch_sort(
    context: Context,
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


def _functions(
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
