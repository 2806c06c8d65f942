"""Loops that are compiled once (`repeat`): what they mean, in numpy, on graphs built by hand."""

from __future__ import annotations

import numpy as np
import pytest

from read_ir import read_graphs
from wgcc.evaluate import effort, evaluate
from wgcc.ir.graph import Graph
from wgcc.ir.text import graph_text
from wgcc.ir.verify import verify
from wgcc.ops import infer_types

# A carry, a slice, a captured weight, the index, and a stack of each round.
RNN = """
entry main {
  input %h0: f32[2, 3]
  input %xs: f32[5, 2, 3]
  param %w: f32[3, 3]
  %h: f32[2, 3], %ys: f32[5, 2, 3], %at: f32[5] = repeat(%h0, %xs, %w; reverse=REVERSE, rounds=5) {
    input %t: u32
    input %x: f32[2, 3]
    input %w.in: f32[3, 3]
    state %h.old: f32[2, 3]
    %wh: f32[2, 3] = matmul(%h.old, %w.in)
    %a: f32[2, 3] = add(%wh, %x)
    %h.new: f32[2, 3] = tanh(%a)
    %now: f32 = cast(%t; dtype=f32)
    output y = %a
    output at = %now
    write h.old = %h.new
  }
  output h = %h
  output ys = %ys
  output at = %at
}
"""
# A loop in a loop: the inner one starts from the carry of the outer one.
NESTED = """
entry main {
  input %h0: f32[3]
  input %xs: f32[4, 2, 3]
  %h: f32[3], %ys: f32[4, 2, 3] = repeat(%h0, %xs; reverse=False, rounds=4) {
    input %t: u32
    input %x: f32[2, 3]
    state %h.outer: f32[3]
    %h.last: f32[3], %hs: f32[2, 3] = repeat(%h.outer, %x; reverse=True, rounds=2) {
      input %s: u32
      input %part: f32[3]
      state %h.inner: f32[3]
      %sum: f32[3] = add(%h.inner, %part)
      %h.new: f32[3] = sin(%sum)
      output hs = %h.new
      write h.inner = %h.new
    }
    output y = %hs
    write h.outer = %h.last
  }
  output h = %h
  output ys = %ys
}
"""


def read(text: str, reverse: bool = False) -> Graph:
    graph = read_graphs(text.replace("REVERSE", str(reverse)))["main"]
    verify(graph, infer_types)
    return graph


def draw(graph: Graph) -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    return {value.name: random.uniform(-1, 1, value.shape) for value in graph.sources}


@pytest.mark.parametrize("reverse", [False, True])
def test_a_loop_carries_slices_captures_and_stacks(reverse: bool) -> None:
    graph = read(RNN, reverse)
    values = draw(graph)
    found = evaluate(graph, values).outputs
    h, ys = values["h0"], np.zeros((5, 2, 3))
    for t in range(5)[:: -1 if reverse else 1]:
        ys[t] = h @ values["w"] + values["xs"][t]
        h = np.tanh(ys[t])
    np.testing.assert_allclose(found["h"], h)
    np.testing.assert_allclose(found["ys"], ys)
    np.testing.assert_array_equal(found["at"], np.arange(5))


def test_loops_nest() -> None:
    graph = read(NESTED)
    values = draw(graph)
    found = evaluate(graph, values).outputs
    h, ys = values["h0"], np.zeros((4, 2, 3))
    for t in range(4):
        for s in (1, 0):
            h = ys[t, s] = np.sin(h + values["xs"][t, s])
    np.testing.assert_allclose(found["h"], h)
    np.testing.assert_allclose(found["ys"], ys)


@pytest.mark.parametrize("text", [RNN, NESTED])
def test_the_text_of_a_loop_can_be_read_again(text: str) -> None:
    graph = read(text)
    assert graph_text(read_graphs(graph_text(graph))["main"]) == graph_text(graph)


def test_the_effort_of_a_loop_grows_with_its_rounds() -> None:
    few = read(RNN)
    many = read(RNN.replace("rounds=5", "rounds=50").replace("[5", "[50"))
    assert 9 < effort(many) / effort(few) < 11
