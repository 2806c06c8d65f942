"""The kernels of a schedule as functions of a module.

A kernel's WGSL says what one thread does; here all threads are one loop, of which each thread of
the machine takes a part. Whether its iterations or those of a loop inside become lanes of vectors
is tried: what takes fewest instructions is kept.
"""

from __future__ import annotations

from math import inf

from wgcc.backends.wasm.encoding.instructions import I32
from wgcc.backends.wasm.encoding.module import WasmFunction, hoist_constants
from wgcc.backends.wasm.kernels.body import BodyParts, KernelBody, share
from wgcc.backends.wasm.kernels.loops import WithEnv, rows_of
from wgcc.backends.wasm.kernels.scopes import (
    LANES,
    Env,
    Held,
    LoopRange,
    Storage,
    TooCostly,
    Unvectorisable,
    span_of,
)
from wgcc.backends.wasm.panels.attention import ScratchLayout, layout_of, write_attention
from wgcc.backends.wasm.panels.by_threads import (
    BYTE_BLOCK,
    BYTE_STEPS,
    GRAIN,
    MIN_ROWS,
    ONE_BY_ONE,
    PLAIN,
    ThreadProgram,
    Walk,
    block_of,
    program_of,
    strided_walks,
    walks_in_rows,
)
from wgcc.backends.wasm.panels.micro_kernel import Tiling, tiling_of
from wgcc.backends.wasm.panels.panels import write_product
from wgcc.backends.wasm.wgsl.library import Library
from wgcc.ir.dtypes import F16
from wgcc.ir.index import Index, constant
from wgcc.kernel.rewrite.transform import fill
from wgcc.kernel.tree import Module
from wgcc.schedule.kernel import AttentionTask, DispatchWork, ProductTask

ORIGIN = constant(0)


def write_kernel(work: DispatchWork, name: str, library: Library) -> WasmFunction:
    """A function of the addresses of its bindings, (thread, threads) and the thread's scratch."""
    function = _fastest(work, name, library)
    hoist_constants(function)
    return function


def _fastest(work: DispatchWork, name: str, library: Library) -> WasmFunction:
    program = program_of(work)
    library.add(fill(Module(work.helpers), PLAIN).functions)
    over_panels = _over_panels(work, name, program, library)
    if over_panels is not None:
        return over_panels
    best, least = None, inf
    tried: set[Walk] = set()
    waiting = [Walk(program.count), *strided_walks(program)]
    while waiting or ONE_BY_ONE not in tried:
        # Threads one by one come last: mostly it is soon clear that they take longer.
        walk = waiting.pop(0) if waiting else ONE_BY_ONE
        if walk in tried:
            continue
        tried.add(walk)
        body = _attempt(work, name, program, library, walk, least)
        if walk.columns is not None and not walk.together and walk.stride == 1:
            waiting += walks_in_rows(program, rows_of(program.count, body.divisors))
        if body.scopes.cost < least:
            best, least = body.f, body.scopes.cost
    assert best is not None, f"{name} cannot be written"
    return best


def _attempt(
    work: DispatchWork,
    name: str,
    program: ThreadProgram,
    library: Library,
    walk: Walk,
    most: float,
) -> KernelBody:
    """Writes a kernel with its threads in this order.

    The cost is infinite if it cannot be written or exceeds `most`.
    """
    env = bindings_of(work, program)
    body = _new_body(work, name, program, library, env)
    threads = _Threads(body, len(work.bindings))
    body.row = walk.columns
    try:
        with body.scopes.limit(most):
            threads.run(program, env, walk)
    except TooCostly:
        body.scopes.cost = inf
    except Unvectorisable:
        # Nor can it be written in rows.
        body.scopes.cost, body.divisors = inf, set()
    return body


def _over_panels(
    work: DispatchWork, name: str, program: ThreadProgram, library: Library
) -> WasmFunction | None:
    """A product or attention over packed panels, if that pays and all of it can be vectors."""
    env, first = bindings_of(work, program), len(work.bindings)

    def new_body() -> KernelBody:
        return _new_body(work, name, program, library, env)

    try:
        match panels_of(work):
            case Tiling() as tiling:
                return write_product(new_body, tiling, first, env).f
            case ScratchLayout() as layout:
                return write_attention(new_body, layout, first, env).f
    except Unvectorisable:
        pass
    return None


def panels_of(work: DispatchWork) -> Tiling | ScratchLayout | None:
    """None where panels do not pay, or threads have nothing in common."""
    match work.task:
        case ProductTask() as product:
            return tiling_of(product)
        case AttentionTask(op):
            return layout_of(op, dict(work.constants))
    return None


def scratch_words(work: DispatchWork) -> int:
    """How much memory of its own each thread needs."""
    panels, sizes = panels_of(work), dict(work.constants)
    scores = 2 * max(sizes["KEYS"], sizes["TALL"]) if isinstance(work.task, AttentionTask) else 0
    return max(panels.words if panels else 0, scores)


def bindings_of(work: DispatchWork, program: ThreadProgram) -> Env:
    """The names that all functions of a kernel see: constants, bindings and scratch memory."""
    env: Env = {**program.constants}
    env["scratch"] = Storage(len(work.bindings) + 2, "f32", written=True)
    for i, binding in enumerate(work.bindings):
        env[binding.name] = Storage(i, _KINDS[binding.element], binding.written)
    return env


