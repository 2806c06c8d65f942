"""Runs graphs and whole programs in numpy with each op's `reference`: the oracle of every test.

It must not know any single op: the meaning of an op is in its own file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from wgcc.ir.dtypes import DTYPE_TABLE, F16
from wgcc.ir.graph import FLOATS, Constant, Graph, Node, RangeCheck, TensorType, Value
from wgcc.ir.loops import LoopNode, loop_of
from wgcc.ir.program import ModelTensor, Program
from wgcc.lazy_numpy import Array, np
from wgcc.ops import OPS
from wgcc.ops.registry import NUMPY_CALL, Marker

Precision = Literal["f64", "f32"]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The results of one call of an entry, and the new values of parameters and state."""

    outputs: Mapping[str, Array]
    writes: Mapping[str, Array]


def evaluate(graph: Graph, values: Mapping[str, Array], dtype: Precision = "f64") -> Evaluated:
    """Run `graph` on `values` (one array per source, by name); floats are computed in `dtype`.

    Raises `OutOfRangeError` if the graph's range guard finds an index out of range.
    """
    given = {**values, **{item.value.name: from_words(item) for item in graph.constants}}
    known = {value.name: as_held(given[value.name], value.type, dtype) for value in graph.sources}
    last_use = _last_uses(graph)
    with np.errstate(all="ignore"):
        for position, node in enumerate(graph.nodes):
            known.update(_run(node, known, dtype))
            for value in node.inputs:
                if last_use.get(value.name) == position:
                    known.pop(value.name, None)
    guard = graph.entry.range_guard
    if graph.range_flag and guard and (flag := int(known[graph.range_flag.name])):
        raise OutOfRangeError(guard.checks[-flag])
    return Evaluated(_pick(graph.outputs, known), _pick(graph.writes, known))


class OutOfRangeError(ValueError):
    """An index or label was out of range, which runtimes report as an error of the call."""

    def __init__(self, check: RangeCheck) -> None:
        where = f" ({check.span.place})" if check.span else ""
        super().__init__(f"{check.what} is outside {check.low} to {check.high}{where}")


class Session:
    """A program between calls: `params` and `state` hold the values after the last `call`."""

    def __init__(
        self,
        program: Program,
        params: Mapping[str, Array],
        state: Mapping[str, Array] | None = None,
        dtype: Precision = "f64",
    ) -> None:
        self.program = program
        self.dtype = dtype
        self.params = _initial_arrays(program.params.values(), params, dtype)
        self.state = _initial_arrays(
            program.state.values(), {**self.params, **(state or {})}, dtype
        )

    def call(self, entry: str, inputs: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """Run one entry and return its outputs by name."""
        graph = self.program.entries[entry]
        result = evaluate(graph, {**self.params, **self.state, **(inputs or {})}, self.dtype)
        for name, array in result.writes.items():
            (self.params if name in self.params else self.state)[name] = array
        return dict(result.outputs)


def as_held(array: object, type_: TensorType, dtype: Precision = "f64") -> Array:
    """`array` as a tensor of this type stores it: f16 is rounded, then computed like any float."""
    elements = np.asarray(array)
    if elements.shape != type_.shape:
        raise ValueError(f"a tensor {type_} cannot hold an array of shape {list(elements.shape)}")
    if type_.dtype not in FLOATS:
        return elements.astype(NUMPY[type_.dtype])
    rounded = elements.astype(np.float16) if type_.dtype == F16 else elements
    return rounded.astype(NUMPY[dtype])


def from_words(constant: Constant) -> Array:
    words = np.frombuffer(constant.words, DTYPE_TABLE[constant.value.dtype].memory)
    return words.reshape(constant.value.shape)


def to_words(array: Array, value: Value) -> Constant:
    """`array` as the constant `value` of a graph."""
    held = as_held(array, value.type)
    return Constant(value, np.ascontiguousarray(held, DTYPE_TABLE[value.dtype].memory).tobytes())


NUMPY = {"f64": "float64", **{name: row.numpy for name, row in DTYPE_TABLE.items()}}
PLAIN = {"zeros": 0.0, "ones": 1.0}


def _run(node: Node, known: Mapping[str, Array], dtype: Precision) -> dict[str, Array]:
    op = OPS[node.op]
    if isinstance(op.lower, Marker):
        raise ValueError(f"`{node.op}` has no value before the pass `{op.lower.until}` has run")
    arrays = [known[value.name] for value in node.inputs]
    if loop := loop_of(node):
        results = _run_loop(loop, arrays, dtype)
    else:
        output = op.reference(*arrays, **node.attrs)
        results = output if isinstance(output, (tuple, list)) else (output,)
    return {
        value.name: as_held(result, value.type, dtype)
        for value, result in zip(node.outputs, results, strict=True)
    }


def _run_loop(loop: LoopNode, arrays: Sequence[Array], dtype: Precision) -> Sequence[Array]:
    """The carries after the last round, and what each round gave, stacked."""
    carries = arrays[: len(loop.carries)]
    xs = arrays[len(carries) : len(carries) + len(loop.sliced)]
    captured = arrays[len(carries) + len(xs) :]
    stacked: dict[int, list[Array]] = {}
    names = [value.name for value in (*loop.carries, *loop.body.inputs)]
    for t in loop.positions:
        given = (*carries, np.uint32(t), *(x[t] for x in xs), *captured)
        done = evaluate(loop.body, dict(zip(names, given, strict=True)), dtype)
        carries = [done.writes[value.name] for value in loop.carries]
        stacked[t] = list(done.outputs.values())
    return [*carries, *map(np.stack, zip(*(stacked[t] for t in sorted(stacked)), strict=True))]


def _last_uses(graph: Graph) -> dict[str, int]:
    """The last node that reads each value; results of the graph are left out."""
    uses = {
        value.name: position for position, node in enumerate(graph.nodes) for value in node.inputs
    }
    wanted = {value.name for value in graph.results}
    return {name: position for name, position in uses.items() if name not in wanted}


def _pick(wanted: Mapping[str, Value], known: Mapping[str, Array]) -> dict[str, Array]:
    return {name: known[value.name] for name, value in wanted.items()}


def _initial_arrays(
    tensors: Iterable[ModelTensor], given: Mapping[str, Array], dtype: Precision
) -> dict[str, Array]:
    """The given arrays; initial values that are numbers or copies need not be given."""
    return {
        tensor.name: as_held(_initial_value(tensor, given), tensor.type, dtype)
        for tensor in tensors
    }


def _initial_value(tensor: ModelTensor, given: Mapping[str, Array]) -> Array:
    if tensor.name in given:
        return np.asarray(given[tensor.name])
    if tensor.init.kind == "copy":
        return np.asarray(given[tensor.init.of])
    if tensor.init.kind in PLAIN:
        return np.full(tensor.type.shape, PLAIN[tensor.init.kind])
    if tensor.init.kind != "value":
        raise ValueError(f"{tensor.name} has random initial values, so they must be given")
    values = tensor.init.values
    return (
        np.full(tensor.type.shape, values[0])
        if len(values) == 1
        else np.reshape(values, tensor.type.shape)
    )


def effort(graph: Graph) -> int:
    return nodes_effort(graph.nodes)


def nodes_effort(nodes: Iterable[Node]) -> int:
    return sum(map(_node_effort, nodes))


def _node_effort(node: Node) -> int:
    if loop := loop_of(node):
        return loop.rounds * (nodes_effort(loop.body.nodes) + NUMPY_CALL * len(loop.body.nodes))
    more = OPS[node.op].effort
    return sum(value.type.size for value in node.outputs) + (more(node) if more else 0)
