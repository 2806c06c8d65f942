"""The text form of graphs and programs: what `wgcc show --stage ir` prints and file tests check.

entry train {
  input %x: f32[32, 64]
  param %fc1.w: f32[64, 10]
  %h: f32[32, 10] = matmul(%x, %fc1.w)  // model.wg:12
  %loss: f32 = sum(%h; axes=(0, 1))  // model.wg:13
  output loss = %loss
}

A loop is followed by its body in braces: `input` are the index, slices and captured values, `state`
the carries, each `write` the next value of one, each `output` what a round adds to a stack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import unpack
from textwrap import wrap
from typing import Any
from zlib import crc32

from wgcc.errors import Span
from wgcc.ir.dtypes import DTYPE_TABLE
from wgcc.ir.graph import Constant, Graph, Node, RangeCheck, Value
from wgcc.ir.loops import loop_of
from wgcc.ir.places import Place
from wgcc.ir.program import Init, ModelTensor, Program

MANY = 240
# Elements of a constant that are shown, and how `struct` calls their types.
FEW = 4
LETTERS = {"f4": "f", "i4": "i", "u4": "I", "i1": "b", "u1": "B"}


def program_text(program: Program) -> str:
    """Every parameter and state with its initial values, then every entry."""
    lines = [f"program {program.name or '_'} seed={program.seed}"]
    for kind, tensors in (("param", program.params), ("state", program.state)):
        lines += [_tensor(kind, t, program.places.get(t.name)) for t in tensors.values()]
    return "\n".join([*lines, "", *map(graph_text, program.entries.values())])


def graph_text(graph: Graph) -> str:
    return "\n".join([f"entry {graph.name} {{", *(f"  {line}" for line in _body(graph)), "}\n"])


def node_text(node: Node) -> str:
    """One node, without its place: `%h: f32[32, 10] = matmul(%x, %fc1.w)`."""
    outputs = ", ".join(f"{value}: {value.type}" for value in node.outputs)
    inputs = ", ".join(map(str, node.inputs))
    attrs = _attrs({name: value for name, value in node.attrs.items() if name != "body"})
    return f"{outputs} = {node.op}({inputs}{'; ' if inputs and attrs else ''}{attrs})"


def _body(graph: Graph) -> Iterator[str]:
    for kind, values in (
        ("input", graph.inputs),
        ("param", graph.params),
        ("state", graph.state),
    ):
        yield from (f"{kind} {value}: {value.type}{_range(graph, value)}" for value in values)
    yield from map(_constant, graph.constants)
    for node in graph.nodes:
        yield from _node(node)
    yield from (f"output {name} = {value}" for name, value in graph.outputs.items())
    yield from (f"write {name} = {value}" for name, value in graph.writes.items())
    if graph.range_flag and graph.entry.range_guard:
        yield f"guard {graph.range_flag}"
        yield from (f"  {_check(check)}" for check in graph.entry.range_guard.checks)


def _node(node: Node) -> Iterator[str]:
    """A loop is printed with its body."""
    loop = loop_of(node)
    yield from _wrap(node_text(node) + (" {" if loop else "") + _place(node.span))
    if loop:
        yield from (f"  {line}" for line in _body(loop.body))
        yield "}"


def _range(graph: Graph, value: Value) -> str:
    """` in 0..9`, if the entry uses this input as an index; ` or -1` is ignored."""
    if value.name in graph.entry.any_floats:
        return " of any floats"
    if value.name not in graph.entry.ranges:
        return ""
    low, high, ignored = graph.entry.ranges[value.name]
    return f" in {low}..{high}" + (f" or {ignored}" if ignored is not None else "")


def _check(check: RangeCheck) -> str:
    also = f" or {check.ignore}" if check.ignore is not None else ""
    return f"{check.what} in {check.low}..{check.high}{also}{_place(check.span)}"


def _wrap(line: str) -> list[str]:
    """Updates of many tensors are long: such lines continue below, indented."""
    if len(line) < MANY:
        return [line]
    return wrap(line, 98, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _constant(constant: Constant) -> str:
    """The first few elements, and a checksum of all words, so that any change is visible."""
    value = constant.value
    row = DTYPE_TABLE[value.dtype]
    letter, width = LETTERS[row.memory[1:]], row.bytes
    count = min(FEW, len(constant.words) // width)
    numbers = unpack(f"<{count}{letter}", constant.words[: count * width])
    elements = ", ".join(f"{x:.6g}" for x in numbers)
    return f"constant {value}: {value.type} = {elements}, … (crc {crc32(constant.words):08x})"


def _tensor(kind: str, tensor: ModelTensor, place: Place | None) -> str:
    """` at params[64:72]`: words 64 to 71 of a buffer."""
    frozen = " frozen" if kind == "param" and not tensor.trainable else ""
    at = f" at {place.buffer}[{place.offset}:{place.offset + place.count}]" if place else ""
    init, where = _init(tensor.init), _place(tensor.span)
    return f"{kind} {tensor.name}: {tensor.type}{frozen}{init}{at}{where}"


def _init(init: Init) -> str:
    if init.kind == "value":
        return f" = {init.values[0]}" if len(init.values) == 1 else f" = {len(init.values)} values"
    if init.kind == "copy":
        return f" = {init.of}"
    return f" ~ {init.kind}({_attrs(init.args)})"


def _attrs(attrs: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_plain(attrs[name])}" for name in sorted(attrs))


def _plain(value: Any) -> str:
    """An attribute as Python prints it, but strings have no quotes."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_plain(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, tuple):
        inner = ", ".join(map(_plain, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return str(value)


def _place(span: Span | None) -> str:
    return f"  // {span.place}" if span else ""
