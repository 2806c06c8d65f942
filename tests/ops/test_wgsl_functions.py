"""Every WGSL helper function over a dense grid against float64, on both adapters and under Tint."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from op_samples import build
from tint_compiler import compile_all
from wgcc.kernel.own.words import REPLACED
from wgcc.ops import OPS, Op
from wgcc.ops.random import erfinv_array, normal_array, threefry, uniform_array
from wgcc.ops.registry import FOLDER, Pointwise, source_of
from wgcc.ops.unary import reference as exp_tail

# |a-b| / (1+|b|), the documented accuracy.
TOLERANCE = 1e-5
POINTS = 20_011

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """`expression` of x (and z) over a grid; `relative` also bounds the relative error."""

    name: str
    expression: str
    functions: tuple[str, ...]
    reference: Callable[..., Array]
    x: tuple[float, float]
    z: tuple[float, float] | None = None
    relative: float | None = None


def erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[float])(x)


def f16(x: Array) -> Array:
    return x.astype(np.float16).astype(np.float64)


def smoothstep(x: Array) -> Array:
    t = np.clip((x + 1) / 3, 0, 1)
    return t * t * (3 - 2 * t)


LOG1P = ("log", "log1p")
ROUND_F16 = ("wg_round_f16(x)", ("round_f16",), f16)
CASES = [
    Case("round_f16", *ROUND_F16, (-70.0, 70.0), relative=0.0),
    Case("round_f16 large", *ROUND_F16, (-65_504.0, 65_504.0), relative=0.0),
    Case("round_f16 small", *ROUND_F16, (-2e-4, 2e-4), relative=0.0),
    Case("log", "wg_log(x)", ("log",), np.log, (1e-4, 1e4)),
    Case("log near 1", "wg_log(x)", ("log",), np.log, (0.5, 2.0)),
    Case("log1p", "wg_log1p(x)", LOG1P, np.log1p, (-0.999, 100.0)),
    Case("log1p near 0", "wg_log1p(x)", LOG1P, np.log1p, (-0.5, 0.7), relative=3e-6),
    Case("log1p at 0", "wg_log1p(x)", LOG1P, np.log1p, (-1e-5, 1e-5), relative=1e-6),
    Case("expm1", "wg_expm1(x)", ("expm1",), np.expm1, (-80.0, 10.0)),
    Case("expm1 near 0", "wg_expm1(x)", ("expm1",), np.expm1, (-0.6, 0.6), relative=2e-6),
    *(
        Case(
            f"exp_tail {order}",
            f"wg_exp_tail(x, {order}u)",
            ("exp_tail",),
            partial(exp_tail, order=order),
            (-9.0, 6.0),
            relative=3e-6,
        )
        for order in range(4)
    ),
    Case("tanh", "wg_tanh(x)", ("tanh",), np.tanh, (-12.0, 12.0), relative=1e-6),
    Case("tanh far", "wg_tanh(x)", ("tanh",), np.tanh, (-1e30, 1e30), relative=1e-6),
    Case(
        "tanh up to 1", "max(abs(wg_tanh(x)), 1.0)", ("tanh",), np.ones_like, (4.0, 10.0), None, 0.0
    ),
    Case("tanh near 0", "wg_tanh(x)", ("tanh",), np.tanh, (-1e-3, 1e-3), relative=1e-6),
    Case(
        "sigmoid",
        "wg_sigmoid(x)",
        ("sigmoid",),
        lambda x: 1 / (1 + np.exp(-x)),
        (-80, 80),
        None,
        2e-5,
    ),
    Case(
        "sigmoid far", "wg_sigmoid(x)", ("sigmoid",), lambda x: 0.5 + np.sign(x) / 2, (-1e30, 1e30)
    ),
    Case("relu", "wg_relu(x)", ("relu",), lambda x: np.maximum(x, 0), (-3.0, 3.0), None, 0.0),
    Case(
        "softplus",
        "wg_softplus(x)",
        (*LOG1P, "softplus"),
        lambda x: np.logaddexp(0, x),
        (-60.0, 200.0),
        relative=2e-5,
    ),
    Case("erf", "wg_erf(x)", ("erf",), erf, (-6.0, 6.0), relative=1e-6),
    Case("erf near 0", "wg_erf(x)", ("erf",), erf, (-1e-4, 1e-4), relative=1e-6),
    Case("erf far", "wg_erf(x)", ("erf",), erf, (-1e30, 1e30), relative=1e-6),
    Case("gelu", "wg_gelu(x)", ("erf", "gelu"), lambda x: x / 2 * (1 + erf(x / 2**0.5)), (-15, 15)),
    Case("mod", "wg_mod(x, z)", ("mod",), np.mod, (-20.0, 20.0), (0.3, 3.0)),
    Case("exp2", "wg_exp2(x)", ("exp2", "log", "pow"), np.exp2, (-20.0, 20.0), relative=1e-6),
    Case("log2", "wg_log2(x)", ("log", "log2"), np.log2, (1e-3, 1e3)),
    Case("mix", "wg_mix(x, z, 0.25)", ("mix",), lambda x, z: 0.75 * x + 0.25 * z, (-3, 3), (-3, 3)),
    Case("step", "wg_step(x, z)", ("step",), lambda x, z: 1.0 * (x <= z), (-3, 3), (-2.5, 3.5)),
    Case(
        "saturate",
        "wg_saturate(x)",
        ("max", "min", "saturate"),
        partial(np.clip, a_min=0, a_max=1),
        (-2, 2),
    ),
    Case("smoothstep", "wg_smoothstep(-1.0, 2.0, x)", ("smoothstep",), smoothstep, (-2, 3)),
    Case("mod by a negative", "wg_mod(x, z)", ("mod",), np.mod, (-20.0, 20.0), (-3.0, -0.3)),
    Case("pow", "wg_pow(x, z)", ("log", "pow"), np.power, (0.05, 4.0), (-5.0, 5.0)),
    Case(
        "pow whole",
        "wg_pow(x, floor(z))",
        ("log", "pow"),
        lambda x, z: x ** np.floor(z),
        (-3, 3),
        (0, 9),
    ),
    Case("pow 2.5", "wg_pow(x, 2.5)", ("log", "pow"), lambda x: x**2.5, (1e-6, 1e6), relative=1e-6),
    *(
        Case(
            f"tan near {pole}",
            "wg_tan(x)",
            ("turn", "tan"),
            np.tan,
            (pole - 1, pole + 1),
            None,
            1e-6,
        )
        for pole in (1.5707, 4.7123, 7.8539, 1e6)
    ),
    Case("sin", "wg_sin(x)", ("turn", "sin"), np.sin, (-10.0, 10.0)),
    Case("sin near 0", "wg_sin(x)", ("turn", "sin"), np.sin, (-1e-3, 1e-3), relative=1e-6),
    Case("sin far", "wg_sin(x)", ("turn", "sin"), np.sin, (-1e6, 1e6)),
    Case("sin farthest", "wg_sin(x)", ("turn", "sin"), np.sin, (-3e38, 3e38)),
    Case("cos", "wg_cos(x)", ("turn", "cos"), np.cos, (-10.0, 10.0)),
    Case("cos far", "wg_cos(x)", ("turn", "cos"), np.cos, (-1e6, 1e6)),
    Case("cos farthest", "wg_cos(x)", ("turn", "cos"), np.cos, (-3e38, 3e38)),
    Case("atan", "wg_atan(x)", ("atan",), np.arctan, (-10.0, 10.0), relative=1e-6),
    Case("atan near 0", "wg_atan(x)", ("atan",), np.arctan, (-1e-3, 1e-3), relative=1e-6),
    Case("atan far", "wg_atan(x)", ("atan",), np.arctan, (-1e30, 1e30), relative=1e-6),
    Case("atan2", "wg_atan2(x, z)", ("atan", "atan2"), np.arctan2, (-2, 2), (-2, 2), 1e-6),
    Case("atan2 far", "wg_atan2(x, z)", ("atan", "atan2"), np.arctan2, (-3e38, 3e38), (-9, 9)),
    Case("asin", "wg_asin(x)", ("asin",), np.arcsin, (-1.0, 1.0), relative=2e-6),
    Case("asin near 0", "wg_asin(x)", ("asin",), np.arcsin, (-1e-3, 1e-3), relative=1e-6),
    Case("acos", "wg_acos(x)", ("asin", "acos"), np.arccos, (-1.0, 1.0)),
    Case("acos near 1", "wg_acos(x)", ("asin", "acos"), np.arccos, (0.99, 0.99999), relative=3e-6),
    Case("sinh", "wg_sinh(x)", ("expm1", "sinh"), np.sinh, (-88.0, 88.0), relative=2e-5),
    Case("sinh near 0", "wg_sinh(x)", ("expm1", "sinh"), np.sinh, (-1.0, 1.0), relative=2e-6),
    Case("cosh", "wg_cosh(x)", ("cosh",), np.cosh, (-88.0, 88.0), relative=2e-5),
    Case(
        "erfinv",
        "wg_erfinv(x)",
        ("erfinv",),
        erfinv_array,
        (-0.99999994, 0.99999994),
        relative=1e-5,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "_"))
def test_function_is_accurate(case: Case, device: Any) -> None:
    x = np.linspace(*case.x, POINTS).astype(np.float32)
    z = np.random.default_rng(0).uniform(*(case.z or (0, 1)), POINTS).astype(np.float32)
    got = run(device, case.expression, case.functions, x, z)
    wide = [x.astype(np.float64)] + ([z.astype(np.float64)] if case.z else [])
    want = case.reference(*wide)
    error = np.abs(got - want) / (1 + np.abs(want))
    worst = int(np.argmax(error))
    assert np.all(np.isfinite(got))
    assert error[worst] <= TOLERANCE, f"at {x[worst]} {z[worst]}: {got[worst]}, not {want[worst]}"
    if case.relative is not None:
        # Numbers too small for f32 are flushed to zero by some adapters.
        error = np.abs(got - want) / np.maximum(np.abs(want), 1e-30)
        worst = int(np.argmax(error))
        assert error[worst] <= case.relative, f"at {x[worst]}: {got[worst]}, not {want[worst]}"


SPECIAL = [
    ("wg_log(x)", 0.0, -math.inf),
    ("wg_log(x)", -1.0, math.nan),
    ("wg_asin(x)", 1.5, math.nan),
    ("wg_acos(x)", -1.5, math.nan),
    ("wg_atan2(x, x)", 0.0, 0.0),
    ("wg_atan2(x, -x)", 3e38, np.float32(3 * math.pi / 4)),
    *((f"{name}(x)", math.nan, math.nan) for name in ("wg_asin", "wg_acos", "wg_atan", "wg_sinh")),
    ("wg_pow(x, 0.0)", 0.0, 1.0),
    ("wg_pow(x, 0.5)", 0.0, 0.0),
    ("wg_pow(x, 3.0)", -2.0, -8.0),
    ("wg_pow(x, -2.0)", -2.0, 0.25),
    ("wg_pow(x, 101.0)", -1.0, -1.0),
    ("wg_mod_i32(i32(x), 3)", -7.0, 2.0),
    ("wg_mod_i32(i32(x), -3)", 7.0, -2.0),
    ("wg_mod_i32(i32(x), -3)", -6.0, 0.0),
    *(
        (f"{name}(x)", math.nan, math.nan)
        for name in ("wg_tanh", "wg_relu", "wg_erf", "wg_log", "wg_sin")
    ),
    *((f"{name}(x)", math.nan, math.nan) for name in ("wg_sigmoid", "wg_gelu", "wg_softplus")),
    *((f"f32(wg_finite({sign}x))", math.inf, 0.0) for sign in ("", "-")),
    *((f"wg_round_f16({sign}x)", math.nan, math.nan) for sign in ("", "-")),
    ("wg_round_f16(x)", -math.inf, -math.inf),
    ("wg_round_f16(x)", 65_520.0, math.inf),
    ("wg_finite(x)", math.nan, 0.0),
    ("wg_finite(x)", 3e38, 1.0),
]


@pytest.mark.parametrize(("expression", "at", "want"), SPECIAL)
def test_function_at_the_edge(expression: str, at: float, want: float, device: Any) -> None:
    x = np.full(64, at, np.float32)
    got = run(device, f"f32({expression})", tuple(every_function()), x, x)
    np.testing.assert_array_equal(got, np.full(64, want, np.float32))


# The published known answers of Threefry2x32 with 20 rounds: key, counter, first word.
KNOWN = [
    ((0, 0), (0, 0), 0x6B200159),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), 0x1CB996FC),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), 0xC4923A9C),
]


@pytest.mark.parametrize(("key", "counter", "want"), KNOWN)
def test_threefry_gives_the_known_answers(
    key: tuple[int, int], counter: tuple[int, int], want: int
) -> None:
    assert threefry(*key, counter[0], np.asarray([counter[1]]))[0] == want


def test_random_numbers_are_the_references(device: Any) -> None:
    x = np.zeros(POINTS, np.float32)
    names = ("threefry", "uniform", "normal", "erfinv")
    uniform = run(device, "wg_uniform(7u, 3u, 5u, i)", names, x, x)
    np.testing.assert_array_equal(uniform, uniform_array(7, 3, 5, POINTS))
    normal = run(device, "wg_normal(7u, 3u, 5u, i)", names, x, x)
    np.testing.assert_allclose(normal, normal_array(7, 3, 5, POINTS), 1e-5, 1e-6)


def test_tint_accepts_every_function(tmp_path: Path) -> None:
    paths = []
    for op in OPS.values():
        if isinstance(op.lower, Pointwise) and functions_of(op):
            path = tmp_path / f"{op.name}.wgsl"
            path.write_text(kernel("x", functions_of(op), 64), encoding="utf-8")
            paths.append(path)
    together = tmp_path / "together.wgsl"
    together.write_text(kernel("wg_normal(1u, 2u, 3u, i)", tuple(every_function()), 64))
    results = compile_all([*paths, together])
    assert {path: messages for path, messages in results.items() if messages} == {}


def test_every_function_file_is_used() -> None:
    used = {name for op in OPS.values() for name in functions_of(op)}
    used |= {name for _, files in REPLACED.values() for name in files}
    assert used | {"round_f16"} == set(every_function())  # the scheduler rounds every f16 result


def functions_of(op: Op) -> tuple[str, ...]:
    """The functions that some sample of an op calls."""
    called = getattr(op.lower, "functions", ())
    if not callable(called):
        return tuple(called)
    nodes = [build(op, sample)[1] for sample in op.samples]
    # Those that users write are trees, not names of files.
    names = [name for node in nodes for name in called(node) if isinstance(name, str)]
    return tuple(dict.fromkeys(names))


def every_function() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.wgsl"))


def kernel(expression: str, functions: tuple[str, ...], size: int) -> str:
    return f"""{source_of(functions)}
