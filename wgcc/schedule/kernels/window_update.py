"""Writing a window of a tensor at a place found at run time: over the old one, or into a copy.

A window that does not fit is not written.
"""

from __future__ import annotations

from wgcc.ir.graph import Node
from wgcc.ir.index import Index, coordinates_of, variable
from wgcc.kernel.build import all_of, expression, select, u32, when
from wgcc.kernel.tree import Binary, Expr
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.codegen.terms import clamped, expr_of, wgsl_type
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
    body = (*emitter.outer.body, *when(fits, (store,)))
    return context.launch_threads(emitter, body, update.type.size, WORKGROUP)


def _overwrite_bytes(node: Node, context: Context) -> Launch:
    """One thread per word that the window may touch."""
    emitter = Emitter(context.inlined, context.bindings())
    start, fits = _start(node, emitter, context)
    body = overwritten_bytes(node, emitter, start, fits)
    return context.launch_threads(emitter, body, Rows.of(node).threads, WORKGROUP)


def _merge(node: Node, context: Context) -> Launch:
    """One thread per element of the whole."""
    base, update, _ = node.inputs
    emitter = Emitter(context.inlined, context.bindings())
    start, fits = _start(node, emitter, context)
    axis = int(node.attrs["axis"])
    size = update.shape[axis]
    here = coordinates_of(variable("o", base.type.size), base.shape)
    old = emitter.at(base, here)
    place, first = expr_of(here[axis]), expr_of(start)
    behind = Binary(">=", place, first)
    before = Binary("<", Binary("-", place, first), u32(size))
    condition = all_of((fits, behind, before))
    assert condition is not None
    inside = emitter.let("inside", condition, here)
    at = emitter.let("at", select(u32(0), Binary("-", place, first), inside), here)
    there = (*here[:axis], variable(at.name, size), *here[axis + 1 :])
    new = emitter.at(update, there)
    store = emitter.store(node.output, here, select(old, new, inside))
    return context.launch_threads(emitter, (*emitter.outer.body, store), base.type.size, WORKGROUP)


def _start(node: Node, emitter: Emitter, context: Context) -> tuple[Index, Expr | None]:
    """Where the window starts, and the condition that it fits, if it may not.

    The start is clamped all the same, because addresses must be valid whether or not it fits.
    """
    base, update, at = node.inputs
    axis = int(node.attrs["axis"])
    limit = base.shape[axis] - update.shape[axis]
    raw = emitter.at(at, ())
    start = emitter.let("start", clamped(raw, limit, at.dtype), ())
    index = variable(start.name, limit + 1)
    made = context.inlined.get(at.name)
    if made is not None and made.op == "const":
        return index, None
    if wgsl_type(at.dtype) == "u32":
        fits: Expr = Binary("<=", raw, u32(limit))
    else:
        fits = expression(f"RAW >= 0 && RAW <= {limit}", RAW=raw)
    return index, emitter.let("fits", fits, ())
