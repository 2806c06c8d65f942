"""Gradients of gradients: of every op against differences of its gradient, and where a rule could
divide by zero or ignore the derivative at a zero."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from building import build
from expressions import graph_of
from op_samples import Array, every_sample, input_arrays, run_nodes
from op_samples import build as build_node
from wgcc.evaluate import evaluate
from wgcc.ir.graph import Builder, Value
from wgcc.ops import Op
from wgcc.ops.registry import Sample
from wgcc.passes.autograd import Missing, autograd, differentiate

# Of the step squared times third derivatives, and of rounding divided by the step.
STEP, TOLERANCE = 1e-5, 1e-5
LARGEST = 600


def twice(op: Op, sample: Sample) -> bool:
    size = sum(int(np.prod(getattr(t, "shape", t))) for t in sample.inputs)
    smooth = op.grad is not None and sample.differentiable and op.name != "stop_grad"
    return smooth and size <= LARGEST


@pytest.mark.parametrize(("op", "sample"), every_sample(twice))
def test_second_derivative_is_the_difference_of_the_first(op: Op, sample: Sample) -> None:
    arrays = input_arrays(op, sample)
    builder, node = build_node(op, sample)
    floats = [value for value in node.inputs if value.dtype == "f32"]
    if not floats or any(y.dtype != "f32" for y in node.outputs):
        return
    loss = _sum_of_cubes(builder, node.outputs[: len(node.outputs) - op.saved])
    first = _gradients(builder, loss, floats)
    total = _sum_of_cubes(builder, first)
    second = _gradients(builder, total, floats)
    given = [*zip(node.inputs, arrays, strict=True)]
    rng = np.random.default_rng(len(arrays))
    moves = [rng.uniform(-1, 1, value.shape) for value in floats]
    want = sum(
        sign * float(run_nodes(builder.nodes, _moved(given, floats, moves, sign), [total])[0])
        for sign in (1, -1)
    ) / (2 * STEP)
    found = run_nodes(builder.nodes, given, second)
    slope = sum(float((g * move).sum()) for g, move in zip(found, moves, strict=True))
    assert slope == pytest.approx(want, rel=TOLERANCE, abs=TOLERANCE)


def _sum_of_cubes(b: Builder, values: Any) -> Value:
    """A number that depends on all elements, each differently, and not linearly."""
    total = None
    for value in values:
        cube = b.apply("mul", value, b.apply("square", value))
        part = b.apply("sum", cube, axes=tuple(range(value.type.rank)))
        total = part if total is None else b.apply("add", total, part)
    assert total is not None
    return total


def _gradients(b: Builder, value: Value, wrt: list[Value]) -> list[Value]:
    missing = Missing()
    found = differentiate(b, value, wrt, b.constant(1.0, "f32"), missing)
    missing.report()
    zeros = [b.apply("broadcast", b.constant(0.0, "f32"), shape=v.shape) for v in wrt]
    return [gradient or zero for gradient, zero in zip(found, zeros, strict=True)]


def _moved(given: Any, floats: list[Value], moves: list[Array], sign: int) -> Any:
    by = {value.name: move for value, move in zip(floats, moves, strict=True)}
    return [(value, array + sign * STEP * by.get(value.name, 0)) for value, array in given]


PRODUCTS = [
    [0.0, 3.0], [0.0, 0.0], [0.0, 0.0, 5.0], [0.0, 0.0, 0.0], [2.0, 3.0, 4.0], [7.0],
    [0.0, 2.0, 3.0, 4.0], [0.0, 0.0, 3.0, 4.0], [0.0, 0.0, 0.0, 2.0, 1.5],
]  # fmt: skip


@pytest.mark.parametrize("x", PRODUCTS, ids=str)
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_products_with_zeros(x: list[float], order: int) -> None:
    found = _derivative("prod(x)", x, order)
    np.testing.assert_allclose(found, _of_product(x, order), atol=1e-12)


def _of_product(x: list[float], order: int) -> list[float]:
    """d/dx_j of the sum of all derivatives of the order below: products without some elements."""
    places = range(len(x))
    return [
        float(
            sum(
                np.prod([x[k] for k in places if k != j and k not in gone])
                for gone in permutations([i for i in places if i != j], order - 1)
            )
        )
        for j in places
    ]


# Expression, x, the derivatives of the first orders of its sum.
EDGES: list[tuple[str, list[float], list[list[float]]]] = [
    ("x ** 2", [0.0, 1.0], [[0, 2], [2, 2], [0, 0]]),
    ("x ** 3", [0.0, 1.0], [[0, 3], [0, 6], [6, 6], [0, 0]]),
    ("x ** (2.0 + 0.0 * x)", [0.0, 3.0], [[0, 6], [2, 2], [0, 0], [0, 0], [0, 0]]),
    ("abs(x)", [0.0, -2.0], [[0, -1], [0, 0]]),
    ("abs(x) ** 3", [0.0, -1.0], [[0, -3], [0, 6]]),
    ("relu(x)", [0.0, 1.0], [[0, 1], [0, 0]]),
    ("relu(x) ** 2", [0.0, 1.0, -1.0], [[0, 2, 0], [0, 2, 0]]),
    ("max(x) ** 2", [2.0, 2.0, 1.0], [[2, 2, 0], [1, 1, 0]]),
    ("min(x) ** 2", [2.0, 2.0, 5.0], [[2, 2, 0], [1, 1, 0]]),
    ("maximum(x, 1.0) ** 2", [1.0, 2.0], [[1, 4], [0.5, 2]]),
    ("normalize(x)", [0.0, 2.0], [[0.5, 0], [-0.5, -0.25]]),
    ("prod(x) ** 2", [0.0, 3.0], [[0, 0], [18, 0]]),
    ("layer_norm(x, ones(f32[3]), zeros(f32[3]), eps = 1.0)[0]", [2.0, 2.0, 2.0],
     [[2 / 3, -1 / 3, -1 / 3], [0, 0, 0]]),
    ("sqrt(var(x) + 1.0)", [2.0, 2.0], [[0, 0], [0, 0]]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "x", "orders"), EDGES)
def test_derivatives_at_the_edge(text: str, x: list[float], orders: list[list[float]]) -> None:
    for order, wanted in enumerate(orders, start=1):
        found = _derivative(text, x, order)
        np.testing.assert_allclose(found, wanted, atol=1e-9, err_msg=f"order {order}")


def test_mixed_derivative_of_a_power_with_exponent_zero() -> None:
    """d/dz d/dx x^z = 1/x where z = 0."""
    text = "grad(sum(grad(sum(x ** z), x)), z)"
    graph = autograd(graph_of(text, "f32[2]", {"x": "f32[2]", "z": "f32[2]"}))
    found = evaluate(graph, {"x": np.array([2.0, 4.0]), "z": np.zeros(2)}).outputs["out"]
    np.testing.assert_allclose(found, [0.5, 0.25])


def _derivative(text: str, x: list[float], order: int) -> Array:
    type_ = f"f32[{len(x)}]"
    graph = autograd(graph_of(_nested(text, order), type_, {"x": type_}))
    return np.asarray(evaluate(graph, {"x": np.asarray(x)}).outputs["out"])


def _nested(text: str, order: int) -> str:
    for _ in range(order):
        text = f"grad(sum({text}), x)"
    return text


def test_kernels_for_products_with_zeros(device: Any, tmp_path: Path) -> None:
    entries = [
        f"  entry e{n}(x: f32[{len(x)}]) -> (d: f32[{len(x)}]) = {_nested('prod(x)', 2)}"
        for n, x in enumerate(PRODUCTS)
    ]
    rows = f"  entry rows(x: f32[2, 40]) -> (d: f32[2, 40]) = {_nested('prod(x, axis = 1)', 2)}"
    source = tmp_path / "model.wg"
    source.write_text("\n".join(["model M {", *entries, rows, "}\n"]), encoding="utf-8")
    bundle = build(source, tmp_path / "bundle")
    wide = np.linspace(0.8, 1.25, 80).reshape(2, 40).astype(np.float32)
    wide[1, [3, 30]] = 0
    model = wgcc_runtime.load(bundle, device=device)
    for n, x in enumerate(PRODUCTS):
        found = model.call(f"e{n}", x=np.asarray(x, np.float32))["d"]
        np.testing.assert_allclose(found, _of_product(x, 2), rtol=1e-5)
    found = model.rows(x=wide)["d"]
    wanted = [_of_product(row.astype(float).tolist(), 2) for row in wide]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


SCAN = """
  h, y = zeros(f32[B, E, N]), zeros(f32[B, 1, E])
  for t in 0..T {
    h = exp(dt[:, t, :, new] * a) * h + (dt * u)[:, t, :, new] * b[:, t, new]
    row = sum(h * c[:, t, new], axis = -1)[:, new]
    y = if t == 0 then row else concat([y, row], axis = 1)
  }
