"""Parts of a plan: captures, exchanged gradients, vocabulary, loops, the twin, limits of a device.

Ranges of loops are nested or disjoint, and an outer one is listed before those inside it. Every
browser grants WebGPU's default limits; a plan may require more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from wgcc_runtime.strict_json import table

if TYPE_CHECKING:
    from wgcc_runtime.plan import Entry, Plan, Repeat, Tensor
    from wgcc_runtime.tokens.tokens import Tokens

# Finds the tensors that a field of the plan names.
Ports = Callable[[str, Mapping[str, str]], Mapping[str, "Tensor"]]
# A part of a buffer: the buffer's number, the first byte, and the number of bytes.
Region = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Exchange:
    """Before dispatch number `dispatch`, all gradients are stored and nothing has used them.

    `outputs` (float scalars) and `state` are averaged after the call. If gradients cannot be
    separated from updates, `why` says what prevents it.
    """

    dispatch: int
    gradients: tuple[Region, ...]
    outputs: tuple[str, ...]
    state: tuple[str, ...]
    why: str

    @property
    def bytes(self) -> int:
        return sum(size for _, _, size in self.gradients)


def read_exchange(spec: Mapping[str, Any]) -> Exchange:
    return Exchange(
        dispatch=spec.get("dispatch", 0),
        gradients=tuple((g["buffer"], g["offset"], g["size"]) for g in spec.get("gradients", ())),
        outputs=tuple(spec.get("outputs", ())),
        state=tuple(spec.get("state", ())),
        why=spec.get("why", ""),
    )


def check_exchange(plan: Plan, entry: Entry, refuse: Callable[[str, str], NoReturn]) -> None:
    exchange, field = entry.exchange, f"entries.{entry.name}.exchange"
    if exchange is None or (exchange.why and not exchange.gradients):
        return
    if exchange.why or not entry.training:
        refuse(f"{field}.gradients", "is for entries that train and can be separated")
    if not 0 < exchange.dispatch < len(entry.dispatches):
        refuse(f"{field}.dispatch", f"is {exchange.dispatch}; there are {len(entry.dispatches)}")
    if any(loop.first < exchange.dispatch < loop.end for loop in entry.repeats):
        refuse(f"{field}.dispatch", f"is {exchange.dispatch}, which is inside a loop")
    _check_gradients(plan, exchange, field, refuse)
    for i, name in enumerate(exchange.outputs):
        tensor = entry.outputs.get(name)
        if tensor is None or not tensor.is_float or tensor.size != 1:
            refuse(f"{field}.outputs[{i}]", f"is not an output of one float: {name}")
    for i, name in enumerate(exchange.state):
        if name not in entry.writes or not _is_float_state(plan, name):
            refuse(f"{field}.state[{i}]", f"is not state of floats that the entry writes: {name}")


def _is_float_state(plan: Plan, name: str) -> bool:
    tensor = plan.tensors[name]
    return tensor.role == "state" and tensor.is_float


def _check_gradients(
    plan: Plan, exchange: Exchange, field: str, refuse: Callable[[str, str], NoReturn]
) -> None:
    """Parts of buffers for gradients, in order and disjoint."""
    if not exchange.gradients:
        refuse(f"{field}.gradients", "is empty")
    last = (-1, 0)
    for i, (index, offset, size) in enumerate(exchange.gradients):
        place = f"{field}.gradients[{i}]"
        if index >= len(plan.buffers) or plan.buffers[index].role != "grads":
            refuse(f"{place}.buffer", f"is {index}, which is no buffer of gradients")
        if offset + size > plan.buffers[index].bytes:
            refuse(place, f"ends at byte {offset + size} of {plan.buffers[index].bytes}")
        if (index, offset) < last:
            refuse(place, "overlaps the one before, or is not behind it")
        last = (index, offset + size)


# How many numbers and counts the statistics of a value are; the last counts are the bins.
NUMBERS, COUNTS, BINS = 4, 35, 32


@dataclass(frozen=True, slots=True)
class Capture:
    """A value to look at: itself in `tensors`, or its statistics, as numbers and counts.

    `shape` is that of the value. `rows`: `rows` or `same`, if calls in parts can be joined.
    """

    tensors: tuple[Tensor, ...]
    shape: tuple[int, ...]
    rows: str

    @property
    def is_stats(self) -> bool:
        return len(self.tensors) > 1


def read_captures(entry: str, spec: Mapping[str, Any], ports: Ports) -> dict[str, Capture]:
    captures = {}
    for name, record in spec.items():
        keys = {part: record[part] for part in ("tensor", "numbers", "counts") if part in record}
        tensors = tuple(ports(f"entries.{entry}.captures.{name}", keys).values())
        shape = tuple(record.get("shape", tensors[0].shape))
        captures[name] = Capture(tensors, shape, record.get("rows", ""))
    return captures


def check_captures(entry: Entry, refuse: Callable[[str, str], NoReturn]) -> None:
    for name, capture in entry.captures.items():
        field, first = f"entries.{entry.name}.captures.{name}", capture.tensors[0]
        if capture.is_stats:
            forms = [(tensor.dtype, tensor.shape) for tensor in capture.tensors]
            if forms != [("f32", (NUMBERS,)), ("u32", (COUNTS,))]:
                refuse(field, "names tensors that hold no statistics")
        elif first.role not in ("output", "param", "state"):
            refuse(field, f"names `{first.name}`, whose role is {first.role}")
        if any(tensor.role != "output" for tensor in capture.tensors[1:]):
            refuse(field, "names statistics that are no output")
        if capture.rows == "rows" and not _has_rows(entry, capture):
            refuse(f"{field}.rows", f"is rows, but the value is {first}")


def _has_rows(entry: Entry, capture: Capture) -> bool:
    rows = entry.rows
    return bool(rows and rows.outputs and capture.shape and capture.shape[0] % rows.count == 0)


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """The file with a model's tokens; `size` is the highest id plus one.

    `open` reads the file, where the plan is that of a bundle which was opened.
    """

    file: str
    size: int
    sha256: str
    open: Callable[[], Tokens] | None = None


# Linear memory of WebAssembly grows in pages of this many bytes.
PAGE = 1 << 16


@dataclass(frozen=True, slots=True)
class Twin:
    """The WebAssembly form of the entries: where each buffer starts in its linear memory.

    After `bytes` of buffers each thread has `scratch` bytes of its own. `memory_flag` is the byte
    of the file that makes the memory one that threads share. `products`: by entry, what a host may
    compute with a library of its own, if the bundle was built for that. `checked` are entries whose
    export ENTRY/checked makes steps that need no undoing.
    """

    file: str
    sha256: str
    memory_flag: int
    buffers: Mapping[str, int]
    bytes: int
    scratch: int
    products: Mapping[str, Sequence[Mapping[str, Any]]] | None = None
    checked: Sequence[str] = ()

    def memory_bytes(self, threads: int) -> int:
        """The linear memory that this many threads need, in whole pages."""
        return -(-(self.bytes + threads * self.scratch) // PAGE) * PAGE


def characters(model: Mapping[str, Any]) -> str:
    """The character of each id, if ids are characters."""
    vocab = model.get("vocab")
    return vocab if isinstance(vocab, str) else ""


def token_record(model: Mapping[str, Any]) -> TokenRecord | None:
    vocab = model.get("vocab")
    if not isinstance(vocab, dict):
        return None
    return TokenRecord(vocab["tokens"], vocab["size"], vocab["sha256"])


# The round (from 1 on) and the number of rounds of each loop around a dispatch, outermost first.
Rounds = tuple[tuple[int, int], ...]


def run_order(entry: Entry) -> Iterator[tuple[int, Rounds]]:
    """The number of each dispatch as one call runs them, and the rounds it is in."""
    return _in_order(0, len(entry.dispatches), entry.repeats, ())


def _in_order(
    start: int, end: int, repeats: Sequence[Repeat], around: Rounds
) -> Iterator[tuple[int, Rounds]]:
    at, waiting = start, list(repeats)
    while waiting:
        loop = waiting.pop(0)
        inner = [other for other in waiting if other.first < loop.end]
        del waiting[: len(inner)]
        yield from ((number, around) for number in range(at, loop.first))
        for done in range(loop.rounds):
            rounds = (*around, (done + 1, loop.rounds))
            yield from _in_order(loop.first, loop.end, inner, rounds)
        at = loop.end
    yield from ((number, around) for number in range(at, end))


def times_run(entry: Entry) -> list[int]:
    """How often one call runs each dispatch."""
    times = [1] * len(entry.dispatches)
    for loop in entry.repeats:
        for number in range(loop.first, loop.end):
            times[number] *= loop.rounds
    return times


DEFAULT_LIMITS: dict[str, int] = table("webgpu_limits")


def limits_of(plan: Plan) -> dict[str, int]:
    """The limits to request for this plan: the defaults, raised where the plan needs more."""
    return {name: _stronger(name, value, plan.limits) for name, value in DEFAULT_LIMITS.items()}


def _stronger(name: str, default: int, wanted: Mapping[str, int]) -> int:
    # A `min` limit is an alignment: the offsets of every plan are multiples of the default.
    if name.startswith("min"):
        return default
    return max(default, wanted.get(name, 0))
