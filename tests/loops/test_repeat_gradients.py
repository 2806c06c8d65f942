"""Gradients of loops against central differences, on graphs built by hand; what is stacked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from random_loops import random_loop, unrolled
from read_ir import read_graphs
from wgcc.evaluate import evaluate
from wgcc.ir.graph import FLOATS, Builder, Graph, Value
from wgcc.ir.loops import LoopNode, all_names, loop_of
from wgcc.ir.verify import verify
from wgcc.ops import infer_types
from wgcc.passes.autograd import autograd
from wgcc.passes.hoist import hoist, hoist_from_gradients
from wgcc.passes.rematerialise import mark_remat
from wgcc.passes.rewrite import expand
from wgcc.passes.simplify import simplify

STEP, TOLERANCE = 1e-5, 2e-6

RNN = """
entry rnn {
  input %h0: f32[2, 3]
  input %xs: f32[5, 2, 3]
  param %w: f32[3, 3]
  param %b: f32[3]
  %h: f32[2, 3], %ys: f32[5, 2, 3] = repeat(%h0, %xs, %w, %b; reverse=REVERSE, rounds=5) {
    input %t: u32
    input %x: f32[2, 3]
    input %w.in: f32[3, 3]
    input %b.in: f32[3]
    state %h.old: f32[2, 3]
    %wh = matmul(%h.old, %w.in)
    %wx = matmul(%x, %w.in)
    %bias = broadcast(%b.in; shape=(2, 3))
    %a1 = add(%wh, %wx)
    %a2 = add(%a1, %bias)
    %h.new = tanh(%a2)
    %y = mul(%h.new, %h.old)
    output y = %y
    write h.old = %h.new
  }
  output h = %h
  output ys = %ys
}
"""
# Two carries that exchange places, a scale for all rounds, the index, and a loop-invariant stack.
CARRIES = """
entry carries {
  input %a0: f32[3]
  input %c0: f32[3]
  param %s: f32
  param %v: f32[3]
  %a, %c, %n, %ys, %vs = repeat(%a0, %c0, %n0, %s, %v; reverse=REVERSE, rounds=4) {
    input %t: u32
    input %s.in: f32
    input %v.in: f32[3]
    state %a.old: f32[3]
    state %c.old: f32[3]
    state %n.old: u32
    %now = cast(%t; dtype=f32)
    %st = mul(%s.in, %now)
    %sts = broadcast(%st; shape=(3,))
    %m = mul(%a.old, %sts)
    %e = sin(%m)
    %p = mul(%e, %c.old)
    %q = mul(%p, %v.in)
    %one = const(dtype=u32, value=1)
    %n.new = add(%n.old, %one)
    %count = cast(%n.old; dtype=f32)
    %counts = broadcast(%count; shape=(3,))
    %y = mul(%q, %counts)
    output y = %y
    output v = %v.in
    write a.old = %c.old
    write c.old = %q
    write n.old = %n.new
  }
  output ys = %ys
  output vs = %vs
  output a = %a
}
""".replace("entry carries {\n", "entry carries {\n  %n0 = const(dtype=u32, value=3)\n")
# An inner loop over the rows of a slice, which starts from the carry and captures a captured value.
NESTED = """
entry nested {
  input %h0: f32[2, 3]
  input %xs: f32[4, 3, 2, 3]
  param %w: f32[3, 3]
  %h: f32[2, 3], %ys: f32[4, 2, 3] = repeat(%h0, %xs, %w; reverse=REVERSE, rounds=4) {
    input %t: u32
    input %x: f32[3, 2, 3]
    input %w.in: f32[3, 3]
    state %h.outer: f32[2, 3]
    %h.last, %hs = repeat(%h.outer, %x, %w.in; reverse=True, rounds=3) {
      input %s: u32
      input %part: f32[2, 3]
      input %w.inner: f32[3, 3]
      state %h.inner: f32[2, 3]
      %wh = matmul(%h.inner, %w.inner)
      %sum = add(%wh, %part)
      %h.new = sin(%sum)
      output hs = %h.new
      write h.inner = %h.new
    }
    %y = sum(%hs; axes=(0,))
    output y = %y
    write h.outer = %h.last
  }
  output h = %h
  output ys = %ys
}
"""
# What is looked up in all rounds, batches of products, softmax, and a part of a captured value.
LOOKUPS = """
entry lookups {
  input %h0: f32[2, 3]
  input %ids: i32[4, 2]
  param %table: f32[5, 3]
  param %z: f32[2, 3, 3]
  %h: f32[2, 3], %ys: f32[4, 2] = repeat(%h0, %ids, %table, %z; reverse=REVERSE, rounds=4) {
    input %t: u32
    input %id: i32[2]
    input %table.in: f32[5, 3]
    input %z.in: f32[2, 3, 3]
    state %h.old: f32[2, 3]
    %row = gather(%table.in, %id)
    %a = add(%row, %h.old)
    %a3 = reshape(%a; shape=(2, 1, 3))
    %z3 = matmul(%a3, %z.in)
    %flat = reshape(%z3; shape=(2, 3))
    %soft = softmax(%flat; axis=1)
    %part = slice(%table.in; sizes=(2, 3), starts=(1, 0), steps=(2, 1))
    %h.new = mul(%soft, %part)
    %y = sum(%h.new; axes=(1,))
    output y = %y
    write h.old = %h.new
  }
  output h = %h
  output ys = %ys
}
"""
GRAPHS = {
    f"{name}-{'down' if reverse else 'up'}": next(
        iter(read_graphs(text.replace("REVERSE", str(reverse))).values())
    )
    for name, text in (
        ("rnn", RNN),
        ("carries", CARRIES),
        ("nested", NESTED),
        ("lookups", LOOKUPS),
    )
    for reverse in (False, True)
}


def draw(graph: Graph) -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    return {
        value.name: random.uniform(-1, 1, value.shape)
        if value.dtype in FLOATS
        else random.integers(0, 5, value.shape)
        for value in graph.sources
    }


def floats(graph: Graph) -> list[Value]:
    return [value for value in graph.sources if value.dtype in FLOATS]


def with_loss(graph: Graph, orders: int = 1) -> Graph:
    """`graph` with the outputs `loss` and `d.NAME`; `orders` 2: of the gradients' squares."""
    builder = Builder(infer_types, all_names(graph))
    builder.nodes = list(graph.nodes)
    loss = _sum_of_squares(builder, graph.outputs.values())
    for order in range(orders):
        wrt = floats(graph)
        gradients = builder.apply_many("grad", loss, *wrt)
        named = {f"d.{value.name}": g for value, g in zip(wrt, gradients, strict=True)}
        outputs = {"loss": loss, **named}
        if order + 1 < orders:
            loss = _sum_of_squares(builder, gradients)
    return replace(graph, nodes=tuple(builder.nodes), outputs=outputs)


