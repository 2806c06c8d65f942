"""The scheduler's output for the bundle: kernels, places of tensors, the order of dispatches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from wgcc.errors import Span
from wgcc.ir.dtypes import F16
from wgcc.ir.graph import Constant
from wgcc.ir.places import ALIGNMENT, MAX_BINDINGS, WORD, Buffer, Place, round_up
from wgcc.kernel.tree import FunctionDef, Module
from wgcc.ops.registry import Helper

__all__ = [
    "ALIGNMENT",
    "MAX_BINDINGS",
    "WORD",
    "Binding",
    "Buffer",
    "Dispatch",
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

    The length of an array is the product of the constants that `length` names.
    """

    name: str
    element: str
    length: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
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
    functions of ops; `kernels/render.py` has the whole tree. `page` is where it was written.
    `family` says what all its threads compute together (`product`, `attention`, …), where a back
    end may have a better way than one thread after the other.
    """

    page: str
    bindings: tuple[Binding, ...]
    constants: tuple[tuple[str, int], ...]
    body: Module
    functions: tuple[Helper, ...]
    workgroup: tuple[int, int, int]
    shared: tuple[WorkgroupVariable, ...] = ()
    family: str = ""

    @property
    def own_functions(self) -> dict[str, FunctionDef]:
        """The functions that users have written, by name."""
        return {each.name: each for each in self.functions if isinstance(each, FunctionDef)}

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
    `twin` says it for machines without a GPU, where no limits of a driver count.
    """

    label: str
    regions: tuple[Place, ...]
    launches: Mapping[str, Launch]
    shows: tuple[str, ...]
    twin: Kernel
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

    `range_flag` is where the dispatches of a range guard leave their result. `repeats` are the
    loops among the dispatches: nested or disjoint, in order, outer before inner. `exchange` is
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
        sizes = {buffer.name: buffer.words * WORD for buffer in self.buffers}
        copied = [
            {self.tensors[name].buffer for name in entry.written}
            for entry in self.entries.values()
            if entry.guard
        ]
        return max((sum(sizes[name] for name in names) for names in copied), default=0)
