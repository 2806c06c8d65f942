"""f16 copies of weights, for a model of `precision = f16`: products read two bytes of each.

Parameters themselves stay f32. Their copies have the same order in an arena of f16, so that the
kernel of an update writes both. Whatever else changes a parameter is followed by `refresh`: at the
end of an entry, and in runtimes after they have written parameters. Only GPUs have
copies: elsewhere `params` itself is bound.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from wgcc.ir.dtypes import FLOATS
from wgcc.ir.graph import Graph
from wgcc.ir.places import Place, ceil_div, round_up
from wgcc.kernel.build import statements
from wgcc.passes.dataflow import form_of, is_update, lists_of, replaced_by
from wgcc.passes.lay_out import PARAMS
from wgcc.schedule.codegen.bindings import thread_index
from wgcc.schedule.kernel import (
    ALIGNMENT,
    GPU,
    Binding,
    Dispatch,
    Kernel,
    Launch,
    grid_of,
    has_room,
)
from wgcc.schedule.kernels.render import page

COPIES = "copies"
# Words of parameters whose copies start on a boundary for binding.
STEP = 2 * ALIGNMENT
VECTOR = 4
WORKGROUP = 256
LABEL = "f16 copies"


def copies_of(buffer: str) -> str:
    """The buffer with copies of another: `copies2` of `params2`, `copies_frozen` of `frozen`."""
    is_numbered = buffer.startswith(PARAMS)
    return COPIES + (buffer.removeprefix(PARAMS) if is_numbered else f"_{buffer}")


def master(buffer: str) -> str:
    """The buffer of the parameters that a buffer of copies belongs to."""
    rest = buffer.removeprefix(COPIES)
    return rest[1:] if rest.startswith("_") else PARAMS + rest


@dataclass(frozen=True, slots=True)
class Span:
    """Words `start` to `end` of a buffer of parameters; a copy of the first can be bound."""

    buffer: str
    start: int
    end: int

    @classmethod
    def of(cls, places: Collection[Place]) -> Span:
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

    def spans(self, names: Iterable[str] | None = None) -> list[Span]:
        """The spans to copy after these parameters were written, one of each buffer."""
        wanted = self.masters.keys() if names is None else self.masters.keys() & set(names)
        buffers: dict[str, list[Place]] = {}
        for name in sorted(wanted):
            buffers.setdefault(self.masters[name].buffer, []).append(self.masters[name])
        return [Span.of(places) for places in buffers.values()]

    def span_in(self, names: Sequence[str]) -> Span | None:
        """The span that the update of these parameters, which are side by side, has to copy."""
        spans = self.spans(names)
        return spans[0] if spans else None

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


def _dispatch(span: Span) -> Dispatch:
    gpu = _kernel(span, VECTOR)
    grid = grid_of(ceil_div(span.words, VECTOR * WORKGROUP))
    shows = (f"{span.buffer}, words {span.start} to {span.end}", "the same as f16")
    work = Launch(_kernel(span, 1), grid).work
    return Dispatch(LABEL, (span.region, span.copy), {GPU: Launch(gpu, grid)}, shows, work)


def _kernel(span: Span, width: int) -> Kernel:
    size = span.words // width
    word, half = ("vec4f", "vec4h") if width == VECTOR else FLOATS
    grid = grid_of(ceil_div(size, WORKGROUP))
    copy = statements(f"y0[i] = {half}(x0[i]);")
    holes = {"INDEX": thread_index(grid, WORKGROUP), "BODY": copy}
    return Kernel(
        "update",
        (Binding("x0", word, size, written=False), Binding("y0", half, size, written=True)),
        (("SIZE", size), ("WORKGROUP", WORKGROUP)),
        page("update", {"four": width == VECTOR}, holes),
        functions=(),
        workgroup=(WORKGROUP, 1, 1),
    )
