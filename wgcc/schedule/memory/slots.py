"""Places the inputs, outputs and temporaries of one entry, each for as long as it lives.

Temporaries whose lifetimes do not overlap share a buffer. A value that becomes a parameter or state
is put there at once if nothing reads the old content later; otherwise it is copied at the end.

Temporaries also use a gradient's memory before the gradient is written. Updates read whole runs of
the arena, so padding between gradients must stay zero: only places that gradients themselves will
fill are free.

A segment tree over the dispatches of an entry knows what is taken at which time. A question about
a stretch of time looks at a number of sets that grows with the logarithm of the entry's length,
however much is taken.

A model of `precision = f16` stores large intermediate values as f16 if they are computed element by
element or as products. Sums, statistics and whatever a recurrence carries stay f32, as do
parameters, gradients of parameters, state, inputs and outputs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Generic, Protocol, TypeVar

from wgcc.ir.graph import Graph, Node, Value
from wgcc.ir.places import ALIGNMENT, SCALARS, ceil_div
from wgcc.ops.registry import Indirect, Pointwise, Special
from wgcc.passes.dataflow import lowering
from wgcc.passes.lay_out import GRADS, Layout
from wgcc.schedule.kernel import Place


class _Taken(Protocol):
    """A set of places, as ranges of numbers."""

    def add(self, start: int, end: int) -> None: ...


Taken = TypeVar("Taken", bound=_Taken)


@dataclass(slots=True)
class Bits:
    """A set of small whole numbers as the bits of one number."""

    mask: int = 0

    def add(self, start: int, end: int) -> None:
        self.mask |= (1 << end) - (1 << start)


class Timeline(Generic[Taken]):
    """Times are whole numbers from 0 up to, not including, `length`.

    Each node of the tree stands for a stretch of time and has two sets: what is taken throughout,
    and what is taken at some time of it.
    """

    def __init__(self, length: int, empty: Callable[[], Taken]) -> None:
        self._leaves = 1 << max(length - 1, 0).bit_length()
        self._empty = empty
        self._throughout: dict[int, Taken] = {}
        self._sometimes: dict[int, Taken] = {}

    def take(self, since: int, until: int, start: int, end: int) -> None:
        """Take the places `start` to `end` from `since` on; `until` and `end` are not included."""
        nodes = self._nodes(since, until)
        for node in nodes:
            self._set(self._throughout, node).add(start, end)
        for node in {*nodes, *self._above(nodes)}:
            self._set(self._sometimes, node).add(start, end)

    def sets_during(self, since: int, until: int) -> list[Taken]:
        """Sets that together hold what is taken at any of these times."""
        nodes = self._nodes(since, until)
        sets = [self._sometimes[node] for node in nodes if node in self._sometimes]
        return sets + [self._throughout[n] for n in self._above(nodes) if n in self._throughout]

    def _nodes(self, since: int, until: int) -> list[int]:
        """The fewest nodes that make up a stretch; the children of node n are 2n and 2n + 1."""
        nodes = []
        low, high = since + self._leaves, until + self._leaves
        while low < high:
            if low % 2:
                nodes.append(low)
                low += 1
            if high % 2:
                high -= 1
                nodes.append(high)
            low, high = low // 2, high // 2
        return nodes

    def _above(self, nodes: list[int]) -> set[int]:
        ancestors: set[int] = set()
        for node in nodes:
            node //= 2
            while node and node not in ancestors:
                ancestors.add(node)
                node //= 2
        return ancestors

    def _set(self, sets: dict[int, Taken], node: int) -> Taken:
        if node not in sets:
            sets[node] = self._empty()
        return sets[node]


@dataclass(frozen=True, slots=True)
class Life:
    """A value in memory: made by dispatch `start`, read last by a later dispatch `end`."""

    value: Value
    start: int
    end: int
    half: bool = False

    @property
    def words(self) -> int:
        return ceil_div(self.value.type.size, 2) if self.half else self.value.type.size

    def place(self, buffer: str, offset: int = 0) -> Place:
        return Place(buffer, offset, 2 * self.words if self.half else self.words, self.half)


Succeeds = Callable[[Life, Life], bool]
Reuse = Callable[[list[Life]], dict[str, Place]]


@dataclass(slots=True)
class Slots:
    """The temporary buffers of a program. Entries do not run at the same time and share them."""

    sizes: list[int] = field(default_factory=list)
    precision: str = "f32"

    def assign(self, lives: Iterable[Life], succeeds: Succeeds, reuse: Reuse) -> dict[str, Place]:
        """Give each value a slot that holds no other value at the same time.

        Slots are handed out as time passes, or to large values first; `reuse` finds room elsewhere
        for none of the values, or for the large or the long-lived ones first: whatever takes less
        memory. `succeeds(new, old)` says that the dispatch that makes `new` may store it over
        `old`.
        """
        known = list(lives)
        by_size = sorted(known, key=lambda life: (-life.words, life.start))
        by_time = sorted(known, key=lambda life: (life.start, -life.words))
        by_span = sorted(known, key=lambda life: (life.start - life.end) * life.words)
        free = [{}, *filter(None, (reuse(wanted) for wanted in (by_size, by_span, by_time)))]
        tried = [
            _Trial(list(self.sizes), succeeds, dict(places)).fill(order)
            for places in free
            for order in (by_time, by_size)
        ]
        best = min(tried, key=lambda trial: sum(trial.sizes))
        self.sizes = best.sizes
        return best.places

    def reserve_in(self, layout: Layout) -> None:
        for slot, words in enumerate(self.sizes):
            layout.buffers.reserve(f"temp{slot}", "temp", words)


class _Trial:
    """Hands out slots of at least these sizes, which grow where that takes less than a new one."""

    def __init__(self, sizes: list[int], succeeds: Succeeds, places: dict[str, Place]) -> None:
        self.sizes, self.places = sizes, places
        self._succeeds = succeeds
        self._of_size: dict[int, int] = {}
        for slot, words in enumerate(sizes):
            self._of_size[words] = self._of_size.get(words, 0) | 1 << slot
        self._first: dict[tuple[int, int], Life] = {}
        self._last: dict[tuple[int, int], Life] = {}

    def fill(self, lives: list[Life]) -> _Trial:
        """Give a slot to every life that has no place."""
        held = Timeline(max((life.end for life in lives), default=0), Bits)
        for life in lives:
            if life.value.name in self.places:
                continue
            busy = reduce(or_, (bits.mask for bits in held.sets_during(life.start, life.end)), 0)
            slot = self._choose(busy, life)
            held.take(life.start, life.end, slot, slot + 1)
            self._first[slot, life.start] = self._last[slot, life.end] = life
            self.places[life.value.name] = life.place(f"temp{slot}")
        return self

    def _choose(self, busy: int, life: Life) -> int:
        """The smallest that fits, or else the largest, grown, or else a new one."""
        sizes = sorted(self._of_size)
        middle = bisect_left(sizes, life.words)
        for words in (*sizes[middle:], *reversed(sizes[:middle])):
            slot = self._free(self._of_size[words] & ~busy, life)
            if slot is not None:
                self._resize(slot, max(words, life.words))
                return slot
        self.sizes.append(0)
        self._resize(len(self.sizes) - 1, life.words)
        return len(self.sizes) - 1

    def _free(self, slots: int, life: Life) -> int | None:
        """The first of the slots whose lives end before this one starts, or are stored over."""
        while slots:
            slot = (slots & -slots).bit_length() - 1
            before = self._last.get((slot, life.start))
            behind = self._first.get((slot, life.end))
            if (before is None or self._succeeds(life, before)) and (
                behind is None or self._succeeds(behind, life)
            ):
                return slot
            slots &= slots - 1
        return None

    def _resize(self, slot: int, words: int) -> None:
        bit, old = 1 << slot, self.sizes[slot]
        self._of_size[old] = self._of_size.get(old, 0) & ~bit
        self._of_size[words] = self._of_size.get(words, 0) | bit
        self.sizes[slot] = words


def io_places(graph: Graph, layout: Layout) -> dict[str, Place]:
    """Each input gets a buffer of its own; inputs of one element are among the scalars."""
    keys = layout.ports[graph.name].inputs
    return {v.name: own_place(keys[v.name], "input", v, layout) for v in graph.inputs}


def own_place(name: str, role: str, value: Value, layout: Layout) -> Place:
    if value.type.size == 1:
        return layout.buffers.tensor(SCALARS, "state", value.type)
    return layout.buffers.tensor(name, role, value.type)


def lives_of(
    stored: dict[str, tuple[Value, int]], reads: list[tuple[int, set[str]]], in_f16: set[str]
) -> list[Life]:
    """`stored` maps names to (value, its dispatch); `reads` lists what each dispatch reads.

    `in_f16` are the names of values that are kept as f16.
    """
    last = {name: start for name, (_, start) in stored.items()}
    for dispatch, names in reads:
        for name in names & last.keys():
            last[name] = max(last[name], dispatch)
    return [
        Life(value, start, last[name], name in in_f16) for name, (value, start) in stored.items()
    ]


# Smaller ones would save nothing worth losing digits for.
LARGE = 1024


def values_in_f16(graph: Graph, stored: Mapping[str, tuple[Value, int]]) -> set[str]:
    """The names, among `stored`, of values to store as f16."""
    return {
        value.name
        for node in graph.nodes
        if is_narrow(node)
        for value in node.outputs
        if value.name in stored and value.dtype == "f32" and value.type.size >= LARGE
    }


def is_narrow(node: Node) -> bool:
    lower = lowering(node)
    return lower.narrow if isinstance(lower, Special) else isinstance(lower, Pointwise | Indirect)


Places = dict[str, Place]


@dataclass(frozen=True, slots=True)
class FreeSpan:
    """Words `start` to `end` of the arena, free before dispatch `until`."""

    start: int
    end: int
    until: int


class Arena:
    """Hands out places in a buffer of gradients. `free` is in order of place.

    Places begin on blocks of ALIGNMENT words, of which sets are kept as bits of one number.
    """

    def __init__(self, free: tuple[FreeSpan, ...], buffer: str = GRADS) -> None:
        self._buffer = buffer
        self._length = max((piece.until for piece in free), default=0)
        self._free = free
        self._with_words: dict[int, int] = {}
        self._taken = Timeline(self._length, Bits)
        for piece in free:
            self._take(piece.until, self._length, piece.start, piece.end)

    def take(self, lives: Iterable[Life]) -> dict[str, Place]:
        """Places for the values that find room, in the order given."""
        places = {}
        for life in lives:
            at = self._room(life)
            if at is not None:
                self._take(life.start, life.end + 1, at, at + life.words)
                places[life.value.name] = life.place(self._buffer, at)
        return places

    def _take(self, since: int, until: int, start: int, end: int) -> None:
        self._taken.take(since, until, start // ALIGNMENT, ceil_div(end, ALIGNMENT))

    def _room(self, life: Life) -> int | None:
        """The first block from where on enough words are free for long enough."""
        if life.end >= self._length:
            return None
        taken = self._taken.sets_during(life.start, life.end + 1)
        free = ~reduce(or_, (bits.mask for bits in taken), 0)
        whole, rest = divmod(life.words, ALIGNMENT)
        starts = _starts_of_runs(self._blocks(ALIGNMENT) & free, whole) if whole else free
        starts &= (self._blocks(rest) & free) >> whole if rest else starts
        return ((starts & -starts).bit_length() - 1) * ALIGNMENT if starts else None

    def _blocks(self, words: int) -> int:
        """The blocks that gradients fill with at least so many words from their start on."""
        if words not in self._with_words:
            blocks = Bits()
            for piece in self._free:
                first = piece.start // ALIGNMENT
                # The last block of a piece need not be whole.
                blocks.add(
                    first, first + (piece.end - piece.start + ALIGNMENT - words) // ALIGNMENT
                )
            self._with_words[words] = blocks.mask
        return self._with_words[words]


def _starts_of_runs(bits: int, length: int) -> int:
    """The positions, as bits, from which `length` bits in a row are set."""
    known = 1
    while known < length:
        step = min(known, length - known)
        bits &= bits >> step
        known += step
    return bits


def free_spans(gradients: Mapping[int, Iterable[Place]]) -> tuple[FreeSpan, ...]:
    """The spans that are free until a dispatch, by number, fills them with gradients.

    A place that is filled twice, for two updates of a parameter, is free before the first alone.
    """
    first: dict[Place, int] = {}
    for dispatch in sorted(gradients):
        for place in gradients[dispatch]:
            first.setdefault(place, dispatch)
    free = (FreeSpan(p.offset, p.offset + p.count, dispatch) for p, dispatch in first.items())
    return tuple(sorted(free, key=lambda piece: piece.start))


def take_from_arenas(gradients: Mapping[int, Iterable[Place]], lives: list[Life]) -> Places:
    """Places for the values that find room in one of the buffers of gradients."""
    placements: Places = {}
    for buffer in sorted({place.buffer for places in gradients.values() for place in places}):
        inside = {i: [p for p in gradients[i] if p.buffer == buffer] for i in gradients}
        left = [life for life in lives if life.value.name not in placements]
        placements |= Arena(free_spans(inside), buffer).take(left)
    return placements
