"""The scheduler's output for the bundle: kernels, places of tensors, the order of dispatches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import combinations
from math import prod

from wgcc.errors import Span
from wgcc.ir.dtypes import F16
from wgcc.ir.graph import Constant
from wgcc.ir.places import ALIGNMENT, MAX_BINDINGS, WORD, Buffer, Place, ceil_div, round_up
from wgcc.kernel.tree import (
    Binary,
    FunctionDef,
    If,
    Let,
    Module,
    Name,
    Statement,
)
from wgcc.ops.registry import Helper

__all__ = [
    "ALIGNMENT",
    "MAX_BINDINGS",
    "WORD",
    "Binding",
    "Buffer",
    "Dispatch",
    "DispatchWork",
    "EntrySchedule",
    "Kernel",
    "Launch",
    "Made",
    "Place",
    "Rounds",
    "Schedule",
    "WorkgroupVariable",
]

# The profile that the dispatches of a plan are.
GPU = "gpu"
# Prefix of the launches that `wgcc tune` measures.
CANDIDATE = "candidate_"
# Of elements that are not one word.
BYTES = {F16: 2, "vec2f": 8, "vec2h": 4, "vec4f": 16, "vec4h": 8, "vec4u": 16}
F16_ELEMENTS = (F16, "vec2h", "vec4h")
MAX_WORKGROUPS = 65_535
# llvmpipe ends the loops of a thread after so many iterations, all its loops taken together, and
# reports nothing.
MAX_ITERATIONS = 65_535
# Leaves room for short loops that nobody counts.
GOOD_ITERATIONS = 60_000
# Elements that one access of a vector takes.
VECTOR = 4
# Workgroup memory that every device grants.
MAX_WORKGROUP_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class Binding:
    """One declared variable in memory of a kernel: `count` elements of type `element`.

    `written` says whether the kernel stores there, `aliased` whether a dispatch of it writes
    somewhere else in the same buffer. `uniform`: it is a uniform, one `element`.
    """

    name: str
    element: str
    count: int
    written: bool
    aliased: bool = False
    uniform: bool = False

    @property
    def access(self) -> str:
        """WebGPU wants one access for a buffer in a dispatch."""
        if self.uniform:
            return "uniform"
        return "read_write" if self.written or self.aliased else "read"

    @property
    def is_half(self) -> bool:
        """Does it hold f16 elements, alone or in vectors?"""
        return self.element in F16_ELEMENTS

    @property
    def bytes(self) -> int:
        return self.count * BYTES.get(self.element, WORD)


@dataclass(frozen=True, slots=True)
class WorkgroupVariable:
    """A variable in workgroup memory: one `element`, or an array of them.

    The length of an array is the product of the constants that `length` names, or it consists of
    arrays (`is_nested`), the outermost length first.
    """

    name: str
    element: str
    length: tuple[str, ...] = ()
    is_nested: bool = False

    @property
    def kind(self) -> str:
        if self.is_nested:
            return reduce(lambda inner, n: f"array<{inner}, {n}>", self.length[::-1], self.element)
        length = " * ".join(self.length)
        return f"array<{self.element}, {length}>" if length else self.element

    def bytes(self, constants: Mapping[str, int]) -> int:
        count = prod(constants[name] for name in self.length)
        return count * BYTES.get(self.element, WORD)


def workgroup_bytes(shared: Iterable[WorkgroupVariable], constants: Mapping[str, int]) -> int:
    """The workgroup memory of variables, each in units of 16 bytes, as WebGPU counts."""
    return sum(round_up(variable.bytes(constants), 16) for variable in shared)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A page and all it needs. Equal kernels are one file and one pipeline.

    `body` is the page with its holes filled, without bindings, constants, workgroup memory and the
    functions of ops; `kernels/context.py` has the whole tree. `page` is where it was written.
    """

    page: str
    bindings: tuple[Binding, ...]
    constants: tuple[tuple[str, int], ...]
    body: Module
    functions: tuple[Helper, ...]
    workgroup: tuple[int, int, int]
    shared: tuple[WorkgroupVariable, ...] = ()

    @property
    def own_functions(self) -> tuple[FunctionDef, ...]:
        """The functions that users have written."""
        return tuple(each for each in self.functions if isinstance(each, FunctionDef))

    @property
    def storage_buffers(self) -> int:
        """How many of the few storage buffers of a kernel it takes."""
        return sum(not binding.uniform for binding in self.bindings)

    @property
    def has_halves(self) -> bool:
        """Does it need adapters with `shader-f16`?"""
        shared = any(variable.element in F16_ELEMENTS for variable in self.shared)
        return shared or any(binding.is_half for binding in self.bindings)

    @property
    def workgroup_bytes(self) -> int:
        return workgroup_bytes(self.shared, dict(self.constants))


