"""Recurrences of state-space models: channels loop over time with their states in registers.

Templates see operands as functions (`u_at(z, t, e)`) and results as procedures (`put_y(…)`); this
file says how work is shared out: one thread per channel, chunk or state, with `block` states each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import Index, variable
from wgcc.ir.places import ceil_div
from wgcc.kernel.tree import Declaration, Name
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.codegen.limits import GOOD_ITERATIONS, grid_of, thread_index
from wgcc.schedule.fuse.fuse import Group
from wgcc.schedule.kernel import Launch
from wgcc.schedule.kernels.context import Context, GroupCode
from wgcc.schedule.kernels.copies_of_body import Body, Copy, each_step

WORKGROUP = 64
# States that one thread of the twin carries: loads count there, threads do not.
MOST_CARRIED = 16


@dataclass(frozen=True, slots=True)
class Sizes:
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


def state_scan_code(group: Group, context: Context) -> GroupCode:
    """Forward: states carried through time, kept at each chunk's start; with or without y."""
    node = group.roots[0]
    sizes = _sizes(node, node.inputs[0])
    *y, starts = node.outputs
    writes = {"put_y": (y[0], "z t e")} if y else {}
    writes |= {"put_start": (starts, "z k n e")}
    kernel = _Kernel(node, context, sizes, "state_scan", writes)
    return _carrying(kernel, sizes.states) if y else _carrying(kernel)


def state_ends_code(group: Group, context: Context) -> GroupCode:
    """Backward: what reaches the end of each chunk from later ones."""
    node = group.roots[0]
    writes = {"put_end": (node.output, "z k n e")}
    sizes = _sizes(node, node.inputs[0])
    return _carrying(_Kernel(node, context, sizes, "state_ends", writes))


def state_output_code(group: Group, context: Context) -> GroupCode:
    node = group.roots[0]
    sizes = _sizes(node, node.inputs[0])
    writes = {"put_y": (node.output, "z t e")}
    kernel = _Kernel(node, context, sizes, "state_output", writes)
    launch = kernel.launch(sizes.batch * sizes.chunks * sizes.channels)
    return context.code(launch, launch)


def state_grad_channels_code(group: Group, context: Context) -> GroupCode:
    node = group.roots[0]
    sizes = _sizes(node, node.inputs[0])
    writes = {"put": (node.output, "z k row e")}
    kernel = _Kernel(node, context, sizes, "state_grad_channels", writes)
    launch = kernel.launch(sizes.batch * sizes.chunks * sizes.channels)
    return context.code(launch, launch)


def state_grad_states_code(group: Group, context: Context) -> GroupCode:
    node = group.roots[0]
    sizes, parts = _sizes(node, node.inputs[0]), int(node.attrs["parts"])
    writes = {"put_db": (node.output, "part z t n"), "put_dc": (node.output, "part z t n+")}
    kernel = _Kernel(node, context, sizes, "state_grad_states", writes)
    launch = kernel.launch(parts * sizes.batch * sizes.chunks * sizes.states, parts=parts)
    return context.code(launch, launch)


def _carrying(kernel: _Kernel, block: int | None = None) -> GroupCode:
    """`block`: how many states a thread carries, where it must be all of them."""
    sizes = kernel.sizes
    rows = sizes.batch * sizes.states * sizes.channels
    in_twin = block or _divisor(sizes.states, MOST_CARRIED)
    return kernel.context.code(
        kernel.launch(rows // (block or 1), block or 1),
        kernel.launch(rows // in_twin, in_twin, limited=False),
    )


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
    context: Context
    sizes: Sizes
    template: str
    writes: Mapping[str, tuple[Value, str]]

    def launch(self, threads: int, block: int = 1, parts: int = 1, limited: bool = True) -> Launch:
        """`limited`: a driver ends long loops."""
        emitter = Emitter(self.context.inlined, self.context.bindings())
        long = limited and self.sizes.times + self.sizes.chunks > GOOD_ITERATIONS
        grid = grid_of(ceil_div(threads, WORKGROUP))
        shares = {"BLOCK": block, "WIDE": 1, "PARTS": parts, "THREADS": threads}
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
                "steps": self._steps(long),
                "steps_back": self.sizes.steps_back,
            },
            workgroup=(WORKGROUP, 1, 1),
            grid=grid,
            iterations=self.sizes.chunks + (0 if long else self.sizes.times),
        )

    def _steps(self, long: bool) -> Body:
        """The steps of a chunk, in the direction in which the states are carried."""
        is_back = self.node.op == "state_ends"
        if long:
            return each_step(self.sizes.steps_back if is_back else range(self.sizes.chunk))
        begin = (
            "let count = min(CHUNK, TIMES - k * CHUNK);\n"
            "for (var back = 0u; back < count; back++) {\n"
            "let t = k * CHUNK + (count - 1u - back);"
            if is_back
            else "for (var t = k * CHUNK; t < min(k * CHUNK + CHUNK, TIMES); t++) {"
        )
        return Body(begin, (Copy("", ""),), "}")

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
        found = []
        for name in places.split():
            if name == "part":
                found.append(variable("part", parts))
            elif name == "n+":
                found.append(self.sizes.coordinate("n") + self.sizes.states)
            else:
                found.append(self.sizes.coordinate(name))
        return tuple(found)


def _arguments(places: str) -> str:
    return ", ".join(f"{name.removesuffix('+')}: u32" for name in places.split())


def _sizes(node: Node, channelled: Value) -> Sizes:
    a = node.inputs[_INPUTS[node.op].split().index("a")]
    batch, times, channels = channelled.shape
    return Sizes(batch, times, channels, a.shape[1], int(node.attrs["chunk"]))


def _divisor(number: int, most: int) -> int:
    return next(n for n in range(min(number, most), 0, -1) if number % n == 0)
