"""Positions of ids in the order of ids: sorted in runs, and runs merged into longer ones.

Both are in a fixed order without atomics: of equal ids the first position is first.
"""

from __future__ import annotations

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import coordinates_of, linear, variable
from wgcc.ops.id_sums import FAN, RUN
from wgcc.schedule.codegen.emitter import Emitter, Scope
from wgcc.schedule.codegen.grid import grid_of, thread_index
from wgcc.schedule.codegen.wgsl import wgsl_type
from wgcc.schedule.fuse.fuse import Group
from wgcc.schedule.kernel import Launch, WorkgroupVariable
from wgcc.schedule.kernels.context import Context, GroupCode

THREADS = 64
# Of a workgroup that sorts a run.
MOST_THREADS = 256
# What lanes of a workgroup share longer runs than this for.
MIN_SHARED_RUN = 32


def order_ids_code(group: Group, context: Context) -> GroupCode:
    node = group.roots[0]
    shared = node.output.type.size > MIN_SHARED_RUN
    return context.code(_order(node, context, shared), _order(node, context, False))


def merge_ids_code(group: Group, context: Context) -> GroupCode:
    launch = _merge(group.roots[0], context)
    return context.code(launch, launch)


def id_reader(emitter: Emitter, ids: Value, rows: int) -> str:
    """The function `id_at(p)`: the row of the table that the id at a position names."""
    emitter.outer = Scope()
    raw = emitter.at(ids, coordinates_of(variable("p", ids.type.size), ids.shape))
    unsigned = wgsl_type(ids.dtype) == "u32"
    row = f"min({raw}, {rows - 1}u)" if unsigned else f"u32(clamp({raw}, 0, {rows - 1}))"
    lines = "".join(f"  {line}\n" for line in emitter.outer.lines)
    emitter.outer = Scope()
    return f"fn id_at(p: u32) -> u32 {{\n{lines}  return {row};\n}}"


def order_reader(emitter: Emitter, order: Value) -> str:
    """The function `place(i)`: the i-th of COUNT positions."""
    emitter.outer = Scope()
    found = emitter.at(order, (variable("i", order.type.size),))
    lines = "".join(f"  {line}\n" for line in emitter.outer.lines)
    emitter.outer = Scope()
    return f"fn place(i: u32) -> u32 {{\n{lines}  return min(u32({found}), COUNT - 1u);\n}}"


def half_of(length: int) -> int:
    """The first step of a search among so many: the greatest power of two in it."""
    return 1 << (length.bit_length() - 1)


def _order(node: Node, context: Context, shared: bool) -> Launch:
    """One workgroup, or one thread, for each run."""
    emitter = Emitter(context.inlined, context.bindings())
    count = node.output.type.size
    length, runs = min(count, RUN), -(-count // RUN)
    padded = 1 << (length - 1).bit_length()
    threads = MOST_THREADS if shared and padded > 4 * THREADS else THREADS
    step = threads if shared else 1
    grid = grid_of(runs if shared else -(-runs // threads))
    stages = padded.bit_length() * (padded.bit_length() - 1) // 2
    return context.launch(
        "sort.wgsl.jinja",
        emitter,
        constants={
            "ROWS": runs, "LENGTH": length, "PADDED": padded, "THREADS": threads, "STEP": step,
            "COUNT": count,
        },
        holes={
            "functions": _order_functions(node, emitter, length, shared),
            "index": thread_index(grid, 1 if shared else threads),
            "shared": shared,
            "worker": "workgroup" if shared else "thread",
            "keys_in_workgroup": shared,
        },
        workgroup=(threads, 1, 1),
        grid=grid,
        iterations=stages * (-(-padded // (2 * step)) + 1) + 2 * -(-length // step),
        shared=_workgroup_memory() if shared else (),
    )  # fmt: skip


def _workgroup_memory() -> tuple[WorkgroupVariable, ...]:
    return tuple(WorkgroupVariable(name, "u32", ("PADDED",)) for name in ("keys", "places"))


def _order_functions(node: Node, emitter: Emitter, length: int, shared: bool) -> str:
    """Behind the last id, the last run has keys that stay where they are."""
    output, rows = node.output, int(node.attrs["rows"])
    found = [id_reader(emitter, node.inputs[0], rows)]
    if output.type.size % length == 0:
        at, inside, key = "o * LENGTH + i", "", "id_at(o * LENGTH + i)"
    else:
        at, inside = "min(o * LENGTH + i, COUNT - 1u)", "o * LENGTH + i < COUNT"
        key = f"select(0xffffffffu, id_at({at}), {inside})"
    found.append(f"fn key(o: u32, i: u32) -> u32 {{ return {key}; }}")
    position = linear((variable("p", output.type.size),), output.shape)
    if not shared:
        place = f"u32({emitter.bindings.load(output, position)}) - o * LENGTH"
        place = f"select(i, {place}, {inside})" if inside else place
        found.append(f"fn place(o: u32, i: u32) -> u32 {{\n  let p = {at};\n  return {place};\n}}")
    store = emitter.bindings.store(output, position, "i32(o * LENGTH + place)")
    store = f"if ({inside}) {{ {store} }}" if inside else store
    found.append(f"fn put(o: u32, i: u32, place: u32) {{\n  let p = {at};\n  {store}\n}}")
    return "\n".join(found)


def _merge(node: Node, context: Context) -> Launch:
    """One thread per position: how many of the other runs come before it is where it goes."""
    emitter = Emitter(context.inlined, context.bindings())
    order, ids = node.inputs
    count, run, rows = order.type.size, int(node.attrs["run"]), int(node.attrs["rows"])
    readers = [id_reader(emitter, ids, rows), order_reader(emitter, order)]
    store = emitter.bindings.store(node.output, variable("rank", count), "i32(position)")
    grid = grid_of(-(-count // THREADS))
    return context.launch(
        "merge_ids.wgsl.jinja",
        emitter,
        constants={
            "COUNT": count, "RUN": run, "RUNS": -(-count // run), "FAN": FAN,
            "HALF": half_of(run), "WORKGROUP": THREADS,
        },
        holes={
            "functions": "\n".join(readers),
            "store": store,
            "index": thread_index(grid, THREADS),
        },
        workgroup=(THREADS, 1, 1),
        grid=grid,
        iterations=FAN * (run.bit_length() + 1),
    )  # fmt: skip