"""
TWICE = f"""
dim B = 2, T = 3, E = 4, N = 2, K = 4
model M {{
  entry attended(q: f32[B, T, K], k: f32[B, T, K], mask: f32[T, T])
      -> (fused: f32[B, T, K], plain: f32[B, T, K]) {{
    v, s = sin(k), K ** -0.5
    fused = attention(q, k, v, mask = mask)
    plain = softmax(q @ transpose(k) * s + mask) @ v
    return (
      grad(sum(grad(sum(fused * fused), q) ** 2), k),
      grad(sum(grad(sum(plain * plain), q) ** 2), k)
    )
  }}
  entry masked(q: f32[B, T, K], mask: f32[T, T]) -> (fused: f32[T, T], plain: f32[T, T]) {{
    fused = attention(q, q, q, mask = mask)
    plain = softmax(q @ transpose(q) * K ** -0.5 + mask) @ q
    return (
      grad(sum(grad(sum(fused * fused), mask) ** 2), mask),
      grad(sum(grad(sum(plain * plain), mask) ** 2), mask)
    )
  }}
  entry scanned(
      u: f32[B, T, E], dt: f32[B, T, E], a: f32[E, N], b: f32[B, T, N], c: f32[B, T, N]
    ) -> (fused: f32[E, N], plain: f32[E, N]) {{
    {SCAN}
    fused = selective_scan(u, dt, a, b, c)
    return (
      grad(sum(grad(sum(fused * fused), dt) ** 2), a),
      grad(sum(grad(sum(y * y), dt) ** 2), a)
    )
  }}
}}
"""
INPUTS = {
    "attended": {"q": (2, 3, 4), "k": (2, 3, 4), "mask": (3, 3)},
    "masked": {"q": (2, 3, 4), "mask": (3, 3)},
    "scanned": {"u": (2, 3, 4), "dt": (2, 3, 4), "a": (4, 2), "b": (2, 3, 2), "c": (2, 3, 2)},
}


def test_fused_functions_have_the_second_derivatives_of_what_they_compute(
    machine: Any, tmp_path: Path
) -> None:
    source = tmp_path / "model.wg"
    source.write_text(TWICE, encoding="utf-8")
    model = wgcc_runtime.load(build(source, tmp_path / "bundle"), device=machine)
    rng = np.random.default_rng(5)
    for entry, shapes in INPUTS.items():
        given = {n: rng.uniform(-1, 1, shape).astype(np.float32) for n, shape in shapes.items()}
        found = model.call(entry, **given)
        assert np.abs(found["plain"]).max() > 1e-3
        np.testing.assert_allclose(found["fused"], found["plain"], rtol=2e-5, atol=2e-5)
