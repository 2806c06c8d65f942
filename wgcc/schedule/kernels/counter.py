"""The counter of a loop: one thread sets it before the first round, and advances it after each."""

from __future__ import annotations

from wgcc.kernel.build import expression, u32
from wgcc.kernel.tree import Assign, Binary, Element, Name
from wgcc.schedule.codegen.bindings import shown_as
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.fuse.group import Group
from wgcc.schedule.kernels.context import Context, GroupCode


def counter_code(group: Group, context: Context) -> GroupCode:
    root = group.roots[0]
    emitter = Emitter(context.inlined, context.bindings())
    place, shown = context.place(root.output), shown_as(root.output)
    name = emitter.bindings.use(place, "u32", "y", shown, written=True)
    word = Element(Name(name), expression("0"))
    step = int(root.attrs.get("next", 0))
    moved = Binary("+" if step > 0 else "-", word, u32(1))
    body = (Assign(word, moved if step else u32(int(root.attrs["start"]))),)
    launch = context.launch_threads(emitter, body, threads=1, workgroup=1)
    return context.code(launch, launch)


__all__ = ["counter_code"]
