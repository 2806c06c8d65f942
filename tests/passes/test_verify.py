"""Every invariant of graphs is really checked: each of these breaks one of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from read_ir import read_graphs
from wgcc.ir.graph import Graph, Node, TensorType, Value
from wgcc.ir.loops import rename, with_body
from wgcc.ir.program import Init, ModelTensor, Program
from wgcc.ir.verify import GraphError, verify, verify_program
from wgcc.ops import ShapeError, infer_types

VECTOR = TensorType((3,))
X, Y, W = (Value(name, VECTOR) for name in ("x", "y", "w"))
GOOD = read_graphs("""
entry good {
  input %x: f32[3]
  param %w: f32[3]
  %y = mul(%x, %w)
  output y = %y
  write w = %y
}
""")["good"]
Z = Value("z", VECTOR)
PAIR = Value("w", TensorType((2,)))


LOOP = read_graphs("""
entry loop {
  input %h0: f32[3]
  input %xs: f32[4, 3]
  %h, %ys = repeat(%h0, %xs; reverse=False, rounds=4) {
    input %t: u32
    input %x: f32[3]
    state %h.old: f32[3]
    %h.new = add(%h.old, %x)
    output y = %h.new
    write h.old = %h.new
  }
  output ys = %ys
}
""")["loop"]


def with_other_body(body: Graph) -> Graph:
    return replace(LOOP, nodes=(with_body(LOOP.nodes[0], body),))


BODY = LOOP.nodes[0].attrs["body"]
BROKEN = {
    "%ys has the name of another value": with_other_body(
        rename(BODY, {"h.new": Value("ys", VECTOR)})
    ),
    "%w before it is defined": with_other_body(replace(BODY, nodes=(Node("neg", (W,), (Z,)),))),
    "is defined twice": replace(GOOD, nodes=(*GOOD.nodes, *GOOD.nodes)),
    "uses %y before it is defined": replace(GOOD, nodes=(Node("neg", (Y,), (Z,)),)),
    "takes %x for f32[2]": replace(GOOD, outputs={"y": Value("x", TensorType((2,)))}),
    "says otherwise": replace(GOOD, nodes=(Node("mul", (X, W), (Value("y", TensorType((9,))),)),)),
    "output z uses %z before": replace(GOOD, outputs={"z": Z}),
    "neither a parameter nor state": replace(GOOD, writes={"v": Y}),
    "but f32[3] is written to it": replace(GOOD, params=(PAIR,), nodes=(), writes={"w": X}),
}


@pytest.mark.parametrize("graph", [GOOD, LOOP], ids=lambda graph: graph.name)
def test_a_good_graph_passes(graph: Graph) -> None:
    verify(graph, infer_types)


@pytest.mark.parametrize(
    "body, message",
    [
        (replace(BODY, params=(W,)), "has parameters"),
        (replace(BODY, inputs=BODY.inputs[1:]), "the first input of a body is the index"),
        (replace(BODY, inputs=BODY.inputs[:1]), "an input for each carry"),
        (
            replace(BODY, inputs=(BODY.inputs[0], PAIR)),
            r"f32\[4, 3\] cannot be read as %w: f32\[2\]",
        ),
        (replace(BODY, writes={}), "a body writes each of its carries"),
        (replace(BODY, state=(PAIR,), writes={"w": PAIR}), "is f32.2., but starts as f32.3."),
        (replace(BODY, inputs=(*BODY.inputs, W)), "an input for each carry"),
    ],
)
def test_a_body_has_the_form_of_a_round(body: Graph, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        verify(with_other_body(body), infer_types)


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_graph_is_refused(message: str) -> None:
    with pytest.raises(GraphError) as raised:
        verify(BROKEN[message], infer_types)
    assert message in str(raised.value)


def test_markers_must_be_gone_after_their_pass() -> None:
    with pytest.raises(GraphError, match=r"mul, which makes %y: .* should have been replaced"):
        verify(GOOD, infer_types, ("mul",))


@pytest.mark.parametrize(
    "params, message",
    [
        ({}, "%w is no parameter of the program"),
        (
            {"w": ModelTensor("w", TensorType((2,)), Init("zeros"))},
            r"%w is f32\[2\], not f32\[3\]",
        ),
    ],
)
def test_entries_agree_with_their_program(params: dict[str, ModelTensor], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        verify_program(Program("p", params=params, entries={"good": GOOD}), infer_types)
