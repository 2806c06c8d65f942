"""Optimizer steps: one thread per word of an arena, all tensors of a run at once."""

from __future__ import annotations

from wgcc.schedule.arena import form_of, lists_of, scalars_of, span
from wgcc.schedule.context import Context, GroupCode
from wgcc.schedule.emit import Emitter
from wgcc.schedule.fuse import Group
from wgcc.schedule.grid import grid_of, thread_index
from wgcc.schedule.kernel import Launch, Region

WORKGROUP = {"gpu": 256, "cpu": 64}


def update_code(group: Group, context: Context) -> GroupCode:
    return context.code({profile: _launch(group, context, profile) for profile in ("gpu", "cpu")})


def _launch(group: Group, context: Context, profile: str) -> Launch:
    node = group.roots[0]
    form, emitter = form_of(node), Emitter(context.inlined, context.bindings())
    places = {n: span([context.place(v) for v in vs]) for n, vs in lists_of(node).items()}
    names = {}
    for name, place in places.items():
        shown = f"{name}: {', '.join(value.name for value in lists_of(node)[name])}"
        region = Region(place.buffer, place.offset, place.count)
        written = name in form.writes
        names[name] = emitter.bindings.use(region, "f32", "y" if written else "x", shown, written)
    loads = [f"var {name} = {names[name]}[i];" for name in form.lists]
    scalars = [f"let {n} = {emitter.at(v, ())};" for n, v in scalars_of(node).items()]
    stores = [f"{names[name]}[i] = {name};" for name in form.writes]
    lines = [*emitter.outer.lines, *scalars, *loads, *form.wgsl.strip().splitlines(), *stores]
    size, threads = max(place.count for place in places.values()), WORKGROUP[profile]
    grid = grid_of(-(-size // threads))
    return context.launch(
        "update.wgsl.jinja",
        emitter,
        constants={"SIZE": size, "WORKGROUP": threads},
        holes={
            "body": "\n".join(f"  {line}" for line in lines),
            "index": thread_index(grid, threads),
        },
        workgroup=(threads, 1, 1),
        grid=grid,
    )
