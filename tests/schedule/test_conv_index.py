"""Index arithmetic of convolutions: short, hoisted out of loops, and within 32 bits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import pytest

from expressions import graph_of
from wgcc.ir.graph import Graph, Value
from wgcc.ir.index import (
    Atom,
    Index,
    Quotient,
    Variable,
    coordinates_of,
    linear,
    variable,
)
from wgcc.ir.program import Program
from wgcc.passes.dataflow import Flow, operand_places
from wgcc.passes.pipeline import run_passes
from wgcc.schedule.kernels.operands import Hoist

Numbers = Mapping[str, int]


def number(index: Index, at: Numbers) -> int:
    return index.offset + sum(factor * atom_number(atom, at) for atom, factor in index.terms)


def atom_number(atom: Atom, at: Numbers) -> int:
    if isinstance(atom, Variable):
        return at[atom.name]
    dividend = number(atom.dividend, at)
    assert dividend >= 0, "u32 division of a negative number"
    quotient, remainder = divmod(dividend, atom.divisor)
    return quotient if isinstance(atom, Quotient) else remainder


@pytest.mark.parametrize("shape", [(64, 32, 32, 32), (3, 3, 5, 7), (2, 9, 1, 6)])
def test_a_reshaped_matrix_is_itself(shape: tuple[int, ...]) -> None:
    """So that ops after a matrix product can be fused with it."""
    rows = shape[0] * shape[1] * shape[2]
    m, n = variable("m", rows), variable("n", shape[3])
    coordinates = coordinates_of(linear((m, n), (rows, shape[3])), shape)
    assert linear(coordinates[:3], shape[:3]) == m and coordinates[3] == n


def test_hoisted_parts_add_up() -> None:
    m, k = variable("m", 60), variable("k", 18)
    index = (m // 5) * 7 + k % 3 - k // 6 + (m % 4 + k) // 2 + 11
    hoist = Hoist({"row": ("m",), "step": ("k",)})
    short = hoist(index)
    assert hoist.saves
    for at in product(range(60), range(18)):
        numbers = dict(zip("mk", at, strict=True))
        parts = {
            f"{side}.{field}": number(part, numbers)
            for side, parts in hoist._parts.items()
            for part, field in parts.items()
        }
        assert number(short, parts) == number(index, numbers)


# The largest that may be written; gradients see as many values.
LARGE = [
    ("conv2d(x, w, pad = 5)", "f32[1, 1400, 1400, 8]", "f32[11, 11, 8, 8]"),
    ("conv2d(x, w, stride = 2)", "f32[64, 255, 255, 8]", "f32[5, 5, 8, 8]"),
]


@pytest.mark.parametrize("case", LARGE, ids=[case[0] for case in LARGE])
@pytest.mark.parametrize("wanted", ["x", "w"])
def test_large_convolutions_stay_within_32_bits(case: tuple[str, str, str], wanted: str) -> None:
    expression, x, w = case
    types = {"x": x, "w": w}
    graph = graph_of(f"grad(sum(square({expression})), {wanted})", types[wanted], types)
    (graph,) = run_passes(Program("M", entries={"run": graph})).entries.values()
    products = [node for node in graph.nodes if node.op == "matmul"]
    assert products
    for node in products:
        (rows, inner), cols = node.inputs[0].shape, node.inputs[1].shape[1]
        m, k, n = variable("m", rows), variable("k", inner), variable("n", cols)
        for index in (*reads(graph, node.inputs[0], (m, k)), *reads(graph, node.inputs[1], (k, n))):
            assert all(dividend.high < 2**32 for dividend in dividends(index)), index.wgsl()


def reads(graph: Graph, value: Value, coordinates: tuple[Index, ...]) -> Iterator[Index]:
    """All indices between an operand and memory, and the index at which memory is read."""
    producers = Flow.of(graph).producers
    pending = [(value, coordinates)]
    while pending:
        value, coordinates = pending.pop()
        yield from coordinates
        node = producers.get(value.name)
        if node is None or node.op == "matmul":
            yield linear(coordinates, value.shape)
        elif node.op != "sum":
            pending.extend(operand_places(node, coordinates))


def dividends(index: Index) -> Iterator[Index]:
    for atom, _ in index.terms:
        if not isinstance(atom, Variable):
            yield atom.dividend
            yield from dividends(atom.dividend)
