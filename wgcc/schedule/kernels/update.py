"""Optimizer steps: all tensors of a run at once, four words of their arenas per thread.

Its work is said for one word per thread, without f16 copies. Beside them stands what advances the
counter of a loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wgcc.ir.dtypes import F16
from wgcc.ir.graph import Node
from wgcc.ir.places import SCALARS, ceil_div, span
from wgcc.kernel.build import all_of, expression, functions, let, statements, u32, when
from wgcc.kernel.rewrite.transform import Body
from wgcc.kernel.tree import Assign, Binary, Element, Expr, Let, Name
from wgcc.passes.dataflow import form_of, lists_of, scalars_of
from wgcc.schedule.codegen.bindings import shown_as, thread_index
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.fuse.group import Group
from wgcc.schedule.kernel import Launch, Place, grid_of, has_room
from wgcc.schedule.kernels.context import Context, GroupCode

WORKGROUP = 256
VECTOR = 4


def update_code(group: Group, context: Context) -> GroupCode:
    return context.code(_launch(group, context, VECTOR), _launch(group, context, 1).work)


def _launch(group: Group, context: Context, most: int) -> Launch:
    node = group.roots[0]
    form, emitter = form_of(node), Emitter(context.inlined, context.bindings())
    places = {n: span([context.place(v) for v in vs]) for n, vs in lists_of(node).items()}
    words = max(place.count for place in places.values())
    width = min(_width(places.values()), most)
    element, names = "vec4f" if width == VECTOR else "f32", {}
    for name, place in places.items():
        shown = f"{name}: {', '.join(value.name for value in lists_of(node)[name])}"
        region = Place(place.buffer, place.offset, _whole_vectors(place))
        written = name in form.writes
        names[name] = emitter.bindings.use(region, element, "y" if written else "x", shown, written)
    here = {name: Element(Name(bound), Name("i")) for name, bound in names.items()}
    scalars = [let(n, emitter.at(v, ())) for n, v in scalars_of(node).items()]
    loads = [Let(name, None, here[name], mutable=True) for name in form.lists]
    stores = [Assign(here[name], Name(name)) for name in form.writes]
    copies = _copy(node, context, emitter, places, width, most)
    step = statements(form.wgsl)
    size = ceil_div(words, width)
    grid = grid_of(ceil_div(size, WORKGROUP))
    return context.launch(
        "update",
        emitter,
        constants={"SIZE": size, "WORKGROUP": WORKGROUP},
        values={"four": width == VECTOR},
        holes={
            "INDEX": thread_index(grid, WORKGROUP),
            "BODY": (*emitter.outer.body, *scalars, *loads, *step, *stores, *copies),
        },
        functions=functions(f"alias Values = {element};") if "Values" in form.wgsl else (),
        workgroup=(WORKGROUP, 1, 1),
        grid=grid,
    )


def _copy(
    node: Node,
    context: Context,
    emitter: Emitter,
    places: Mapping[str, Place],
    width: int,
    most: int,
) -> Body:
    """Stores the f16 copies of parameters, which only GPUs have."""
    form = form_of(node)
    if "p" not in form.writes or not has_room(len(form.lists), bool(form.scalars)):
        return ()
    span = context.copied([value.name for value in lists_of(node)["p"]])
    if span is None:
        return ()
    kind = "vec4h" if width == VECTOR else F16
    name = emitter.bindings.use(span.copy, kind, "y", "p as f16, where products load it", True)
    if most == 1:
        return ()
    first, last = places["p"].offset, places["p"].offset + _whole_vectors(places["p"])
    shift = (span.start - first) // width
    i: Expr = Name("i")
    after = Binary(">=", i, u32(shift)) if shift > 0 else None
    before = Binary("<", i, u32((span.end - first) // width)) if span.end < last else None
    at = Binary("-" if shift > 0 else "+", i, u32(abs(shift))) if shift else i
    store = Assign(Element(Name(name), at), expression(f"{kind}(p)"))
    return when(all_of((after, before)), (store,))


def _width(places: Iterable[Place]) -> int:
    """Four words at once, but not of scalars, which are packed."""
    return 1 if any(place.buffer == SCALARS for place in places) else VECTOR


def _whole_vectors(place: Place) -> int:
    """Its words as whole vec4, which take in padding at most.

    Tensors start on boundaries and buffers end on 16 bytes.
    """
    return place.count if place.buffer == SCALARS else ceil_div(place.count, VECTOR) * VECTOR


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
    return context.code(launch)
