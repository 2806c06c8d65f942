"""Expressions of WGSL as WebAssembly: every op gives its reference's numbers in both widths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import wasmtime

from op_samples import build, every_sample, input_arrays, pattern_of
from wasm_runs import DTYPES, Array, run, same_bits
from wgcc.backends.wasm.encoding.instructions import F32, I32, V128
from wgcc.backends.wasm.encoding.module import WasmFunction, WasmModule
from wgcc.backends.wasm.encoding.wat import wat
from wgcc.backends.wasm.wgsl.evaluate import KnownOperand, Local, UnsupportedError
from wgcc.backends.wasm.wgsl.lanes import Code, Type
from wgcc.backends.wasm.wgsl.library import Library
from wgcc.kernel.parse import parse_expression, parse_functions, parse_statements
from wgcc.ops.registry import FromIndex, Op, Pointwise, Sample, numpy_dtype, wgsl_type

LEAST, MOST = -(2**31), 2**31 - 1
i32, u32, f32 = np.int32, np.uint32, np.float32
NAN, INF = np.nan, np.inf


def elementwise(op: Op, sample: Sample) -> bool:
    """One shape of each dtype is enough here: the rest is indexing."""
    return isinstance(op.lower, Pointwise | FromIndex) and op.name != "const" and _long(sample)


def _long(sample: Sample) -> bool:
    shapes = [getattr(item, "shape", item) for item in sample.inputs]
    shape = shapes[0] if shapes and shapes[0] else sample.attrs.get("shape", (0,))
    return bool(np.prod(shape or (0,)) >= 65)


@pytest.mark.parametrize(("op", "sample"), every_sample(elementwise))
def test_every_op_gives_its_references_numbers(op: Op, sample: Sample) -> None:
    _, node = build(op, sample)
    arrays = input_arrays(op, sample, np.float32)
    assert isinstance(op.lower, Pointwise | FromIndex)
    pattern = pattern_of(op.lower, node)
    operands = [
        in_words(array, value.dtype) for array, value in zip(arrays, node.inputs, strict=True)
    ]
    size = node.output.type.size
    written = getattr(node.attrs.get("function"), "functions", ())
    own = {function.name: function for function in written}
    four, one = (run(pattern, operands, lanes, size, own) for lanes in (4, 1))
    assert same_bits(four, one)
    want = op.reference(*arrays, **node.attrs).reshape(-1)
    dtype = node.output.dtype
    got = four.astype(numpy_dtype(dtype)) if dtype in ("i8", "u8", "f16") else four
    assert four.dtype == DTYPES[wgsl_type(dtype)]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def in_words(array: Array, dtype: str) -> Any:
    words = array.astype(DTYPES[wgsl_type(dtype)])
    return words.reshape(-1) if array.ndim else words[()]


# Expression, operands, result: the same in both widths, with operands that are known and not.
EDGES: list[tuple[str, list[Any], Any]] = [
    ("{0} + {1}", [i32(MOST), i32(1)], i32(LEAST)),
    ("{0} - {1}", [u32(0), u32(1)], u32(2**32 - 1)),
    ("extractBits({0}, 0u, 8u)", [i32(0x1234FE)], i32(-2)),
    ("extractBits({0}, 16u, 8u)", [u32(0x12F456)], u32(0x12)),
    ("extractBits({0}, {1}, 8u)", [i32(0x12F456), u32(8)], i32(-12)),
    ("{0} * {1}", [u32(0x10001), u32(0x10001)], u32(0x20001)),
    ("{0} / {1}", [i32(-7), i32(2)], i32(-3)),
    ("{0} / {1}", [i32(7), i32(0)], i32(7)),
    ("{0} / {1}", [i32(LEAST), i32(-1)], i32(LEAST)),
    ("{0} / {1}", [i32(LEAST), i32(1)], i32(LEAST)),
    ("{0} / {1}", [u32(2**32 - 1), u32(3)], u32(0x55555555)),
    ("{0} / {1}", [u32(2**32 - 1), u32(2**32 - 1)], u32(1)),
    ("{0} / {1}", [u32(2**32 - 2), u32(2**32 - 1)], u32(0)),
    ("{0} / {1}", [u32(9), u32(8)], u32(1)),
    ("{0} / {1}", [u32(9), u32(0)], u32(9)),
    ("{0} % {1}", [i32(-7), i32(2)], i32(-1)),
    ("{0} % {1}", [i32(LEAST), i32(-1)], i32(0)),
    ("{0} % {1}", [u32(7), u32(0)], u32(0)),
    ("{0} % {1}", [u32(2**32 - 1), u32(16)], u32(15)),
    ("{0} % {1}", [f32(-7.5), f32(2.0)], f32(-1.5)),
    ("{0} << {1}", [u32(1), u32(31)], u32(2**31)),
    ("{0} >> {1}", [u32(2**31), u32(31)], u32(1)),
    ("{0} >> {1}", [i32(LEAST), u32(31)], i32(-1)),
    ("~{0}", [u32(0)], u32(2**32 - 1)),
    ("-{0}", [i32(LEAST)], i32(LEAST)),
    ("abs({0})", [i32(LEAST)], i32(LEAST)),
    ("abs({0})", [i32(-5)], i32(5)),
    ("{0} < {1}", [u32(1), u32(2**31)], True),
    ("{0} < {1}", [i32(1), i32(LEAST)], False),
    ("{0} < {1}", [f32(NAN), f32(1)], False),
    ("{0} != {1}", [f32(NAN), f32(NAN)], True),
    ("({0} < {1}) == ({1} < {0})", [f32(1), f32(2)], False),
    ("!({0} < {1}) || {0} == {1}", [f32(1), f32(2)], False),
    ("i32({0})", [f32(3e9)], i32(MOST)),
    ("i32({0})", [f32(-3e9)], i32(LEAST)),
    ("i32({0})", [f32(-2.9)], i32(-2)),
    ("i32({0})", [f32(NAN)], i32(0)),
    ("u32({0})", [f32(-1.5)], u32(0)),
    ("u32({0})", [f32(5e9)], u32(2**32 - 1)),
    ("u32({0})", [f32(3e9)], u32(3_000_000_000)),
    ("f32({0})", [u32(2**32 - 1)], f32(2.0**32)),
    ("f32({0})", [i32(-16777217)], f32(-16777216)),
    ("f32({0} < {1})", [f32(1), f32(2)], f32(1)),
    ("u32({0} < {1})", [f32(1), f32(2)], u32(1)),
    ("bool({0})", [f32(NAN)], True),
    ("bool({0})", [i32(0)], False),
    ("bitcast<u32>({0})", [f32(-0.0)], u32(2**31)),
    ("bitcast<f32>({0})", [u32(0x3F800000)], f32(1)),
    ("max({0}, {1})", [f32(NAN), f32(1)], f32(NAN)),
    ("max({0}, {1})", [f32(1), f32(NAN)], f32(NAN)),
    ("min({0}, {1})", [f32(NAN), f32(1)], f32(NAN)),
    ("max({0}, {1})", [u32(1), u32(2**31)], u32(2**31)),
    ("max({0}, {1})", [i32(1), i32(LEAST)], i32(1)),
    ("min({0}, {1})", [u32(1), u32(2**31)], u32(1)),
    ("clamp({0}, {1}, {2})", [f32(NAN), f32(0), f32(1)], f32(NAN)),
    ("clamp({0}, {1}, {2})", [i32(-5), i32(0), i32(1)], i32(0)),
    ("sign({0})", [f32(NAN)], f32(NAN)),
    ("sign({0})", [f32(-0.0)], f32(0)),
    ("sign({0})", [i32(-9)], i32(-1)),
    ("round({0})", [f32(2.5)], f32(2)),
    ("round({0})", [f32(-3.5)], f32(-4)),
    ("floor({0})", [f32(-0.5)], f32(-1)),
    ("ceil({0})", [f32(0.5)], f32(1)),
    ("trunc({0})", [f32(-1.5)], f32(-1)),
    ("fract({0})", [f32(-0.25)], f32(0.75)),
    ("fma({0}, {0}, {1})", [f32(3), f32(1)], f32(10)),
    ("inverseSqrt({0})", [f32(0.25)], f32(2)),
    ("1.0f / {0}", [f32(-0.0)], f32(-INF)),
    ("select({0}, {1}, {0} < {1})", [f32(-0.0), f32(0.0)], f32(-0.0)),
    ("select({0}, {1}, {0} < {1})", [f32(NAN), f32(0.0)], f32(NAN)),
    ("select({0}, {1}, {0} > {1})", [f32(3), f32(2)], f32(2)),
    ("select({1}, {0}, {0} > {1})", [f32(3), f32(NAN)], f32(NAN)),
    ("select({0}, {1}, {2})", [i32(1), i32(2), np.bool_(True)], i32(2)),
    ("{0} * 2 - 1", [f32(3)], f32(5)),
    ("array<u32, 3>(5u, 6u, 7u)[{0}]", [u32(1)], u32(6)),
    ("array<u32, 3>(5u, 6u, 7u)[{0}]", [u32(9)], u32(7)),
    ("(vec2<u32>({0}, 2u) + vec2<u32>(1u)).y", [u32(1)], u32(3)),
    ("wg_div_i32({0}, {1})", [i32(7), i32(0)], i32(0)),
    ("wg_div_i32({0}, {1})", [i32(LEAST), i32(-1)], i32(LEAST)),
    ("wg_mod_i32({0}, {1})", [i32(-7), i32(3)], i32(2)),
    ("wg_mod_u32({0}, {1})", [u32(7), u32(0)], u32(7)),
    ("wg_pow({0}, {1})", [f32(-2), f32(3)], f32(-8)),
    ("wg_pow({0}, {1})", [f32(0), f32(0.5)], f32(0)),
    ("wg_pow({0}, {1})", [f32(-1), f32(101)], f32(-1)),
    ("wg_pow({0}, {1})", [f32(-2), f32(-2)], f32(0.25)),
    ("wg_pow({0}, {1})", [f32(-2), f32(0.5)], f32(NAN)),
]


@pytest.mark.parametrize(("expression", "operands", "want"), EDGES)
def test_edges(expression: str, operands: list[Any], want: Any) -> None:
    want = np.full(8, want)
    arrays = [np.full(8, operand) for operand in operands]
    for lanes in (1, 4):
        for given in ordinary_and_uniform(arrays, operands):
            got = run(expression, given, lanes, 8)
            assert got.dtype == want.dtype
            assert same_bits(got, want), (lanes, got[0], want[0])
    constant = expression
    for at, operand in enumerate(operands):
        constant = constant.replace(f"{{{at}}}", literal(operand))
    if not any(np.isnan(operand) for operand in operands):
        assert same_bits(run(constant, [], 1, 8), want)


def ordinary_and_uniform(arrays: list[Array], operands: list[Any]) -> list[list[Any]]:
    """All operands vectors, all uniform, each of them uniform beside vectors."""
    mixed = [
        [scalar if at == one else array for at, (array, scalar) in enumerate(pairs)]
        for pairs in [list(zip(arrays, operands, strict=True))]
        for one in range(len(arrays))
    ]
    return [arrays, operands, *mixed]


def literal(number: Any) -> str:
    if isinstance(number, np.bool_):
        return "true" if number else "false"
    suffix = {"f": "f", "i": "i", "u": "u"}[number.dtype.kind]
    if number == LEAST:
        return "(-2147483647i - 1i)"
    text = f"{float(number)!r}f" if suffix == "f" else f"{int(number)}{suffix}"
    return f"({text})"


def test_a_divisor_may_be_any_number_of_each_lane() -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(0, 2**32, 4096, np.uint32) >> rng.integers(0, 32, 4096, np.uint32)
    z = np.maximum(rng.integers(0, 2**32, 4096, np.uint32) >> rng.integers(0, 32, 4096), 1)
    z = z.astype(np.uint32)
    np.testing.assert_array_equal(run("{0} / {1}", [x, z], 4, 4096), x // z)
    np.testing.assert_array_equal(run("{0} % {1}", [x, z], 4, 4096), x % z)
    a, b = x.view(np.int32), z.view(np.int32)
    quotient = np.trunc(a / b.astype(np.float64)).astype(np.int64).astype(np.int32)
    np.testing.assert_array_equal(run("{0} / {1}", [a, b], 4, 4096), quotient)


def compiled(
    text: str, names: dict[str, Any], lanes: int = 1
) -> tuple[WasmFunction, Type, WasmModule]:
    module = WasmModule((1, 1))
    f = WasmFunction("f", [("a", F32), ("b", V128)])
    kind = Code(f, Library(module)).expression(parse_expression(text), names, lanes)
    return f, kind, module


def test_what_all_lanes_share_is_computed_once() -> None:
    names = {"a": Local(0, "f32"), "b": Local(1, "f32", 4), "c": KnownOperand(2.0, "f32")}
    f, kind, _ = compiled("(a * c + 1.0) * b + (a * c + 1.0)", names)
    assert kind == Type("f32", 4)
    text = wat(f)
    assert text.count("f32.mul") == text.count("f32.add") == text.count("splat") == 1
    f, kind, _ = compiled("a * c", names)
    assert (kind, wat(f).count("f32x4")) == (Type("f32", 1), 0)
    f, kind, _ = compiled("a * c", names, 4)
    assert kind == Type("f32", 4)


def test_known_exponents_need_no_exp_and_no_loop() -> None:
    f, _, module = compiled("wg_pow(b, 3.0f)", {"b": Local(1, "f32", 4)})
    assert module.functions == []
    assert wat(f).count("f32x4.mul") == 2 and "loop" not in wat(f)


def test_large_functions_are_called_for_scalars_and_copied_for_vectors() -> None:
    module = WasmModule((1, 1))
    library = Library(module)
    for lanes, kind in ((1, F32), (4, V128), (1, F32)):
        f = WasmFunction("f", [("b", kind)])
        names = {"b": Local(0, "f32", lanes)}
        Code(f, library).expression(parse_expression("exp(b) + exp(b + 1.0)"), names)
        text = wat(f, module.functions)
        assert text.count("call $exp\n") == (2 if lanes == 1 else 0)
        # Each exp makes its power of two from two factors, by a shift each.
        assert text.count("i32x4.shl") == (0 if lanes == 1 else 4)
    assert [function.name for function in module.functions] == ["wg_exp_part", "exp"]


LARGE = "fn large(x: f32, y: f32) -> f32 { return " + "x * y + 1.0f - " * 12 + "y; }"


def test_copied_functions_take_constants_uniform_numbers_and_vectors() -> None:
    own = parse_functions(LARGE)
    x = np.arange(8, dtype=np.float32)
    want = x * 3
    for _ in range(11):
        want = want + 1 - x * 3
    want = want + 1 - 3
    for second in ("{1}", "3.0f", "{2}"):
        for expression in (f"large({{0}}, {second})", f"large({{0}}, {second}) * {second}"):
            got = run(expression, [x, np.float32(3), np.full(8, 3, np.float32)], 4, 8, own)
            np.testing.assert_array_equal(got, want * (3 if "*" in expression else 1))


def test_the_same_expression_on_other_locals_and_types() -> None:
    module = WasmModule((1, 1))
    f = WasmFunction("f", [("a", F32), ("b", F32), ("i", I32), ("v", V128)], [F32, F32, I32, V128])
    code, expr = Code(f, Library(module)), parse_expression("x * x - 1")
    for local in (Local(0, "f32"), Local(1, "f32"), Local(2, "u32"), Local(3, "i32", 4)):
        assert code.expression(expr, {"x": local}) == Type(local.kind, local.lanes)
    f.emit("drop").emit("drop")
    assert code.expression(expr, {"x": KnownOperand(3, "i32")}) == Type("i32", 1)
    assert code.expression(expr, {"x": KnownOperand(-0.0, "f32")}, 4) == Type("f32", 4)
    module.add(f)
    wasmtime.Module(wasmtime.Engine(), module.encode())
    text = wat(f)
    for name in "abiv":
        assert text.count(f"local.get ${name}\n") == 2


def test_locals_are_used_again() -> None:
    f = WasmFunction("f", [("b", V128)])
    code = Code(f, Library(WasmModule((1, 1))))
    for _ in range(10):
        code.expression(parse_expression("(b + 1.0) * (b + 1.0)"), {"b": Local(0, "f32", 4)})
        f.emit("drop")
    assert len(f.local_types) == 2


def test_statements_change_variables() -> None:
    f = WasmFunction("f", [("scale", F32), ("x", V128), ("y", V128)])
    body = parse_statements("x = x * scale; if (scale > 0.0) { y = x + y; let z = y; }")
    names = {"scale": Local(0, "f32"), "x": Local(1, "f32", 4), "y": Local(2, "f32", 4)}
    changed = Code(f, Library(WasmModule((1, 1)))).statements(body, names, 4)
    assert changed == ["x", "y"]
    assert wat(f).count("f32x4.mul") == 1 and wat(f).count("select") == 1


LOOPS = """
fn power(x: f32, n: u32) -> f32 {
  var y = 1.0f;
  for (var i = 0u; i < n; i++) { y *= x; }
  return y;
}