def _sum_of_squares(b: Builder, values: Iterable[Value]) -> Value:
    total = b.constant(0.0)
    for value in values:
        part = b.apply("sum", b.apply("square", value), axes=tuple(range(value.type.rank)))
        total = b.apply("add", total, part if value.type.rank else b.apply("square", value))
    return total


def check_gradients(graph: Graph) -> None:
    values = draw(graph)
    done = autograd(graph)
    hoisted = hoist_from_gradients(autograd(hoist(graph)))
    for stage in (done, expand(done), simplify(expand(done)), hoisted, simplify(expand(hoisted))):
        verify(stage, infer_types, ("grad",))
        found = evaluate(stage, values).outputs
        for value in floats(graph):
            random = np.random.default_rng(3)
            for _ in range(2):
                move = random.uniform(-1, 1, value.shape)
                up, down = (
                    evaluate(done, {**values, value.name: values[value.name] + by * move})
                    for by in (STEP, -STEP)
                )
                want = (up.outputs["loss"] - down.outputs["loss"]) / (2 * STEP)
                slope = float((found[f"d.{value.name}"] * move).sum())
                assert slope == pytest.approx(want, rel=2e-5, abs=TOLERANCE), value.name


@pytest.mark.parametrize("name", GRAPHS)
def test_gradients_are_central_differences(name: str) -> None:
    check_gradients(with_loss(GRAPHS[name]))


