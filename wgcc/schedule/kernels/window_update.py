"""Writing a window of a tensor at a place found at run time: over the old one, or into a copy.

A window that does not fit is not written.
"""

from __future__ import annotations

from wgcc.ir.graph import Node
from wgcc.ir.index import Index, coordinates_of, variable
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.codegen.grid import grid_of, thread_index
from wgcc.schedule.codegen.wgsl import wgsl_type
from wgcc.schedule.fuse.fuse import Group
from wgcc.schedule.kernel import Launch
from wgcc.schedule.kernels.byte_window import Rows, overwritten_bytes
from wgcc.schedule.kernels.context import Context, GroupCode

WORKGROUP = 64


def window_update_code(group: Group, context: Context) -> GroupCode:
    node = group.roots[0]
    in_place = context.is_at_same_place(node.inputs[0], node.output)
    if in_place:
        write = _overwrite_bytes if context.place(node.output).in_bytes else _overwrite
        launch = write(node, context)
    else:
        launch = _merge(node, context)
    return context.code(launch, launch)


def _overwrite(node: Node, context: Context) -> Launch:
    """One thread per element of the window."""
    _, update, _ = node.inputs
    emitter = Emitter(context.inlined, context.bindings())
    start, fits = _start(node, emitter, context)
    axis = int(node.attrs["axis"])
    here = coordinates_of(variable("o", update.type.size), update.shape)
    there = (*here[:axis], here[axis] + start, *here[axis + 1 :])
    store = emitter.store(node.output, there, emitter.at(update, here))
    store = f"if ({fits}) {{ {store} }}" if fits else store
    return _launch(emitter, context, [*emitter.outer.lines, store], update.type.size)


def _overwrite_bytes(node: Node, context: Context) -> Launch:
    """One thread per word that the window may touch."""
    emitter = Emitter(context.inlined, context.bindings())
    start, fits = _start(node, emitter, context)
    lines = overwritten_bytes(node, emitter, start, fits)
    return _launch(emitter, context, lines, Rows.of(node).threads)


def _merge(node: Node, context: Context) -> Launch:
    """One thread per element of the whole."""
    base, update, _ = node.inputs
    emitter = Emitter(context.inlined, context.bindings())
    start, fits = _start(node, emitter, context)
    axis = int(node.attrs["axis"])
    size = update.shape[axis]
    here = coordinates_of(variable("o", base.type.size), base.shape)
    old = emitter.at(base, here)
    place = here[axis].wgsl()
    among = f"{place} >= {start.wgsl()} && {place} - {start.wgsl()} < {size}u"
    inside = emitter.let("inside", f"{fits} && {among}" if fits else among, here)
    at = emitter.let("at", f"select(0u, {place} - {start.wgsl()}, {inside})", here)
    there = (*here[:axis], variable(at, size), *here[axis + 1 :])
    new = emitter.at(update, there)
    store = emitter.store(node.output, here, f"select({old}, {new}, {inside})")
    return _launch(emitter, context, [*emitter.outer.lines, store], base.type.size)


def _start(node: Node, emitter: Emitter, context: Context) -> tuple[Index, str]:
    """Where the window starts, and the name of the condition that it fits, if it may not.

    The start is clamped all the same, because addresses must be valid whether or not it fits.
    """
    base, update, at = node.inputs
    axis = int(node.attrs["axis"])
    limit = base.shape[axis] - update.shape[axis]
    raw = emitter.at(at, ())
    if wgsl_type(at.dtype) == "u32":
        clamped, fits = f"min({raw}, {limit}u)", f"{raw} <= {limit}u"
    else:
        clamped, fits = f"u32(clamp({raw}, 0, {limit}))", f"{raw} >= 0 && {raw} <= {limit}"
    start = variable(emitter.let("start", clamped, ()), limit + 1)
    made = context.inlined.get(at.name)
    is_fixed = made is not None and made.op == "const"
    return start, "" if is_fixed else emitter.let("fits", fits, ())


def _launch(emitter: Emitter, context: Context, lines: list[str], threads: int) -> Launch:
    grid = grid_of(-(-threads // WORKGROUP))
    return context.launch(
        "loop.wgsl.jinja",
        emitter,
        constants={"OUTER": threads, "WORKGROUP": WORKGROUP},
        holes={
            "body": "\n".join(f"  {line}" for line in lines),
            "index": thread_index(grid, WORKGROUP),
        },
        workgroup=(WORKGROUP, 1, 1),
        grid=grid,
    )