fn nested(x: f32, n: u32) -> f32 {
  var y = 0.0f;
  var i = 0u;
  while (i < n) {
    for (var j = 0u; j < i; j++) { if ((j & 1u) == 0u) { y += x; } else { y += 1.0f; } }
    i++;
  }
  return y;
}
"""


@pytest.mark.parametrize("name", ["power", "nested"])
def test_loops(name: str) -> None:
    own = parse_functions(LOOPS)
    x = np.float32([0.5, 1.5, 2, -1, 3, 0.25, -2, 1])
    counts = np.uint32([0, 1, 2, 3, 4, 5, 6, 7])
    want = [loop_reference(name, float(a), int(n)) for a, n in zip(x, counts, strict=True)]
    for lanes in (1, 4):
        got = run(f"{name}({{0}}, {{1}})", [x, counts], lanes, 8, own)
        np.testing.assert_array_equal(got, np.float32(want))
        for n in (0, 3, 30):
            want_same = [loop_reference(name, float(a), n) for a in x]
            for count in ("{1}", f"{n}u"):
                got = run(f"{name}({{0}}, {count})", [x, np.uint32(n)], lanes, 8, own)
                np.testing.assert_array_equal(got, np.float32(want_same))


def loop_reference(name: str, x: float, n: int) -> float:
    if name == "power":
        return float(np.prod(np.full(n, x, np.float32)))
    return sum(x if j % 2 == 0 else 1.0 for i in range(n) for j in range(i))


@pytest.mark.parametrize(
    ("text", "message"),
    [("missing(1.0)", "nothing is called missing"), ("x", "nothing is called x")],
)
def test_what_is_unknown_is_named(text: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        compiled(text, {})


def test_operands_of_two_types_are_refused() -> None:
    with pytest.raises(TypeError, match="f32 and u32"):
        compiled("1.0f + 1u", {})
