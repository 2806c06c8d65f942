"""The storage of tensors: buffers, places in them, and WebGPU's limits of both.

Also the names of the state that wgcc adds to a model's own, for optimizers and random numbers:
checkpoints and plans contain these names, so they must not change. They differ from all names of a
program, which contain no `/`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from wgcc.ir.graph import TensorType

# Bytes of a word.
WORD = 4
# Tensors begin on a multiple of this many words: WebGPU's 256-byte rule for bindings.
ALIGNMENT = 64
# Storage buffers that one kernel can bind.
MAX_BINDINGS = 8
MIB = 1 << 20
# Bytes that one binding and one buffer have on every device.
MAX_BINDING = 128 * MIB
MAX_BUFFER = 256 * MIB
# What the best devices grant for both; WebGPU counts bytes of a binding with 32 bits.
LARGEST = 4096 * MIB - WORD
# All tensors of one element share this buffer and are bound together, as words.
SCALARS = "scalars"


def ceil_div(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def round_up(a: int, step: int) -> int:
    """The first multiple of `step` that is not below `a`."""
    return -(-a // step) * step


@dataclass(frozen=True, slots=True)
class Place:
    """A part of a buffer: `count` words, or f16 values (an even number), from word `offset` on.

    Every tensor has one, and so has every binding of a dispatch. `uniform`: kernels bind it as a
    uniform, which is none of their few storage buffers. `pack`: what they bind instead of it.
    `in_bytes`: its words hold four elements each.
    """

    buffer: str
    offset: int
    count: int
    half: bool = False
    uniform: bool = False
    pack: Place | None = None
    in_bytes: bool = False

    @property
    def bytes(self) -> int:
        return self.count * (WORD // 2 if self.half else WORD)

    @property
    def bound(self) -> Place:
        """The place that kernels bind. A tensor of bytes has one binding for elements and words."""
        return self.pack or (replace(self, in_bytes=False) if self.in_bytes else self)

    @property
    def first(self) -> int:
        """Its first element in what kernels bind."""
        return (self.offset - self.bound.offset) * (2 if self.half else 1)


@dataclass(frozen=True, slots=True)
class Buffer:
    name: str
    words: int
    role: str


@dataclass(slots=True)
class Buffers:
    """Buffers that grow while tensors get places in them; `with_sizes()` gives the result."""

    _ends: dict[str, int] = field(default_factory=dict)
    _roles: dict[str, str] = field(default_factory=dict)

    def append(self, buffer: str, role: str, words: int, in_bytes: bool = False) -> Place:
        """The next place of a buffer; its start is aligned for binding, unless it is a scalar's."""
        start = round_up(self.end(buffer), 1 if buffer == SCALARS else ALIGNMENT)
        self.reserve(buffer, role, start + words)
        return Place(buffer, start, words, in_bytes=in_bytes)

    def tensor(self, buffer: str, role: str, type_: TensorType) -> Place:
        """The next place of a buffer, for a tensor that callers see."""
        return self.append(buffer, role, type_.words, type_.is_packed)

    def reserve(self, buffer: str, role: str, words: int) -> None:
        """Make a buffer at least this long."""
        self._roles.setdefault(buffer, role)
        self._ends[buffer] = max(self.end(buffer), words)

    def end(self, buffer: str) -> int:
        return self._ends.get(buffer, 0)

    def words(self, buffer: str) -> int:
        """Buffers end on 16 bytes, so that they can be copied and bound whole."""
        return round_up(max(self.end(buffer), 4), 4)

    def with_sizes(self) -> list[Buffer]:
        return [Buffer(name, self.words(name), role) for name, role in self._roles.items()]


def span(places: Iterable[Place]) -> Place:
    """One place from the first to the last of some places in one buffer."""
    places = list(places)
    start = min(place.offset for place in places)
    end = max(place.offset + place.count for place in places)
    return Place(places[0].buffer, start, end - start)


# `what` of an optimizer's state beside the moments, which are named by the kind of optimizer.
STEP, CALLS, GRADIENT_SUM, AVERAGE = "step", "micro", "acc", "ema"
SEED_STATE, DRAWS_STATE = "rng/seed", "rng/step"
_OPTIMIZER, _RANDOM = "opt/", "rng/"


@dataclass(frozen=True, slots=True)
class OptimizerState:
    """A counter of an optimizer, or a tensor it stores for a `parameter`: `what` says which."""

    optimizer: str
    what: str
    parameter: str = ""

    @property
    def name(self) -> str:
        end = f"/{self.parameter}" if self.parameter else ""
        return f"{_OPTIMIZER}{self.optimizer}/{self.what}{end}"


def optimizer_state(name: str) -> OptimizerState | None:
    """The inverse of `OptimizerState.name`; None for other state."""
    if not is_optimizer_state(name):
        return None
    parts = name.removeprefix(_OPTIMIZER).split("/", 2)
    return OptimizerState(*parts) if len(parts) > 1 else None


def is_optimizer_state(name: str) -> bool:
    return name.startswith(_OPTIMIZER)


def is_random_state(name: str) -> bool:
    return name.startswith(_RANDOM)


def is_own_state(name: str) -> bool:
    """Whether the program declares it."""
    return not is_optimizer_state(name) and not is_random_state(name)