@group(0) @binding(0) var<storage, read_write> xs: array<f32, {size}>;
@group(0) @binding(1) var<storage, read_write> zs: array<f32, {size}>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  let i = id.x;
  if (i < {size}u) {{
    let x = xs[i];
    let z = zs[i];
    xs[i] = {expression};
  }}
}}
"""


def run(device: Any, expression: str, functions: tuple[str, ...], x: Array, z: Array) -> Array:
    usage = 0x80 | 0x4 | 0x8  # storage, copy from, copy to
    buffers = [device.create_buffer_with_data(data=array, usage=usage) for array in (x, z)]
    module = device.create_shader_module(code=kernel(expression, functions, len(x)))
    pipeline = device.create_compute_pipeline(
        layout="auto", compute={"module": module, "entry_point": "main"}
    )
    entries = [{"binding": i, "resource": {"buffer": b}} for i, b in enumerate(buffers)]
    group = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
    encoder = device.create_command_encoder()
    work = encoder.begin_compute_pass()
    work.set_pipeline(pipeline)
    work.set_bind_group(0, group)
    work.dispatch_workgroups(-(-len(x) // 64))
    work.end()
    device.queue.submit([encoder.finish()])
    return np.frombuffer(device.queue.read_buffer(buffers[0]), np.float32)
