"""Integers divide as in Python, in kernels, in numpy and at compile time: rounded down, with
x = (x / z) z + x % z for every x and z."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from building import build
from expressions import DIMS, graph_of, problem_of
from tint_compiler import compile_all
from wgcc.evaluate import evaluate
from wgcc.ops.registry import numpy_dtype
from wgcc.passes.simplify import simplify

Array = np.ndarray[Any, Any]

LOWEST, HIGHEST = -(2**31), 2**31 - 1
EDGES = {
    "i32": [LOWEST, LOWEST + 1, -65536, -8, -7, -3, -2, -1, 0, 1, 2, 3, 7, 8, 65537, HIGHEST],
    "u32": [0, 1, 2, 3, 7, 8, 65537, HIGHEST, 2**31, 2**32 - 1],
    "i8": [-128, -127, -8, -7, -3, -2, -1, 0, 1, 2, 3, 7, 8, 126, 127],
    "u8": [0, 1, 2, 3, 7, 8, 100, 254, 255],
}
# Constant divisors, for which kernels are specialised.
DIVISORS = {
    "i32": [-3, 3, -1, 1, 2, -4, LOWEST],
    "u32": [1, 3, 4, 2**32 - 1],
    "i8": [-3, 3, -1, 1, -4, -128],
    "u8": [1, 3, 255],
}


def in_python(x: int, z: int, dtype: str) -> tuple[int, int]:
    """(quotient, remainder) as documented."""
    if z == 0:
        return 0, x
    # Python's quotient, as the dtype holds it.
    quotient = np.asarray([x // z]).astype(np.int64).astype(numpy_dtype(dtype))
    return int(quotient[0]), x % z


def pairs(dtype: str) -> tuple[Array, Array]:
    x, z = np.meshgrid(EDGES[dtype], EDGES[dtype])
    return x.ravel().astype(numpy_dtype(dtype)), z.ravel().astype(numpy_dtype(dtype))


def expected(x: Array, z: Array, dtype: str) -> tuple[list[int], list[int]]:
    both = [in_python(int(a), int(b), dtype) for a, b in zip(x, z, strict=True)]
    return [q for q, _ in both], [r for _, r in both]


@pytest.mark.parametrize("dtype", EDGES)
def test_numpy_divides_so(dtype: str) -> None:
    x, z = pairs(dtype)
    type_ = f"{dtype}[{len(x)}]"
    for op, wanted in zip("/%", expected(x, z, dtype), strict=True):
        graph = graph_of(f"x {op} z", type_, {"x": type_, "z": type_})
        found = evaluate(graph, {"x": x, "z": z}).outputs["out"]
        assert found.tolist() == wanted


@pytest.mark.parametrize("dtype", EDGES)
def test_kernels_divide_so(dtype: str, device: Any, tmp_path: Path) -> None:
    x, z = pairs(dtype)
    n = len(x)
    source = tmp_path / "model.wg"
    source.write_text(model_text(f"{dtype}[{n}]", DIVISORS[dtype]), encoding="utf-8")
    bundle = build(source, tmp_path / "bundle")
    assert not any(compile_all(sorted(bundle.glob("kernels/*"))).values())
    model = wgcc_runtime.load(bundle, device=device)
    found = model.call("any", x=x, z=z)
    assert (found["q"].tolist(), found["r"].tolist()) == expected(x, z, dtype)
    assert found["back"]
    for number, divisor in enumerate(DIVISORS[dtype]):
        known = np.full(n, divisor).astype(x.dtype)
        found = model.call(f"by{number}", x=x)
        assert (found["q"].tolist(), found["r"].tolist()) == expected(x, known, dtype)


def model_text(type_: str, divisors: list[int]) -> str:
    by_number = [
        f"entry by{number}(x: {type_}) -> (q: {type_}, r: {type_}) {{\n"
        f"return x / ({divisor}), x % ({divisor})\n}}"
        for number, divisor in enumerate(divisors)
    ]
    by_any = (
        f"entry any(x: {type_}, z: {type_}) -> (q: {type_}, r: {type_}, back: bool) {{\n"
        "q, r = x / z, x % z\nreturn q, r, all(q * z + r == x)\n}"
    )
    return "\n".join(["model M {", *by_number, by_any, "}\n"])


@pytest.mark.parametrize(("x", "z"), [(-7, 3), (7, -3), (-7, -3), (LOWEST, -1), (-1, LOWEST)])
def test_constants_divide_so_at_compile_time(x: int, z: int) -> None:
    """A tensor of known numbers is divided at compile time."""
    quotient, remainder = in_python(x, z, "i32")
    for op, wanted in (("/", quotient), ("%", remainder)):
        text = f"(zeros(i32[2]) + ({x})) {op} ({z})"
        graph = simplify(graph_of(text, "i32[2]", {}))
        assert all(node.op in ("const", "broadcast") for node in graph.nodes), graph.nodes
        assert evaluate(graph, {}).outputs["out"].tolist() == [wanted] * 2


def test_compile_time_numbers_divide_exactly_or_not_at_all() -> None:
    assert graph_of("zeros(f32) + -6 / 3 + -7 % 3", "f32", {}).nodes[0].attrs["value"] == 0
    found = evaluate(graph_of("zeros(f32) + (-6 / 3) * 10 + -7 % 3", "f32", {}), {})
    assert found.outputs["out"] == -20 + 2
    for text in ("-7 / 3", "D / A"):
        problem = problem_of(f"zeros(f32) * ({text})", DIMS)
        assert problem.code == "WG0402" and "not divisible" in problem.message


@pytest.mark.parametrize("text", ["i / 0", "i % 0", "i / (A - 2)"])
def test_a_known_divisor_of_zero_is_refused(text: str) -> None:
    problem = problem_of(text, i="i32[B]")
    assert (problem.code, problem.message) == ("WG0402", "division by zero")