@pytest.mark.parametrize("name", GRAPHS)
def test_second_derivatives_are_central_differences(name: str) -> None:
    check_gradients(with_loss(GRAPHS[name], orders=2))


@pytest.mark.parametrize("name", GRAPHS)
def test_gradients_that_compute_values_again(name: str) -> None:
    """Marked as `--memory` does: the loop itself is in a part that is computed again, too."""
    graph = with_loss(GRAPHS[name])
    for parts in (2, 3):
        check_gradients(mark_remat(graph, parts))


def loops(graph: Graph) -> list[LoopNode]:
    return [loop for node in graph.nodes if (loop := loop_of(node))]


def test_gradients_of_weights_are_products_behind_the_loop() -> None:
    """No round touches memory of the size of a weight, but the recurrent product itself."""
    done = simplify(autograd(with_loss(GRAPHS["rnn-up"])))
    forward, backward = loops(done)
    assert (forward.reverse, backward.reverse) == (False, True)
    assert [str(carry.type) for carry in backward.carries] == ["f32[2, 3]"]
    assert {str(stack.type) for stack in (*forward.stacks, *backward.stacks)} == {"f32[5, 2, 3]"}
    assert len(forward.stacks) == 2, "the output, and the carry after each round"
    products = [node for node in done.nodes if node.op == "matmul"]
    assert [node.inputs[0].shape for node in products] == [(3, 10), (3, 10)]


def test_what_memory_asks_for_is_computed_again_from_the_carries() -> None:
    """The tape of a round is longer than what it carries: only the carry is stored."""
    wide = RNN.replace("%y = mul(%h.new, %h.old)", WIDE).replace("REVERSE", "False")
    graph = with_loss(read_graphs(wide)["rnn"])
    plain, again = (
        loops(simplify(autograd(marked)))[0] for marked in (graph, mark_remat(graph, 1))
    )
    stored = [sum(stack.type.size for stack in loop.stacks) for loop in (plain, again)]
    # The output and the carry; three sines, and the sum that two of them depend on.
    assert stored == [5 * (2 + 3 + 1) * 6, 5 * 2 * 6]


# Each sine is needed for the gradient of the next factor.
WIDE = """%s1 = sin(%h.new)
    %s2 = sin(%a1)
    %s3 = sin(%a2)
    %m1 = mul(%s1, %s2)
    %y = mul(%m1, %s3)"""


@pytest.mark.parametrize("seed", range(30))
def test_random_loops_have_the_gradients_of_all_their_rounds(seed: int) -> None:
    """The same numbers as with every round written out, also where values are computed again."""
    graph = random_loop(seed)
    values = draw(graph)
    want = evaluate(autograd(with_loss(unrolled(graph))), values).outputs
    for marked in (with_loss(graph), mark_remat(with_loss(graph), 1 + seed % 3)):
        done = simplify(hoist_from_gradients(expand(autograd(hoist(marked)))))
        verify(done, infer_types, ("grad", "softmax"))
        found = evaluate(done, values).outputs
        for name, array in want.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-7, atol=1e-9, err_msg=name)


def test_a_long_body_is_differentiated_without_recursion() -> None:
    """The gradient of a weight that is used 400 times in a round is a sum of 400 terms."""
    body = "".join(
        f"%p{i} = matmul(%a{i}, %w.in)\n%q{i} = mul(%p{i}, %a{i})\n%a{i + 1} = sin(%q{i})\n"
        for i in range(400)
    )
    graph = with_loss(read_graphs(LONG.replace("BODY\n", body))["long"])
    done = simplify(autograd(graph))
    assert sum(node.op == "matmul" for node in done.nodes) == 400


LONG = """
entry long {
  input %h0: f32[2, 3]
  param %w: f32[3, 3]
  %h = repeat(%h0, %w; reverse=False, rounds=3) {
    input %t: u32
    input %w.in: f32[3, 3]
    state %a0: f32[2, 3]
BODY
    write a0 = %a400
  }
  output h = %h
}
"""
