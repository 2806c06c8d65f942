"""Recurrences along an axis: one thread carries values through its row.

Pages of state-space models see operands as functions (`u_at(z, t, e)`) and results as procedures
(`put_y(…)`): one thread per channel, chunk or state, with `block` states each in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import (
    INNER,
    Index,
    Variable,
    constant,
    coordinates_of,
    reduction_space,
    variable,
)
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import counted_loop, several, statements, u32, write_out
from wgcc.kernel.rewrite.transform import Body
from wgcc.kernel.tree import Declaration, Expr, Module, Name
from wgcc.schedule.codegen.bindings import thread_index
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.fuse.group import Group
from wgcc.schedule.kernel import GOOD_ITERATIONS, MAX_UNROLLED, Launch, grid_of, unroll_times
from wgcc.schedule.kernels.context import GroupCode, GroupContext
from wgcc.schedule.kernels.ordering import key_of

WORKGROUP = 64


def scan_code(group: Group, context: GroupContext) -> GroupCode:
    return _code(group.roots[0], context, _sum)


def running_best_code(group: Group, context: GroupContext) -> GroupCode:
    return _code(group.roots[0], context, _best)


def _code(node: Node, context: GroupContext, rule: Rule) -> GroupCode:
    launch, plain = (_launch(node, context, most, rule) for most in (MAX_UNROLLED, 1))
    return context.code(launch, plain.work)


def _sum(node: Node, operands: Sequence[Expr]) -> _Step:
    factor, term = operands
    add = statements("h = fma(FACTOR, h, TERM);", FACTOR=factor, TERM=term)
    return _Step(statements("var h = 0.0;"), add)


def _best(node: Node, operands: Sequence[Expr]) -> _Step:
    """The position of the last of the greatest elements so far; NaN stays, once it is met."""
    compare = statements("if (key >= best) { best = key; h = i32(ROW); }", ROW=INNER)
    step = (*key_of(node.inputs[0].dtype, operands[0], "key"), *compare)
    return _Step(statements("var h = 0;\nvar best = 0u;"), step)


@dataclass(frozen=True, slots=True)
class _Step:
    """Statements before the loop and in each iteration, which leaves its result in `h`."""

    start: Body
    body: Body


Rule = Callable[[Node, Sequence[Expr]], _Step]


def _launch(node: Node, context: GroupContext, most: int, rule: Rule) -> Launch:
    shape = node.output.shape
    space = reduction_space(shape, (node.attrs["axis"],))
    emitter = Emitter(context.inlined, context.bindings())
    inner = emitter.open_loop(frozenset({Variable(INNER, space.inner)}))
    position = space.position()
    if node.attrs.get("reverse"):
        backwards = constant(space.inner - 1) - variable(INNER, space.inner)
        position = position.substitute({Variable(INNER, space.inner): backwards})
    at = coordinates_of(position, shape)
    step = rule(node, [emitter.at(value, at) for value in node.inputs])
    store = emitter.store(node.output, at, Name("h"))
    times = min(unroll_times(space.inner), most)
    loop = counted_loop(INNER, u32(0), Name("INNER"), (*inner.body, *step.body, store))
    body = (*emitter.outer.body, *step.start, several(loop, times))
    constants, iterations = {"INNER": space.inner}, ceil_div(space.inner, times)
    return context.launch_threads(emitter, body, space.outer, WORKGROUP, constants, iterations)


# States that are carried together where loads count and threads do not.
MOST_CARRIED = 16


@dataclass(frozen=True, slots=True)
class StateSizes:
    batch: int
    times: int
    channels: int
    states: int
    chunk: int

    @property
    def chunks(self) -> int:
        return ceil_div(self.times, self.chunk)

    @property
    def steps_back(self) -> range:
        """The steps of a chunk, the last one first."""
        return range(self.chunk - 1, -1, -1)

    def constants(self) -> dict[str, int]:
        return {
            "BATCH": self.batch,
            "TIMES": self.times,
            "CHANNELS": self.channels,
            "STATES": self.states,
            "CHUNK": self.chunk,
            "CHUNKS": self.chunks,
        }

    def coordinate(self, name: str) -> Index:
        extents = {"z": self.batch, "t": self.times, "e": self.channels, "n": self.states}
        rows = {"k": self.chunks, "row": 2 * self.chunk + self.states}
        return variable(name, {**extents, **rows}[name])


def state_scan_code(group: Group, context: GroupContext) -> GroupCode:
    """Forward: states carried through time, kept at each chunk's start; with or without y."""
    node = group.roots[0]
    sizes = _sizes(node, node.inputs[0])
    *y, starts = node.outputs
    writes = {"put_y": (y[0], "z t e")} if y else {}
    writes |= {"put_start": (starts, "z k n e")}
    kernel = _Kernel(node, context, sizes, "state_scan", writes)
    return _carrying(kernel, sizes.states) if y else _carrying(kernel)


def state_ends_code(group: Group, context: GroupContext) -> GroupCode:
    """Backward: what reaches the end of each chunk from later ones."""
    node = group.roots[0]
    writes = {"put_end": (node.output, "z k n e")}
    sizes = _sizes(node, node.inputs[0])
    return _carrying(_Kernel(node, context, sizes, "state_ends", writes))


def state_output_code(group: Group, context: GroupContext) -> GroupCode:
    node = group.roots[0]
    sizes = _sizes(node, node.inputs[0])
    writes = {"put_y": (node.output, "z t e")}
    kernel = _Kernel(node, context, sizes, "state_output", writes)
    launch = kernel.launch(sizes.batch * sizes.chunks * sizes.channels)
    return context.code(launch)