@dataclass(frozen=True, slots=True)
class Launch:
    """`iterations`: the most that the loops of one thread make, where that may be many."""

    kernel: Kernel
    grid: tuple[int, int, int]
    iterations: int = 0

    @property
    def work(self) -> DispatchWork:
        """A kernel without workgroups is its own work; `main` starts with the thread's number."""
        kernel = self.kernel
        main = kernel.body.functions["main"]
        own = tuple(declared for declared in kernel.body.declarations if declared is not main)
        match main.body:
            case (Let(index), If(Binary(">=", Name(own_index), Name(count))), *body):
                assert own_index == index, kernel.page
                task = ThreadTask(index, dict(kernel.constants)[count], tuple(body))
                helpers = kernel.own_functions
                return DispatchWork(kernel.bindings, kernel.constants, Module(own), task, helpers)
        raise ValueError(f"{kernel.page} does not start with the number of its thread")


@dataclass(frozen=True, slots=True)
class ThreadTask:
    """`body` runs for each number `index` below `count`, in any order."""

    index: str
    count: int
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class ProductTask:
    """`finish(z, m, n, x)` takes x, the sum of `left(z, m, k) * right(z, k, n)` in the order of k.

    With `sums`, `finish_sum(n, x)` takes the sum of `right(0, k, n)`.
    """

    batch: int
    rows: int
    cols: int
    inner: int
    sums: bool


@dataclass(frozen=True, slots=True)
class AttentionTask:
    """`op` is `attention` or one of its gradients, `attention_grad_q` and `attention_grad_kv`.

    The functions are those of `kernels/attention_access.py` for single elements (`query_at`, …,
    `put_y`), and which keys a row sees. `options`: `moving` (rows start at `offset()`), `masked`
    (`mask_at` is added to scores), `kept` (`put_rows` stores what gradients need of each row),
    `makes_stats` (`put_stats` stores what the gradients of keys need of each row).
    """

    op: str
    options: frozenset[str]


@dataclass(frozen=True, slots=True)
class DispatchWork:
    """Says what a dispatch computes, for back ends that share it out in a way of their own.

    `functions` load operands and store results; they see bindings and constants. `helpers` are
    functions that users have written. No limit of a driver counts here.
    """

    bindings: tuple[Binding, ...]
    constants: tuple[tuple[str, int], ...]
    functions: Module
    task: ThreadTask | ProductTask | AttentionTask
    helpers: tuple[FunctionDef, ...] = ()


# What a dispatch computes, and the places of its bindings.
PlacedWork = tuple[DispatchWork, tuple[Place, ...]]


