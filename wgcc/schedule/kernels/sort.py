"""Sorting rows: the positions of their elements, put in order by a bitonic network.

One workgroup shares a row on a GPU, in workgroup memory if it fits; short rows, and those of the
twin, have one thread each.
"""

from __future__ import annotations

from wgcc.ir.graph import Node
from wgcc.ir.index import Coordinates, Index, coordinates_of, linear, variable
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.codegen.grid import grid_of, thread_index
from wgcc.schedule.fuse.fuse import Group
from wgcc.schedule.kernel import Launch, WorkgroupVariable
from wgcc.schedule.kernels.context import Context, GroupCode
from wgcc.schedule.kernels.order_keys import key_lines

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
    padded = 1 << (length - 1).bit_length()
    threads = MOST_THREADS if shared and padded > 4 * THREADS else THREADS
    step = threads if shared else 1
    in_workgroup = shared and padded <= MOST_IN_WORKGROUP
    grid = grid_of(rows if shared else -(-rows // threads))
    stages = padded.bit_length() * (padded.bit_length() - 1) // 2
    return context.launch(
        "sort.wgsl.jinja",
        emitter,
        constants={
            "ROWS": rows, "LENGTH": length, "PADDED": padded, "THREADS": threads, "STEP": step
        },
        holes={
            "functions": _functions(node, emitter, rows, length, in_workgroup),
            "index": thread_index(grid, 1 if shared else threads),
            "shared": shared,
            "worker": "workgroup" if shared else "thread",
            "keys_in_workgroup": in_workgroup,
        },
        workgroup=(threads, 1, 1),
        grid=grid,
        iterations=stages * (-(-padded // (2 * step)) + 1) + 2 * -(-length // step),
        shared=_workgroup_memory() if in_workgroup else (),
    )  # fmt: skip


def _workgroup_memory() -> tuple[WorkgroupVariable, ...]:
    return tuple(WorkgroupVariable(name, "u32", ("PADDED",)) for name in ("keys", "places"))


def _functions(node: Node, emitter: Emitter, rows: int, length: int, in_workgroup: bool) -> str:
    axis, output = node.attrs["axis"], node.output
    others = coordinates_of(variable("o", rows), (*output.shape[:axis], *output.shape[axis + 1 :]))
    at = _place(others, axis, variable("i", length))
    x = emitter.at(node.inputs[0], at)
    result = "return ~found;" if node.attrs["descending"] else "return found;"
    lines = [*emitter.outer.lines, *key_lines(node.inputs[0].dtype, x, "found"), result]
    found = ["fn key(o: u32, i: u32) -> u32 {", *(f"  {line}" for line in lines), "}"]
    position = linear(at, output.shape)
    store = emitter.bindings.store(output, position, "i32(place)")
    if not in_workgroup:
        load = emitter.bindings.load(output, position)
        found.append(f"fn place(o: u32, i: u32) -> u32 {{ return u32({load}); }}")
    found.append(f"fn put(o: u32, i: u32, place: u32) {{ {store} }}")
    return "\n".join(found)


def _place(others: Coordinates, axis: int, along: Index) -> Coordinates:
    return (*others[:axis], along, *others[axis:])