def state_grad_channels_code(group: Group, context: GroupContext) -> GroupCode:
    node = group.roots[0]
    sizes = _sizes(node, node.inputs[0])
    writes = {"put": (node.output, "z k row e")}
    kernel = _Kernel(node, context, sizes, "state_grad_channels", writes)
    launch = kernel.launch(sizes.batch * sizes.chunks * sizes.channels)
    return context.code(launch)


def state_grad_states_code(group: Group, context: GroupContext) -> GroupCode:
    node = group.roots[0]
    sizes, parts = _sizes(node, node.inputs[0]), int(node.attrs["parts"])
    writes = {"put_db": (node.output, "part z t n"), "put_dc": (node.output, "part z t n+")}
    kernel = _Kernel(node, context, sizes, "state_grad_states", writes)
    launch = kernel.launch(parts * sizes.batch * sizes.chunks * sizes.states, parts=parts)
    return context.code(launch)


def _carrying(kernel: _Kernel, block: int | None = None) -> GroupCode:
    """`block`: how many states a thread carries, where it must be all of them."""
    sizes = kernel.sizes
    rows = sizes.batch * sizes.states * sizes.channels
    together = block or _divisor(sizes.states, MOST_CARRIED)
    launch = kernel.launch(rows // (block or 1), block or 1)
    plain = kernel.launch(rows // together, together, limited=False)
    return kernel.context.code(launch, plain.work)


# Where each operand is read, by its name among the op's inputs.
_READS = {
    "u": {"u_at": "z t e"},
    "dt": {"dt_at": "z t e"},
    "g": {"g_at": "z t e"},
    "a": {"a_at": "e n"},
    "bc": {"b_at": "z t n", "c_at": "z t n+"},
    "starts": {"start_at": "z k n e"},
    "ends": {"end_at": "z k n e"},
}
_INPUTS = {
    "state_scan": "u dt a bc",
    "state_output": "u dt a bc starts",
    "state_ends": "dt a bc g",
    "state_grad_channels": "u dt a bc g starts ends",
    "state_grad_states": "u dt a bc g starts ends",
}


@dataclass(frozen=True, slots=True)
class _Kernel:
    node: Node
    context: GroupContext
    sizes: StateSizes
    template: str
    writes: Mapping[str, tuple[Value, str]]

    def launch(self, threads: int, block: int = 1, parts: int = 1, limited: bool = True) -> Launch:
        """`limited`: a driver ends long loops."""
        emitter = Emitter(self.context.inlined, self.context.bindings())
        long = limited and self.sizes.times + self.sizes.chunks > GOOD_ITERATIONS
        grid = grid_of(ceil_div(threads, WORKGROUP))
        shares = {"BLOCK": block, "PARTS": parts, "THREADS": threads}
        shares["ZERO_ORDER"] = int(self.node.attrs.get("zero_order", False))
        if shares["ZERO_ORDER"]:
            emitter.functions["exp_tail"] = None
        return self.context.launch(
            self.template,
            emitter,
            constants={**self.sizes.constants(), **shares, "WORKGROUP": WORKGROUP},
            functions=(*self._readers(emitter), *self._writers(emitter, parts)),
            holes={"INDEX": thread_index(grid, WORKGROUP)},
            values={
                "has_output": "put_y" in self.writes,
                "steps_back": self.sizes.steps_back,
            },
            variant=self._without_loop if long else None,
            workgroup=(WORKGROUP, 1, 1),
            grid=grid,
            iterations=self.sizes.chunks + (0 if long else self.sizes.times),
        )

    def _without_loop(self, body: Module) -> Module:
        """The steps of a chunk, which are counted by `t` or `back`, written out."""
        return write_out(body, ("t", "back"), self.sizes.chunk)

    def _readers(self, emitter: Emitter) -> Iterator[Declaration]:
        for operand, value in zip(_INPUTS[self.node.op].split(), self.node.inputs, strict=True):
            for name, places in _READS[operand].items():
                signature = f"{name}({_arguments(places)}) -> f32"
                yield from emitter.reader(signature, value, self._coordinates(places, 1))

    def _writers(self, emitter: Emitter, parts: int) -> Iterator[Declaration]:
        for name, (value, places) in self.writes.items():
            kept, at = self.context.is_stored(value), self._coordinates(places, parts)
            stores = [emitter.store(value, at, Name("x"))] if kept else []
            yield from emitter.function(f"{name}({_arguments(places)}, x: f32)", *stores)

    def _coordinates(self, places: str, parts: int) -> tuple[Index, ...]:
        coordinates = []
        for name in places.split():
            if name == "part":
                coordinates.append(variable("part", parts))
            elif name == "n+":
                coordinates.append(self.sizes.coordinate("n") + self.sizes.states)
            else:
                coordinates.append(self.sizes.coordinate(name))
        return tuple(coordinates)


def _arguments(places: str) -> str:
    return ", ".join(f"{name.removesuffix('+')}: u32" for name in places.split())


def _sizes(node: Node, channelled: Value) -> StateSizes:
    a = node.inputs[_INPUTS[node.op].split().index("a")]
    batch, times, channels = channelled.shape
    return StateSizes(batch, times, channels, a.shape[1], int(node.attrs["chunk"]))


def _divisor(number: int, most: int) -> int:
    return next(n for n in range(min(number, most), 0, -1) if number % n == 0)
