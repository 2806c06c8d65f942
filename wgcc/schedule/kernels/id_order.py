"""Positions of ids in the order of ids: sorted in runs, and runs merged into longer ones.

Both are in a fixed order without atomics: of equal ids the first position is first.
"""

from __future__ import annotations

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import coordinates_of, linear, variable
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import expression, select, statements, when
from wgcc.kernel.tree import Call, Declaration, Name, Return
from wgcc.ops.gather import FAN, RUN
from wgcc.schedule.codegen.emitter import Emitter, Scope
from wgcc.schedule.codegen.limits import grid_of, thread_index
from wgcc.schedule.codegen.terms import clamped
from wgcc.schedule.fuse.fuse import Group
from wgcc.schedule.kernel import Launch
from wgcc.schedule.kernels.context import Context, GroupCode
from wgcc.schedule.kernels.sort import launch_sort

THREADS = 64
# What lanes of a workgroup share longer runs than this for.
MIN_SHARED_RUN = 32


def order_ids_code(group: Group, context: Context) -> GroupCode:
    node = group.roots[0]
    shared = node.output.type.size > MIN_SHARED_RUN
    return context.code(_order(node, context, shared), _order(node, context, False))


def merge_ids_code(group: Group, context: Context) -> GroupCode:
    launch = _merge(group.roots[0], context)
    return context.code(launch, launch)


def id_reader(emitter: Emitter, ids: Value, rows: int) -> tuple[Declaration, ...]:
    """The function `id_at(p)`: the row of the table that the id at a position names."""
    emitter.outer = Scope()
    raw = emitter.at(ids, coordinates_of(variable("p", ids.type.size), ids.shape))
    return emitter.function("id_at(p: u32) -> u32", Return(clamped(raw, rows - 1, ids.dtype)))


def order_reader(emitter: Emitter, order: Value) -> tuple[Declaration, ...]:
    """The function `place(i)`: the i-th of COUNT positions."""
    emitter.outer = Scope()
    place = emitter.at(order, (variable("i", order.type.size),))
    inside = expression("min(u32(PLACE), COUNT - 1u)", PLACE=place)
    return emitter.function("place(i: u32) -> u32", Return(inside))


def half_of(length: int) -> int:
    """The first step of a search among so many: the greatest power of two in it."""
    return 1 << (length.bit_length() - 1)


def _order(node: Node, context: Context, shared: bool) -> Launch:
    """One workgroup, or one thread, for each run."""
    emitter = Emitter(context.inlined, context.bindings())
    count = node.output.type.size
    length = min(count, RUN)
    own = _order_functions(node, emitter, length, shared)
    size, constants = (ceil_div(count, RUN), length), {"COUNT": count}
    return launch_sort(context, emitter, own, size, shared, shared, constants)


def _order_functions(
    node: Node, emitter: Emitter, length: int, shared: bool
) -> tuple[Declaration, ...]:
    """Behind the last id, the last run has keys that stay where they are."""
    output, rows = node.output, int(node.attrs["rows"])
    readers = id_reader(emitter, node.inputs[0], rows)
    is_ragged = output.type.size % length > 0
    inside = expression("o * LENGTH + i < COUNT") if is_ragged else None
    place = "let p = min(o * LENGTH + i, COUNT - 1u);" if inside else "let p = o * LENGTH + i;"
    at = statements(place)
    key = expression("id_at(p)")
    key = select(expression("0xffffffffu"), key, inside) if inside else key
    own = emitter.function("key(o: u32, i: u32) -> u32", *at, Return(key))
    position = linear((variable("p", output.type.size),), output.shape)
    if not shared:
        load = Call("u32", (emitter.bindings.load(output, position),))
        old = expression("LOAD - o * LENGTH", LOAD=load)
        old = select(Name("i"), old, inside) if inside else old
        own += emitter.function("place(o: u32, i: u32) -> u32", *at, Return(old))
    store = emitter.bindings.store(output, position, expression("i32(o * LENGTH + place)"))
    put = emitter.function("put(o: u32, i: u32, place: u32)", *at, *when(inside, (store,)))
    return (*readers, *own, *put)


def _merge(node: Node, context: Context) -> Launch:
    """One thread per position: how many of the other runs come before it is where it goes."""
    emitter = Emitter(context.inlined, context.bindings())
    order, ids = node.inputs
    count, run, rows = order.type.size, int(node.attrs["run"]), int(node.attrs["rows"])
    own = (*id_reader(emitter, ids, rows), *order_reader(emitter, order))
    position = expression("i32(position)")
    store = emitter.bindings.store(node.output, variable("rank", count), position)
    grid = grid_of(ceil_div(count, THREADS))
    return context.launch(
        "merge_ids",
        emitter,
        constants={
            "COUNT": count, "RUN": run, "RUNS": ceil_div(count, run), "FAN": FAN,
            "HALF": half_of(run), "WORKGROUP": THREADS,
        },
        functions=own,
        holes={"INDEX": thread_index(grid, THREADS), "STORE": (store,)},
        workgroup=(THREADS, 1, 1),
        grid=grid,
        iterations=FAN * (run.bit_length() + 1),
    )  # fmt: skip
