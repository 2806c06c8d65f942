"""Optimizer steps, the f16 copies of parameters that products read, and counters of loops.

A step takes all tensors of a run at once, four words of their arenas per thread; its work is said
for one word per thread, without copies. Copies are in buffers of their own: steps store them beside
the parameters, and `refresh` makes them anew where something else has written those.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from wgcc.ir.dtypes import F16, FLOATS
from wgcc.ir.graph import Graph, Node
from wgcc.ir.places import SCALARS, ceil_div, round_up, span
from wgcc.kernel.build import all_of, expression, functions, let, statements, u32, when
from wgcc.kernel.rewrite.transform import Body
from wgcc.kernel.tree import Assign, Binary, Element, Expr, Let, Module, Name
from wgcc.passes.dataflow import form_of, is_update, lists_of, replaced_by, scalars_of
from wgcc.passes.lay_out import PARAMS
from wgcc.schedule.codegen.bindings import shown_as, thread_index
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.fuse.group import Group
from wgcc.schedule.kernel import (
    ALIGNMENT,
    GPU,
    Binding,
    Dispatch,
    Kernel,
    Launch,
    Place,
    grid_of,
    has_room,
)
from wgcc.schedule.kernels.context import GroupCode, GroupContext

WORKGROUP = 256
VECTOR = 4
COPIES = "copies"
# Words of parameters whose copies start on a boundary for binding.
STEP = 2 * ALIGNMENT
LABEL = "f16 copies"
# The page of kernels that make a step of an optimizer.
UPDATE_PAGE = "update"
PAGE = """
// Element by element, whatever tensor it belongs to{}.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {{
  let i = INDEX;
  if (i >= SIZE) {{ return; }}
  BODY();
}}
"""


def update_code(group: Group, context: GroupContext) -> GroupCode:
    return context.code(_launch(group, context, VECTOR), _launch(group, context, 1).work)


def _launch(group: Group, context: GroupContext, most: int) -> Launch:
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
        UPDATE_PAGE,
        emitter,
        constants={"SIZE": size, "WORKGROUP": WORKGROUP},
        body=_page(grid, width, (*emitter.outer.body, *scalars, *loads, *step, *stores, *copies)),
        functions=functions(f"alias Values = {element};") if "Values" in form.wgsl else (),
        workgroup=(WORKGROUP, 1, 1),
        grid=grid,
    )


def _page(grid: tuple[int, int, int], width: int, body: Body) -> Module:
    text = PAGE.format("; a thread makes four of them" if width == VECTOR else "")
    return Module(functions(text, INDEX=thread_index(grid, WORKGROUP), BODY=body))


def _copy(
    node: Node,
    context: GroupContext,
    emitter: Emitter,
    places: Mapping[str, Place],
    width: int,
    most: int,
) -> Body:
    """Stores the f16 copies of parameters, which only GPUs have."""
    form = form_of(node)
    if "p" not in form.writes or not has_room(len(form.lists), bool(form.scalars)):
        return ()
    copied = context.copied([value.name for value in lists_of(node)["p"]])
    if copied is None:
        return ()
    master, copy = copied
    kind = "vec4h" if width == VECTOR else F16
    name = emitter.bindings.use(copy, kind, "y", "p as f16, where products load it", True)
    if most == 1:
        return ()
    first, last = places["p"].offset, places["p"].offset + _whole_vectors(places["p"])
    shift = (master.offset - first) // width
    end = master.offset + master.count
    i: Expr = Name("i")
    after = Binary(">=", i, u32(shift)) if shift > 0 else None
    before = Binary("<", i, u32((end - first) // width)) if end < last else None
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


def counter_code(group: Group, context: GroupContext) -> GroupCode:
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


def copies_of(buffer: str) -> str:
    """The buffer with copies of another: `copies2` of `params2`, `copies_frozen` of `frozen`."""
    is_numbered = buffer.startswith(PARAMS)
    return COPIES + (buffer.removeprefix(PARAMS) if is_numbered else f"_{buffer}")


def master(buffer: str) -> str:
    """The buffer of the parameters that a buffer of copies belongs to."""
    rest = buffer.removeprefix(COPIES)
    return rest[1:] if rest.startswith("_") else PARAMS + rest


@dataclass(frozen=True, slots=True)
class CopiedSpan:
    """Words `start` to `end` of a buffer of parameters; a copy of the first can be bound."""

    buffer: str
    start: int
    end: int

    @classmethod
    def of(cls, places: Collection[Place]) -> CopiedSpan:
        start = min(place.offset for place in places) // STEP * STEP
        end = max(place.offset + place.count for place in places)
        return cls(next(iter(places)).buffer, start, round_up(end, VECTOR))

    @property
    def words(self) -> int:
        return self.end - self.start

    @property
    def region(self) -> Place:
        return Place(self.buffer, self.start, self.words)

    @property
    def copy(self) -> Place:
        return Place(copies_of(self.buffer), self.start // 2, self.words, half=True)


@dataclass(slots=True)
class Copies:
    """`masters`: the places of the parameters that products read copies of, by name."""

    masters: dict[str, Place] = field(default_factory=dict)

    @classmethod
    def of(cls, names: Iterable[str], places: Mapping[str, Place]) -> Copies:
        return cls({name: places[name] for name in sorted(names)})

    def __bool__(self) -> bool:
        return bool(self.masters)

    def place(self, name: str) -> Place:
        """The place of a copy. Kernels bind an earlier boundary, if its own start is none."""
        place = self.masters[name]
        count = round_up(place.count, 2)
        buffer = copies_of(place.buffer)
        own = Place(buffer, place.offset // 2, count, half=True)
        before = place.offset % STEP
        if not before:
            return own
        bound = Place(buffer, (place.offset - before) // 2, count + before, half=True)
        return Place(buffer, own.offset, count, half=True, pack=bound)

    def spans(self, names: Iterable[str] | None = None) -> list[CopiedSpan]:
        """The spans to copy after these parameters were written, one of each buffer."""
        wanted = self.masters.keys() if names is None else self.masters.keys() & set(names)
        buffers: dict[str, list[Place]] = {}
        for name in sorted(wanted):
            buffers.setdefault(self.masters[name].buffer, []).append(self.masters[name])
        return [CopiedSpan.of(places) for places in buffers.values()]

    def regions_to_copy(self, names: Sequence[str]) -> tuple[Place, Place] | None:
        """The region that an update of these neighbouring parameters copies, and the copy."""
        spans = self.spans(names)
        return (spans[0].region, spans[0].copy) if spans else None

    def refresh(self, names: Iterable[str] | None = None) -> tuple[Dispatch, ...]:
        return tuple(_dispatch(span) for span in self.spans(names))

    def left_over(self, graph: Graph) -> set[str]:
        """Parameters that an entry writes by other kernels than those that copy them."""
        updated = {
            old.name
            for node in graph.nodes
            if is_update(node) and has_room(len(form_of(node).lists), bool(form_of(node).scalars))
            for new, old in replaced_by(node).items()
            if old in lists_of(node).get("p", ()) and _is_written(graph, old.name, new)
        }
        return self.masters.keys() & graph.writes.keys() - updated


def _is_written(graph: Graph, name: str, new: str) -> bool:
    """Is this what the entry leaves in the parameter? It may be written again after its update."""
    return name in graph.writes and graph.writes[name].name == new


def _dispatch(span: CopiedSpan) -> Dispatch:
    gpu = _kernel(span, VECTOR)
    grid = grid_of(ceil_div(span.words, VECTOR * WORKGROUP))
    shows = (f"{span.buffer}, words {span.start} to {span.end}", "the same as f16")
    work, places = Launch(_kernel(span, 1), grid).work, (span.region, span.copy)
    return Dispatch(LABEL, places, {GPU: Launch(gpu, grid)}, shows, ((work, places),))


def _kernel(span: CopiedSpan, width: int) -> Kernel:
    size = span.words // width
    word, half = ("vec4f", "vec4h") if width == VECTOR else FLOATS
    grid = grid_of(ceil_div(size, WORKGROUP))
    copy = statements(f"y0[i] = {half}(x0[i]);")
    return Kernel(
        "update",
        (Binding("x0", word, size, written=False), Binding("y0", half, size, written=True)),
        (("SIZE", size), ("WORKGROUP", WORKGROUP)),
        _page(grid, width, copy),
        functions=(),
        workgroup=(WORKGROUP, 1, 1),
    )
