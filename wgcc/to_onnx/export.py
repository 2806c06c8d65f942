"""An entry of a program as an ONNX model.

Loops are ONNX's `Scan`, whose body reads outer tensors by their names. Not all programs run it
backwards: slices and results of such loops are reversed instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias

from wgcc.errors import WgError
from wgcc.evaluate import from_words
from wgcc.exporting.compositions import written_out
from wgcc.ir.graph import Graph, Node, Value
from wgcc.ir.loops import LoopNode, loop_of
from wgcc.ir.program import Program
from wgcc.lazy_numpy import Array, np
from wgcc.to_onnx.emitter import ELEMENTS, NUMPY, CannotExport, OnnxEmitter, OnnxNode
from wgcc.to_onnx.rules import RULES, has_rule

OPSET = 20
# The newest that most programs read.
IR_VERSION = 10
# Writes all nodes of a graph, given the ONNX names of what they read.
Write: TypeAlias = Callable[[Graph, OnnxEmitter, dict[str, str]], None]


def export_entry(program: Program, name: str, weights: Mapping[str, Array]) -> Any:
    """The `ModelProto`. Raises `WgError` with all ops that cannot be expressed."""
    from onnx.checker import check_model
    from onnx.helper import make_graph, make_model, make_opsetid, make_tensor_value_info
    from onnx.numpy_helper import from_array

    _check(program.entries[name])
    graph = written_out(program.entries[name], has_rule)
    emitter = OnnxEmitter(outputs=frozenset(graph.outputs))
    names = {value.name: value.name for value in graph.inputs}
    for value in (*graph.params, *graph.state):
        held = np.asarray(weights[value.name]).astype(NUMPY[value.dtype])
        emitter.tensors[value.name] = held.reshape(value.shape)
        names[value.name] = value.name
    problems: dict[str, None] = {}
    _write(graph, emitter, names, problems)
    if problems:
        lines = "\n".join(problems)
        raise WgError(f"entry {graph.name} cannot be exported to ONNX\n{lines}")
    outputs = []
    for key, value in graph.outputs.items():
        port = emitter.node("Identity", names[value.name], name=_output_name(key, names, emitter))
        outputs.append(make_tensor_value_info(port, ELEMENTS[value.dtype], value.shape))
    ports = [make_tensor_value_info(v.name, ELEMENTS[v.dtype], v.shape) for v in graph.inputs]
    tensors = [from_array(array, key) for key, array in emitter.tensors.items()]
    made = make_graph(emitter.nodes, name, ports, outputs, tensors)
    opsets = [make_opsetid("", OPSET)]
    model = make_model(made, opset_imports=opsets, ir_version=IR_VERSION, producer_name="wgcc")
    check_model(model)
    return model


def _output_name(key: str, names: Mapping[str, str], emitter: OnnxEmitter) -> str:
    """The output's own name, unless an input or a parameter has it already."""
    taken = set(emitter.tensors) | set(names.values())
    while key in taken:
        key += "_out"
    return key


def _check(graph: Graph) -> None:
    if graph.writes:
        raise WgError(f"entry {graph.name} changes parameters or state: ONNX models only compute")


def _write(
    graph: Graph, emitter: OnnxEmitter, names: dict[str, str], problems: dict[str, None]
) -> None:
    for item in graph.constants:
        held = from_words(item).astype(NUMPY[item.value.dtype])
        names[item.value.name] = emitter.store(held.reshape(item.value.shape))
    for node in graph.nodes:
        try:
            _write_node(node, emitter, names, partial(_write, problems=problems))
        except CannotExport as error:
            place = f" ({node.span.place})" if node.span else ""
            problems[f"  {node.op}{place}: {error.reason}"] = None
            names.update({value.name: value.name for value in node.outputs})


def _write_node(node: Node, emitter: OnnxEmitter, names: dict[str, str], write: Write) -> None:
    rule, loop = RULES.get(node.op), loop_of(node)
    if loop is not None:
        names.update(write_loop(loop, emitter, names, write))
    elif rule is not None:
        wanted = _free(node.outputs[0].name, emitter)
        call = OnnxNode(node, tuple(names[value.name] for value in node.inputs), wanted, emitter)
        names[node.outputs[0].name] = rule(call)
    else:
        raise CannotExport("ONNX has no operator like it")


def _free(name: str, emitter: OnnxEmitter) -> str:
    is_taken = name in emitter.tensors or name in emitter.outputs
    return emitter.fresh(name) if is_taken else name


def write_loop(
    loop: LoopNode, emitter: OnnxEmitter, names: dict[str, str], write: Write
) -> dict[str, str]:
    """The ONNX names of its results."""
    from onnx.helper import make_node

    places = np.array(loop.positions, NUMPY[loop.index.dtype])
    xs = [_in_order(loop, emitter, names[outer.name]) for outer, _ in loop.sliced]
    given = [*(names[value.name] for value in loop.inits), emitter.store(places, "places"), *xs]
    results = [emitter.fresh(value.name) for value in loop.node.outputs]
    emitter.nodes.append(
        make_node("Scan", given, results, name=results[0], num_scan_inputs=1 + len(xs),
                  body=_body(loop, emitter, names, write))
    )  # fmt: skip
    result_names = dict(zip((value.name for value in loop.node.outputs), results, strict=True))
    for value in loop.stacks:
        result_names[value.name] = _in_order(loop, emitter, result_names[value.name])
    return result_names


def _body(loop: LoopNode, emitter: OnnxEmitter, names: dict[str, str], write: Write) -> Any:
    from onnx.helper import make_graph

    inner, inside = emitter.inner(), dict(names)
    inside |= {value.name: names[outer.name] for outer, value in loop.invariants}
    ports = (*loop.carries, loop.index, *(value for _, value in loop.sliced))
    inside |= {value.name: inner.fresh(value.name) for value in ports}
    write(loop.body, inner, inside)
    results = (*loop.next_carries, *loop.body.outputs.values())
    made = {inner.node("Identity", inside[value.name]): value for value in results}
    inputs = _value_infos((inside[value.name], value) for value in ports)
    return make_graph(inner.nodes, emitter.fresh("round"), inputs, _value_infos(made.items()))


def _value_infos(ports: Iterable[tuple[str, Value]]) -> list[Any]:
    from onnx.helper import make_tensor_value_info

    return [
        make_tensor_value_info(name, ELEMENTS[value.dtype], value.shape) for name, value in ports
    ]


def _in_order(loop: LoopNode, emitter: OnnxEmitter, name: str) -> str:
    """Turned around along the first axis, if the loop runs backwards."""
    if not loop.reverse:
        return name
    lists = [emitter.whole(item) for item in ([-1], [-(1 << 31)], [0], [-1])]
    return emitter.node("Slice", name, *lists)