@dataclass(frozen=True, slots=True)
class Made:
    """The outputs of an op in a kernel: why they are computed there and, if stored, why that."""

    names: tuple[str, ...]
    here: str
    stored: str = ""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One step of an entry: one launch, and those that tuning may replace it by, by profile.

    `regions` are the places that its bindings cover, the same in all profiles.
    `works` say what it computes without saying how threads share it: one, or two that do not need
    each other.
    """

    label: str
    regions: tuple[Place, ...]
    launches: Mapping[str, Launch]
    shows: tuple[str, ...]
    works: tuple[PlacedWork, ...]
    span: Span | None = None
    flops: int = 0
    made: tuple[Made, ...] = ()


@dataclass(frozen=True, slots=True)
class Rounds:
    """A loop: `count` dispatches of an entry, from number `first` on, run `rounds` times."""

    first: int
    count: int
    rounds: int

    @property
    def end(self) -> int:
        return self.first + self.count


@dataclass(frozen=True, slots=True)
class Exchange:
    """Before dispatch number `dispatch`, all `gradients` are stored and nothing has used them.

    Otherwise `why` says what prevents that.
    """

    dispatch: int = 0
    gradients: tuple[Place, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class EntrySchedule:
    """`guard` runs after training steps and reports whether all that was `written` is finite.

    `finite`: the floats of `written` and of outputs that are one number. `range_flag` is where the
    dispatches of a range guard leave their result. `repeats` are the loops among the dispatches:
    nested or disjoint, in order, outer before inner. `exchange` is
    where the gradients of an entry that trains are complete.
    """

    name: str
    dispatches: tuple[Dispatch, ...]
    inputs: Mapping[str, Place]
    outputs: Mapping[str, Place]
    written: tuple[str, ...]
    naive_dispatches: int = 0
    temporaries: Mapping[str, tuple[Place, int, int]] = field(default_factory=dict)
    guard: tuple[Dispatch, ...] = ()
    finite: Mapping[str, Place] = field(default_factory=dict)
    trains: bool = False
    range_flag: Place | None = None
    repeats: tuple[Rounds, ...] = ()
    exchange: Exchange | None = None

    @property
    def times(self) -> tuple[int, ...]:
        """How often one call runs each dispatch."""
        numbers = range(len(self.dispatches))
        return tuple(
            prod(loop.rounds for loop in self.repeats if loop.first <= i < loop.end)
            for i in numbers
        )


@dataclass(frozen=True, slots=True)
class Schedule:
    """A whole program, ready to be written down.

    `copies` make the f16 copies of weights, after something else than an entry has written those.
    """

    buffers: tuple[Buffer, ...]
    tensors: Mapping[str, Place]
    entries: Mapping[str, EntrySchedule]
    constants: Mapping[str, tuple[Constant, Place]] = field(default_factory=dict)
    copies: tuple[Dispatch, ...] = ()

    @property
    def dispatches(self) -> tuple[Dispatch, ...]:
        """The dispatches of all entries; after them those of guards, and those of `copies`."""
        entries = self.entries.values()
        own = (dispatch for entry in entries for dispatch in entry.dispatches)
        guards = (dispatch for entry in entries for dispatch in entry.guard)
        return (*own, *guards, *self.copies)

    @property
    def copied_bytes(self) -> int:
        """The bytes that runtimes copy before a training call, to undo a step with a NaN."""
        return max((self.copied_bytes_of(e) for e in self.entries.values() if e.guard), default=0)

    def copied_bytes_of(self, entry: EntrySchedule) -> int:
        """The bytes of all buffers that an entry writes."""
        written = {self.tensors[name].buffer for name in entry.written}
        return sum(buffer.words * WORD for buffer in self.buffers if buffer.name in written)


def overlapping(regions: Sequence[Place]) -> Iterator[tuple[Place, Place]]:
    """The pairs of regions that share words."""
    for a, b in combinations(regions, 2):
        if a.buffer == b.buffer and a.offset < _end(b) and b.offset < _end(a):
            yield a, b


def _end(region: Place) -> int:
    return region.offset + region.bytes // WORD


# Between the labels of two dispatches that are one; labels are names of values.
PAIR = ", "


def has_room(lists: int, scalars: bool) -> bool:
    """Can the kernel of an update bind copies as well?"""
    return lists + scalars < MAX_BINDINGS


Grid = tuple[int, int, int]


# Longer bodies take too long to compile.
MAX_UNROLLED = 64


def unroll_times(iterations: int) -> int:
    """How many elements one iteration should take in loops over `iterations` elements in all."""
    times = 1
    while iterations > times * GOOD_ITERATIONS and times < MAX_UNROLLED:
        times *= 2
    return times


def grid_of(workgroups: int) -> Grid:
    """A line of workgroups, folded into rows when it is too long."""
    if workgroups <= MAX_WORKGROUPS:
        return (workgroups, 1, 1)
    rows = ceil_div(workgroups, MAX_WORKGROUPS)
    return (ceil_div(workgroups, rows), rows, 1)
