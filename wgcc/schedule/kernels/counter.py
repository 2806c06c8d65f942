"""The counter of a loop: one thread sets it before the first round, and advances it after each."""

from __future__ import annotations

from wgcc.schedule.codegen.bindings import shown_as
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.fuse.group import Group
from wgcc.schedule.kernels.context import Context, GroupCode


def counter_code(group: Group, context: Context) -> GroupCode:
    root = group.roots[0]
    emitter = Emitter(context.inlined, context.bindings())
    place, shown = context.place(root.output), shown_as(root.output)
    name = emitter.bindings.use(place, "u32", "y", shown, written=True)
    step = int(root.attrs.get("next", 0))
    moved = f"{name}[0] {'+' if step > 0 else '-'} 1u"
    text = moved if step else f"{root.attrs['start']}u"
    launch = context.launch(
        "loop.wgsl.jinja",
        emitter,
        constants={"OUTER": 1, "WORKGROUP": 1},
        holes={"body": f"  {name}[0] = {text};", "index": "id.x"},
        workgroup=(1, 1, 1),
        grid=(1, 1, 1),
    )
    return context.code(launch, launch)


__all__ = ["counter_code"]