def _new_body(
    work: DispatchWork, name: str, program: ThreadProgram, library: Library, env: Env
) -> KernelBody:
    return KernelBody(*body_parts(work, name, program, library, env))


def body_parts(
    work: DispatchWork, name: str, program: ThreadProgram, library: Library, env: Env
) -> BodyParts:
    """The arguments of `KernelBody`."""
    params = [(binding.name, I32) for binding in work.bindings]
    params += [("thread", I32), ("threads", I32), ("scratch", I32)]
    return WasmFunction(name, params), library, program.functions, env


_KINDS = {
    "f32": "f32",
    F16: "f32",
    "u32": "u32",
    "i32": "i32",
    "atomic<u32>": "u32",
    "vec4u": "u32",
}


class _Threads:
    """Shares a loop out to the threads of the machine."""

    def __init__(self, body: KernelBody, first: int) -> None:
        self._body, self._first = body, first

    def run(self, program: ThreadProgram, env: Env, walk: Walk) -> None:
        def one(inner: Env) -> None:
            self._body.run(program.body, inner)

        columns = walk.columns
        if columns is None:
            span = share(self._body, self._first, program.count, 1)
            self._body.count(program.variable, span, one, env)
            return
        rows = program.count // columns
        name = program.variable
        if walk.stride > 1:
            self._along_stride(program, env, walk)
            return
        if walk.together:
            self._rows_together(program, env, columns, walk.together)
            return
        if rows == 1:
            block = block_of(program)
            span = share(self._body, self._first, columns, block or GRAIN)
            if block:
                span = self._in_blocks(program, span, block, env)
            self._along(name, span, one, env)
            return
        whole, part = span_of(rows), span_of(columns)
        if rows >= MIN_ROWS:
            whole = share(self._body, self._first, rows, 1)
        else:
            part = share(self._body, self._first, columns, GRAIN)

        def row(inner: Env) -> None:
            start = inner["row"]
            assert isinstance(start, Held) and start.index is not None
            first = start.index * columns
            self._body.unswitch(lambda own: self._along(name, part, one, own, first), inner)

        self._body.count("row", whole, row, env)

    def _along_stride(self, program: ThreadProgram, env: Env, walk: Walk) -> None:
        """Rows of lanes that are threads apart, several vectors at a time."""
        body, name, columns, stride = self._body, program.variable, walk.columns, walk.stride
        assert columns is not None
        size = next((n for n in (block_of(program), LANES) if n and columns % n == 0), LANES)

        def row(inner: Env) -> None:
            number = body.index_of(inner, "row")
            first = number // stride * (columns * stride) + number % stride

            def block(own: Env) -> None:
                body.four("lane", vectors, own)

            def vectors(own: Env) -> None:
                column = body.index_of(own, "block") * size + body.index_of(own, "lane")
                envs = [dict(own) for _ in range(0, size, LANES)]
                for i, each in enumerate(envs):
                    body.bind(each, name, first + (column + i * LANES) * stride)
                body.run_together(program.body, envs)

            body.count("block", span_of(columns // size), block, inner)

        rows = share(body, self._first, program.count // columns, 1)
        body.count("row", rows, row, env)

    def _rows_together(self, program: ThreadProgram, env: Env, columns: int, count: int) -> None:
        """Runs the threads of `count` rows in one loop: what they all load is loaded once."""
        body, name = self._body, program.variable
        part = share(body, self._first, columns, GRAIN)

        def group(inner: Env) -> None:
            first = body.index_of(inner, "group") * (count * columns)

            def element(own: Env) -> None:
                start = first + body.index_of(own, name)
                envs = [dict(own) for _ in range(count)]
                for row, each in enumerate(envs):
                    body.bind(each, name, start + row * columns)
                body.run_together(program.body, envs)

            body.along_lanes(name, part, element, inner, independent=True)

        groups = program.count // (count * columns)
        if groups == 1:
            group({**env, "group": Held("u32", index=ORIGIN)})
        else:
            body.count("group", span_of(groups), group, env)

    def _in_blocks(self, program: ThreadProgram, span: LoopRange, size: int, env: Env) -> LoopRange:
        """Runs several vectors at a time, as far as that goes; returns what is left over."""
        body, name = self._body, program.variable

        def block(inner: Env) -> None:
            body.four("lane", vectors, inner)

        def vectors(inner: Env) -> None:
            first = body.index_of(inner, "block") * size + body.index_of(inner, "lane")
            envs = [dict(inner) for _ in range(0, size, LANES)]
            for i, own in enumerate(envs):
                body.bind(own, name, first + i * LANES)
            body.run_together(program.body, envs, BYTE_STEPS if size == BYTE_BLOCK else 1)

        blocks = LoopRange(span.start // size, span.stop // size, guess=program.count // size)
        body.count("block", blocks, block, env)
        rest = dict(env)
        for limit, index in (("start", span.start), ("stop", span.stop // size * size)):
            body.bind(rest, limit, index)
        start = body.at_most("max(start, stop)", rest, program.count)
        return LoopRange(start, span.stop, guess=program.count % size)

    def _along(
        self, name: str, span: LoopRange, one: WithEnv, env: Env, start: Index = ORIGIN
    ) -> None:
        def element(inner: Env) -> None:
            column = inner[name]
            assert isinstance(column, Held) and column.index is not None
            index = start + column.index
            depth = self._body.positions.depth(index)
            inner[name] = Held("u32", column.lanes, index=index, depth=depth)
            one(inner)

        self._body.along_lanes(name, span, element, env, independent=True)
