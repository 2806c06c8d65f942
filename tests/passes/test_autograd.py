"""Gradients of whole graphs against central differences of the numpy oracle in float64."""

from __future__ import annotations

import numpy as np
import pytest

from wgcc.errors import Source, Span, WgError
from wgcc.evaluate import evaluate
from wgcc.ir.graph import Builder, Graph, TensorType, Value
from wgcc.ir.verify import verify
from wgcc.ops import infer_types
from wgcc.passes.autograd import autograd
from wgcc.passes.rewrite import expand
from wgcc.passes.simplify import simplify

PARAMS = {"a": (3, 4), "b": (4, 2), "c": (2,), "d": (3, 4)}


@pytest.mark.parametrize("seed", range(40))
def test_random_graph(seed: int) -> None:
    random = np.random.default_rng(seed)
    graph = autograd(random_graph(random))
    values = {name: random.uniform(-1.0, 1.0, shape) for name, shape in PARAMS.items()}
    expected = {name: central_difference(graph, values, name) for name in PARAMS}
    for stage in (graph, expand(graph), simplify(expand(graph))):
        verify(stage, infer_types, ("grad",))
        found = evaluate(stage, values).outputs
        for name in PARAMS:
            np.testing.assert_allclose(found[f"d.{name}"], expected[name], rtol=2e-5, atol=2e-6)


def test_an_op_without_a_gradient_is_named_at_its_line() -> None:
    source = Source("model.wg", "x\n  scan(x)\n")
    x, builder = Value("x", TensorType((3,))), Builder(infer_types, ["x"])
    builder.span = Span(source, 4, 11)
    (kept,) = builder.apply_many("ema_update", x, x, n=1, decay=0.5, gated=False)
    loss = builder.apply("sum", kept, axes=(0,))
    builder.apply("grad", loss, x)
    with pytest.raises(WgError, match="no gradient of `ema_update`") as raised:
        autograd(Graph("g", inputs=(x,), nodes=tuple(builder.nodes)))
    (problem,) = raised.value.diagnostics
    assert (problem.code, problem.span.place) == ("WG0313", "model.wg:2")


def random_graph(random: np.random.Generator) -> Graph:
    """Twelve random ops over the parameters, a weighted sum of values, and its gradients."""
    sources = {name: Value(name, TensorType(shape)) for name, shape in PARAMS.items()}
    builder = Builder(infer_types, sources)
    pool = list(sources.values())
    for _ in range(12):
        pool.append(random_node(random, builder, pool))
    terms = [weighted_sum(random, builder, value) for value in (*pool[:4], *pool[-4:])]
    loss = terms[0]
    for term in terms[1:]:
        loss = builder.apply("add", loss, term)
    gradients = builder.apply_many("grad", loss, *sources.values())
    named = {f"d.{name}": value for name, value in zip(PARAMS, gradients, strict=True)}
    return Graph(
        "random",
        params=tuple(sources.values()),
        nodes=tuple(builder.nodes),
        outputs={"loss": loss, **named},
    )


UNARY = ("tanh", "sigmoid", "sin", "cos", "square", "silu", "softplus", "gelu", "neg", "erf")
BINARY = ("add", "sub", "mul", "maximum", "div")


def random_node(random: np.random.Generator, b: Builder, pool: list[Value]) -> Value:
    """A value made of those in `pool`, kept near 1 so that differences stay accurate."""
    x = pool[random.integers(len(pool))]
    kind = random.choice(["unary", "binary", "matmul", "view", "reduce", "row", "join"])
    if kind == "unary":
        return b.apply(str(random.choice(UNARY)), x)
    if kind == "binary":
        same = [value for value in pool if value.shape == x.shape]
        z = same[random.integers(len(same))]
        op = str(random.choice(BINARY))
        return b.apply(op, x, b.apply("exp", z) if op == "div" else z)
    if kind == "matmul" and x.type.rank == 2:
        product = b.apply("matmul", x, b.apply("transpose", x, perm=(1, 0)))
        return b.apply("tanh", product)
    if kind == "reduce" and x.shape:
        return reduced(random, b, x)
    if kind == "row" and x.shape:
        return b.apply(str(random.choice(["softmax", "log_softmax"])), x, axis=x.type.rank - 1)
    if kind == "join" and x.shape:
        return b.apply("concat", x, b.apply("sin", x), axis=0)
    return viewed(random, b, x)


def reduced(random: np.random.Generator, b: Builder, x: Value) -> Value:
    """A statistic along one axis, broadcast over it again."""
    axis = int(random.integers(x.type.rank))
    kept = tuple(1 if k == axis else size for k, size in enumerate(x.shape))
    found = b.apply(str(random.choice(["sum", "max", "min"])), x, axes=(axis,))
    spread = b.apply("broadcast", b.apply("reshape", found, shape=kept), shape=x.shape)
    return b.apply("tanh", b.apply("sub", x, spread))


def viewed(random: np.random.Generator, b: Builder, x: Value) -> Value:
    if random.random() < 0.5 and x.type.rank > 1:
        return b.apply("transpose", x, perm=tuple(reversed(range(x.type.rank))))
    if random.random() < 0.5 and x.shape and x.shape[0] > 1:
        sizes = (x.shape[0] - 1, *x.shape[1:])
        starts = (1, *(0 for _ in x.shape[1:]))
        return b.apply("slice", x, starts=starts, sizes=sizes, steps=(1,) * x.type.rank)
    return b.apply("reshape", x, shape=(x.type.size,))


def weighted_sum(random: np.random.Generator, b: Builder, x: Value) -> Value:
    """Unequal weights, so that errors in two elements cannot cancel."""
    weights = b.apply("sin", b.apply("iota", n=x.type.size, dtype="f32"))
    product = b.apply("mul", b.apply("reshape", x, shape=(x.type.size,)), weights)
    return b.apply("sum", product, axes=(0,))


def central_difference(graph: Graph, values: dict[str, np.ndarray], name: str) -> np.ndarray:
    step = 1e-5
    found = np.zeros(PARAMS[name])
    for place in np.ndindex(found.shape):
        ends = []
        for move in (step, -step):
            moved = values[name].copy()
            moved[place] += move
            ends.append(float(evaluate(graph, {**values, name: moved}).outputs["loss"]))
        found[place] = (ends[0] - ends[1]) / (2 * step)
    return found
