"""The twin of a bundle: all entries as one WebAssembly module, and where its memory holds what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wgcc.backends.wasm.encoding.instructions import I32
from wgcc.backends.wasm.encoding.module import PAGE, WasmFunction, WasmModule
from wgcc.backends.wasm.encoding.wat import wat
from wgcc.backends.wasm.wgsl.library import Library
from wgcc.backends.wasm.write_kernel import scratch_words, write_kernel
from wgcc.ir.places import ceil_div
from wgcc.schedule.kernel import (
    WORD,
    Dispatch,
    DispatchWork,
    EntrySchedule,
    Place,
    Rounds,
    Schedule,
)
from wgcc.schedule.kernels.guard import FLAG
from wgcc.schedule.kernels.update import COPIES, master

if TYPE_CHECKING:
    from wgcc.backends.wasm.checked_step import CheckedStep
    from wgcc.backends.wasm.panels.blas import BlasProduct, PlacedWork

# Buffers start on boundaries of this many bytes, after the words that belong to the module.
ALIGNED = 64
RESERVED = 1024
MOST_PAGES = 65_536
_THREADS = (("thread", I32), ("threads", I32))
# Exports of the halves of an entry that trains: `train/gradients`, `train/update`.
GRADIENTS, UPDATE = "gradients", "update"
# The export of a step that needs no undoing: `train/checked`.
CHECKED = "checked"
# Where undoing a step takes fewer bytes, it is done with copies: these are made once for all the
# steps of a submit, while updates would be computed twice in each of them.
LEAST_COPIED = 1 << 24
# Exports of a product that a host computes: `train/7/pack`, `train/7/finish`.
PACK, FINISH = "pack", "finish"


@dataclass(frozen=True, slots=True)
class Twin:
    """`buffers`: the byte of linear memory where each buffer of the schedule starts.

    They end at `bytes`; from there each thread has `scratch` bytes. `memory_flag` is the place in
    `code` of the byte that says whether threads share the memory. `products`: by entry and number
    of its dispatch, those that a host with a BLAS library may compute, if it was built for that.
    `checked`: the entries with steps that need no undoing; see wgcc/backends/wasm/checked_step.py.
    """

    code: bytes
    memory_flag: int
    buffers: Mapping[str, int]
    bytes: int
    scratch: int
    products: Mapping[str, Mapping[int, BlasProduct]] | None = None
    checked: tuple[str, ...] = ()


def write_twin(schedule: Schedule, fast: bool = False) -> Twin | None:
    """None where a model needs more memory than WebAssembly has.

    `fast`: with what a host with a BLAS library needs.
    """
    memory, scratch, checked = lay_out(schedule), _scratch(schedule), _checked_steps(schedule)
    kept = memory.bytes
    memory = replace(memory, bytes=_align(kept + WORD * _kept_words(checked)))
    pages = ceil_div(memory.bytes + scratch, PAGE)
    if pages > MOST_PAGES:
        return None
    module = WasmModule((pages, MOST_PAGES))
    writer = _Writer(module, memory, scratch, fast)
    for name, entry in schedule.entries.items():
        halves = entry.exchange.dispatch if entry.exchange and not entry.exchange.why else None
        parts = writer.entry(name, entry.dispatches, entry.repeats, halves)
        if entry.guard:
            writer.entry(f"{name}/guard", entry.guard)
        if name in checked:
            writer.add_checked_step(entry, parts, checked[name], kept)
    code = module.encode()
    flag, products = module.memory_flag_offset, writer.products
    return Twin(code, flag, memory.buffers, memory.bytes, scratch, products, tuple(checked))


def _checked_steps(schedule: Schedule) -> dict[str, CheckedStep]:
    """The steps by entry. No two run at a time, so all keep small tensors at the same place."""
    if schedule.copied_bytes < LEAST_COPIED:
        return {}
    from wgcc.backends.wasm.checked_step import checked_step

    large = {
        name: checked_step(entry, schedule.tensors)
        for name, entry in schedule.entries.items()
        if entry.guard and schedule.copied_bytes_of(entry) >= LEAST_COPIED
    }
    return {name: step for name, step in large.items() if step}


def _kept_words(steps: Mapping[str, CheckedStep]) -> int:
    return max((step.kept_words for step in steps.values()), default=0)


def why_too_large(schedule: Schedule) -> str:
    """Says how much memory a model without a twin needs, and how to reduce it."""
    needed = (lay_out(schedule).bytes + _scratch(schedule)) / 1e9
    most = MOST_PAGES * PAGE / 1e9
    return (
        f"the model needs {needed:.1f} GB of memory, and WebAssembly has {most:.1f}: "
        "build it smaller, for example with fewer rows, or run it on a GPU"
    )


def _scratch(schedule: Schedule) -> int:
    return _align(
        WORD
        * max((scratch_words(work) for d in schedule.dispatches for work, _ in d.works), default=0)
    )


def kernel_text(dispatch: Dispatch) -> str:
    """The WebAssembly text of what a dispatch runs, and of the functions that it calls."""
    module = WasmModule((1, MOST_PAGES))
    library = Library(module)
    functions = [write_kernel(work, dispatch.label, library) for work, _ in dispatch.works]
    called = [*module.functions, *functions]
    return "\n\n".join(wat(f, module.functions) for f in reversed(called))


@dataclass(frozen=True, slots=True)
class Memory:
    """The byte at which each buffer starts, and that of the f32 that stand for its f16 (`halves`).

    These have memory of their own: they are twice as large, and some kernels read a whole buffer
    (all gradients, for example) that f16 were stored in before.
    """

    buffers: Mapping[str, int]
    halves: Mapping[str, int]
    bytes: int

    def start(self, place: Place) -> int:
        if place.half:
            return self.halves[place.buffer] + place.offset * 2 * WORD
        return self.buffers[place.buffer] + place.offset * WORD


def lay_out(schedule: Schedule) -> Memory:
    regions = [place for dispatch in schedule.dispatches for place in dispatch.regions]
    with_halves = {place.buffer for place in regions if place.half}
    with_words = {place.buffer for place in regions if not place.half}
    buffers, halves, end = dict[str, int](), dict[str, int](), RESERVED
    for buffer in schedule.buffers:
        name = buffer.name
        buffers[name] = end
        if name in with_words or name not in with_halves or buffer.role == COPIES:
            end = _align(end + buffer.words * WORD)
        if buffer.role == COPIES:
            # The f32 that stand for copies of parameters are these themselves.
            halves[name] = buffers[master(name)]
        elif name in with_halves:
            halves[name] = end
            end = _align(end + buffer.words * 2 * WORD)
    return Memory(buffers, halves, end)


class _Writer:
    """Writes each kernel once, and a function for each dispatch and each entry."""

    def __init__(self, module: WasmModule, memory: Memory, scratch: int, fast: bool) -> None:
        self._module, self._memory, self._scratch = module, memory, scratch
        self._library = Library(module)
        self._barrier = module.add(write_barrier())
        self._kernels: dict[DispatchWork, int] = {}
        self.products: dict[str, dict[int, BlasProduct]] | None = {} if fast else None

    def entry(
        self,
        name: str,
        dispatches: Sequence[Dispatch],
        repeats: Sequence[Rounds] = (),
        cut: int | None = None,
    ) -> list[int]:
        """Adds an entry; with `cut`, dispatches before that one and the rest are functions, too.

        Returns the functions of its dispatches.
        """
        parts = [self._dispatch(f"{name}/{i}", d) for i, d in enumerate(dispatches)]
        if self.products is not None:
            self.products[name] = dict(self._blas_products(name, dispatches))
        whole = WasmFunction(name, _THREADS)
        if cut is None:
            self._run(whole, parts, range(len(parts)), repeats)
        else:
            for half, numbers in (GRADIENTS, range(cut)), (UPDATE, range(cut, len(parts))):
                f = WasmFunction(f"{name}/{half}", _THREADS)
                self._run(f, parts, numbers, [x for x in repeats if x.first in numbers])
                whole.get(0).get(1).call(self._module.add(f, export=f.name))
        self._module.add(whole, export=name)
        return parts

    def add_checked_step(
        self, entry: EntrySchedule, parts: Sequence[int], step: CheckedStep, kept: int
    ) -> None:
        """Adds an entry that only sets the flag if it would write something that is not finite.

        It does nothing if the flag is set: a step before it failed. From byte `kept` on it keeps
        small tensors.
        """
        name = f"{entry.name}/{CHECKED}"
        flag = self._memory.start(FLAG)
        tests = [self._dispatch("", test) for test in step.tests]
        f = WasmFunction(name, _THREADS)
        has_failed = f.block()
        f.i32(flag).emit("i32.load").br_if(has_failed)
        self._copy(f, step, kept, back=False)
        self._run(f, parts, range(step.first), entry.repeats)
        self._run(f, tests, range(len(tests)), ())
        if entry.range_flag:
            f.i32(self._memory.start(entry.range_flag)).emit("i32.load").if_()
            f.i32(flag).i32(1).emit("i32.store").end()
            f.get(1).call(self._barrier)
        f.i32(flag).emit("i32.load").if_()
        self._copy(f, step, kept, back=True)
        f.br(has_failed).end()
        self._run(f, parts, range(step.first, len(parts)), ())
        f.end()
        self._module.add(f, export=name)

    def _copy(self, f: WasmFunction, step: CheckedStep, kept: int, back: bool) -> None:
        """One thread copies the small tensors; the others wait."""
        f.get(0).emit("i32.eqz").if_()
        for place in step.kept:
            ends = [kept, self._memory.start(place)]
            target, source = reversed(ends) if back else ends
            f.i32(target).i32(source).i32(place.count * WORD).emit("memory.copy")
            kept += place.count * WORD
        f.end()
        f.get(1).call(self._barrier)

    def _run(
        self, f: WasmFunction, parts: Sequence[int], numbers: range, repeats: Sequence[Rounds]
    ) -> None:
        """Calls these dispatches in order, with the loops among them."""
        at, waiting = numbers.start, list(repeats)
        while waiting:
            loop = waiting.pop(0)
            inner = [other for other in waiting if other.first < loop.end]
            del waiting[: len(inner)]
            self._run(f, parts, range(at, loop.first), ())
            left = f.local("rounds", I32)
            f.i32(loop.rounds).set(left)
            label = f.loop()
            self._run(f, parts, range(loop.first, loop.end), inner)
            f.get(left).i32(1).emit("i32.sub").tee(left)
            f.br_if(label)
            f.end()
            at = loop.end
        for number in range(at, numbers.stop):
            f.get(0).get(1).call(parts[number])
            f.get(1).call(self._barrier)

    def _dispatch(self, name: str, dispatch: Dispatch) -> int:
        steps = [(work, tuple(map(self._memory.start, places))) for work, places in dispatch.works]
        return self._steps(name, steps, dispatch.label)

    def _steps(self, name: str, steps: Sequence[PlacedWork], label: str) -> int:
        """Exports a function of all these kernels, one after the other, if it has a name."""
        kernels = [self._kernel(work, label) for work, _ in steps]
        f = WasmFunction(name or label, _THREADS)
        for (_, starts), kernel in zip(steps, kernels, strict=True):
            for start in starts:
                f.i32(start)
            f.get(0).get(1)
            f.get(0).i32(self._scratch).emit("i32.mul").i32(self._memory.bytes).emit("i32.add")
            f.call(kernel)
        return self._module.add(f, export=name or None)

    def _kernel(self, work: DispatchWork, label: str) -> int:
        # How buffers are bound is of no concern here.
        work = replace(work, bindings=tuple(replace(b, aliased=False) for b in work.bindings))
        if work not in self._kernels:
            function = write_kernel(work, label, self._library)
            self._kernels[work] = self._module.add(function)
        return self._kernels[work]

    def _blas_products(
        self, entry: str, dispatches: Sequence[Dispatch]
    ) -> Iterator[tuple[int, BlasProduct]]:
        """The products for a host with a BLAS library; exports what it needs beside that."""
        from wgcc.backends.wasm.blas_products import blas_product_of

        for number, dispatch in enumerate(dispatches):
            (work, places), *others = dispatch.works
            starts = [self._memory.start(place) for place in places]
            # Two small products of one dispatch are not worth a call of a library.
            if others:
                continue
            product = blas_product_of(work, starts, self._memory.bytes, self._library)
            if product is None:
                continue
            for name, steps in ((PACK, product.packs), (FINISH, product.finishes)):
                if steps:
                    self._steps(f"{entry}/{number}/{name}", steps, dispatch.label)
            yield number, product


def _align(number: int) -> int:
    return ceil_div(number, ALIGNED) * ALIGNED


# Words of memory: how many threads have arrived, and how often all of them have.
ARRIVED, ROUND = 0, 4
# Threads look this often before they sleep: for about as long as it takes to wake up, 50 µs.
LOOKS = 100_000


def write_barrier() -> WasmFunction:
    """barrier(threads): returns when all have called it; at once if there is one."""
    f = WasmFunction("barrier", [("threads", I32)])
    before, looks = f.local("before", I32), f.local("looks", I32)
    done = f.block()
    f.get(0).i32(1).emit("i32.le_u").br_if(done)
    f.i32(0).emit("i32.atomic.load", offset=ROUND).set(before)
    f.i32(0).i32(1).emit("i32.atomic.rmw.add", offset=ARRIVED)
    f.i32(1).emit("i32.add").get(0).emit("i32.eq")
    f.if_()
    f.i32(0).i32(0).emit("i32.atomic.store", offset=ARRIVED)
    f.i32(0).i32(1).emit("i32.atomic.rmw.add", offset=ROUND).emit("drop")
    f.i32(0).i32(-1).emit("memory.atomic.notify", offset=ROUND).emit("drop")
    f.else_()
    again = f.loop()
    f.i32(0).emit("i32.atomic.load", offset=ROUND).get(before).emit("i32.ne").br_if(done)
    f.get(looks).i32(1).emit("i32.add").tee(looks).i32(LOOKS).emit("i32.lt_u").br_if(again)
    f.i32(0).get(before).i64(-1).emit("memory.atomic.wait32", offset=ROUND).emit("drop")
    f.br(again).end()
    f.end()
    f.end()
    return f
