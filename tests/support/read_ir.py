"""Reads graphs from the text form that `wgcc show` prints, so that file tests can be written in it.

Types of nodes may be left out: the shape rules give them. `//` starts a comment.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from wgcc.ir.graph import Builder, Graph, TensorType, Value
from wgcc.ir.program import Init, ModelTensor, Program
from wgcc.ops import infer_types

HEAD = re.compile(r"entry (\S+) \{(.*?)^\}", re.DOTALL | re.MULTILINE)
SOURCE = re.compile(r"(input|param|state) %(\S+): (\S.*)")
RESULT = re.compile(r"(output|write) (\S+) = %(\S+)")
NODE = re.compile(r"(%.+?) = (\w+)\((.*)\)")


def read_graphs(text: str) -> dict[str, Graph]:
    plain = re.sub(r"[ ]*//.*", "", text)
    return {name: _graph(name, body) for name, body in HEAD.findall(plain)}


def program_of(graph: Graph, precision: str = "f32") -> Program:
    """A program whose only entry is this graph."""
    zero = Init("value", values=(0.0,))
    return Program(
        "file",
        params={v.name: ModelTensor(v.name, v.type, zero) for v in graph.params},
        state={v.name: ModelTensor(v.name, v.type, zero) for v in graph.state},
        entries={graph.name: graph},
        precision=precision,
    )


def _graph(name: str, body: str) -> Graph:
    return _read(name, iter(filter(None, map(str.strip, body.splitlines()))))


def _read(name: str, lines: Iterator[str]) -> Graph:
    """The graph in `lines`, up to the end or the brace that closes the body of a loop."""
    sources: dict[str, list[Value]] = {"input": [], "param": [], "state": []}
    results: dict[str, dict[str, Value]] = {"output": {}, "write": {}}
    known: dict[str, Value] = {}
    builder = Builder(infer_types)
    for line in lines:
        if line == "}":
            break
        if match := SOURCE.fullmatch(line):
            kind, source, type_ = match.groups()
            known[source] = Value(builder.fresh(source), read_type(type_))
            sources[kind].append(known[source])
        elif match := RESULT.fullmatch(line):
            kind, result, value = match.groups()
            results[kind][result] = known[value]
        else:
            inner = {"body": _read("body", lines)} if line.endswith(" {") else {}
            made = _node(builder, known, line.removesuffix(" {"), inner)
            known.update((value.name, value) for value in made)
    return Graph(
        name,
        *(tuple(sources[kind]) for kind in ("input", "param", "state")),
        tuple(builder.nodes),
        results["output"],
        results["write"],
    )


def _node(
    builder: Builder, known: dict[str, Value], line: str, inner: dict[str, Graph]
) -> Iterator[Value]:
    match = NODE.fullmatch(line)
    assert match, f"not a line of a graph: {line}"
    outputs, op, arguments = match.groups()
    operands = re.findall(r"%([^\s,;)]+)", arguments)
    attrs = re.sub(r"^[^;]*; ?", "", arguments) if "%" in arguments else arguments
    names = re.findall(r"%([^\s:,]+)(?:: (\w+(?:\[[^\]]*\])?))?", outputs)
    made = builder.apply_many(
        op,
        *(known[operand] for operand in operands),
        names=tuple(name for name, _ in names),
        **(_attrs(attrs) if "=" in attrs else {}),
        **inner,
    )
    for value, (_, type_) in zip(made, names, strict=True):
        assert not type_ or str(value.type) == type_, f"{line}: it is {value.type}"
        yield value


def read_type(text: str) -> TensorType:
    dtype, _, sizes = text.partition("[")
    return TensorType(tuple(map(int, re.findall(r"\d+", sizes))), dtype)


def _attrs(text: str) -> dict[str, Any]:
    call = ast.parse(f"f({text})", mode="eval").body
    assert isinstance(call, ast.Call)
    return {keyword.arg or "": _plain(keyword.value) for keyword in call.keywords}


def _plain(node: ast.expr) -> Any:
    """A Python literal in which words need no quotes."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Tuple):
        return tuple(map(_plain, node.elts))
    if isinstance(node, ast.Dict):
        return {_plain(k): _plain(v) for k, v in zip(node.keys, node.values, strict=True) if k}
    return ast.literal_eval(node)
