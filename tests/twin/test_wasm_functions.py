"""exp, log and the ops' functions as WebAssembly: their errors; the same bits in every engine."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import cache
from math import erf, erfc
from pathlib import Path

import numpy as np
import pytest

from wasm_runs import Array, kernel, run, same_bits
from wgcc.backends.wasm.encoding.module import PAGE, WasmModule
from wgcc.backends.wasm.wgsl.library import Library, standard_function, standard_functions
from wgcc.kernel.parse import parse_functions
from wgcc.ops import OPS
from wgcc.ops.registry import FOLDER


@cache
def samples() -> Array:
    """Numbers of every exponent and sign, dense ones where functions bend, and the special ones."""
    bits = np.arange(0, 2**32, 2**32 // 200_003, dtype=np.uint64).astype(np.uint32)
    found = [bits.view(np.float32)]
    for far in (1e-3, 1.0, 3.0, 20.0, 110.0):
        found.append(np.linspace(-far, far, 30_001).astype(np.float32))
    tiny = np.arange(1, 4, dtype=np.uint32).view(np.float32)
    most = np.finfo(np.float32).max
    found.append(np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, most, -most, 1.0, -1.0]))
    return np.concatenate([*found, tiny, -tiny])


def sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, e, 1.0) / (1 + e))


# Expression, what it should be in f64, largest error in units of the last place.
EXACT: list[tuple[str, Callable[[Array], Array], float]] = [
    ("exp({0})", np.exp, 1.0),
    ("log({0})", np.log, 1.0),
    ("sqrt({0})", np.sqrt, 0.5),
    ("inverseSqrt({0})", lambda x: 1 / np.sqrt(x), 1.5),
    ("wg_expm1({0})", np.expm1, 2.0),
    ("wg_tanh({0})", np.tanh, 5.0),
    ("wg_log1p({0})", np.log1p, 2.5),
    ("wg_sigmoid({0})", sigmoid, 2.5),
    ("wg_erf({0})", np.vectorize(erf, otypes=[float]), 2.5),
    ("wg_softplus({0})", lambda x: np.logaddexp(0, x), 3.0),
    ("wg_sin({0})", np.sin, 3.0),
    ("wg_cos({0})", np.cos, 3.0),
    ("wg_tan({0})", np.tan, 5.0),
    *(
        (f"wg_pow({{0}}, {z})", lambda x, z=z: np.power(x, float(np.float32(z))), 2.5)
        for z in (2.5, 0.3, -1.7, 33.3)
    ),
]


@pytest.mark.parametrize(("expression", "reference", "most"), EXACT)
def test_errors_in_units_of_the_last_place(
    expression: str, reference: Callable[[Array], Array], most: float
) -> None:
    x = samples()
    got = run(expression, [x], 4, len(x))
    with np.errstate(all="ignore"):
        want = reference(x.astype(np.float64))
        rounded = want.astype(np.float32)
    usual = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~usual], rounded[~usual])
    size = np.maximum(np.abs(rounded[usual]), np.finfo(np.float32).tiny)
    unit = np.spacing(np.minimum(size, np.float32(3e38))).astype(np.float64)
    errors = np.abs(got[usual].astype(np.float64) - want[usual]) / unit
    assert errors.max() <= most, (x[usual][errors.argmax()], errors.max())


def test_gelu_is_more_exact_than_its_formula() -> None:
    """1 + erf x, rounded, would lose digits of negative x."""
    x = samples()
    x = x[np.abs(x) < 1e30]
    got = run("wg_gelu({0})", [x], 4, len(x)).astype(np.float64)
    wide = x.astype(np.float64)
    want = 0.5 * wide * np.vectorize(erfc, otypes=[float])(-wide / np.sqrt(2))
    unit = np.spacing(np.maximum(np.abs(want), 0.5).astype(np.float32)).astype(np.float64)
    errors = np.abs(got - want) / unit
    assert errors.max() <= 1.5, (x[errors.argmax()], errors.max())
    special = np.float32([np.inf, np.nan, 0.0])
    np.testing.assert_array_equal(run("wg_gelu({0})", [special], 4, 3), special)


def test_exp_of_numbers_below_zero_has_the_bits_of_exp() -> None:
    x = -np.abs(samples())
    assert same_bits(run("wg_exp_below({0})", [x], 4, len(x)), run("exp({0})", [x], 4, len(x)))


def test_powers_of_numbers_near_one() -> None:
    """Large exponents leave no room for an error of the logarithm."""
    generator = np.random.default_rng(5)
    x = generator.uniform(0.9, 1.1, 100_000).astype(np.float32)
    z = generator.uniform(-800, 800, 100_000).astype(np.float32)
    want = np.power(x.astype(np.float64), z.astype(np.float64))
    unit = np.spacing(want.astype(np.float32)).astype(np.float64)
    assert (np.abs(run("wg_pow({0}, {1})", [x, z], 4, len(x)) - want) / unit).max() <= 2


def test_powers_of_special_numbers() -> None:
    numbers = np.float32([0, 1, -1, 2, -2, 0.5, -0.5, np.inf, -np.inf, np.nan, 2.5, -2.5, 3, 65])
    x, z = (item.ravel().copy() for item in np.meshgrid(numbers, numbers))
    with np.errstate(all="ignore"):
        want = np.power(x, z)
    np.testing.assert_allclose(run("wg_pow({0}, {1})", [x, z], 4, len(x)), want, rtol=5e-7)


def calls() -> list[str]:
    """Each function of one f32, and those that random numbers are made with."""
    found = ["wg_uniform(7u, 3u, 5u, {i})", "wg_normal(7u, 3u, 5u, {i})"]
    found += ["wg_pow({0}, 2.5)", "wg_pow({0}, -3.0)", "wg_mod({0}, 3.0)", "sign({0})"]
    for name in standard_functions():
        definition = standard_function(name)
        assert definition is not None
        if [kind for _, kind in definition.params] == ["f32"] and definition.result == "f32":
            found.append(f"{name}({{0}})")
    return found


@pytest.mark.parametrize("expression", calls())
def test_both_widths_give_the_same_bits(expression: str) -> None:
    x = samples()
    assert same_bits(run(expression, [x], 1, len(x)), run(expression, [x], 4, len(x)))


def test_v8_gives_the_bits_of_wasmtime(tmp_path: Path) -> None:
    x = samples()
    room = -(-len(x) // 4) * 16
    module = WasmModule((2 * room // PAGE + 1,) * 2)
    library = Library(module)
    for at, expression in enumerate(calls()):
        kernel(module, library, expression, [x], 4, room, name=str(at))
    (tmp_path / "module.wasm").write_bytes(module.encode())
    (tmp_path / "x").write_bytes(x.tobytes())
    initial, maximum = module.pages
    code = f"""
      const fs = require('fs');
      const memory = new WebAssembly.Memory({{initial: {initial}, maximum: {maximum}}});
      const module = new WebAssembly.Module(fs.readFileSync('module.wasm'));
      const {{exports}} = new WebAssembly.Instance(module, {{env: {{memory}}}});
      new Uint8Array(memory.buffer).set(fs.readFileSync('x'), {room});
      for (let at = 0; at < {len(calls())}; at++) {{
        exports[at]({len(x)});
        fs.writeFileSync(`${{at}}`, new Uint8Array(memory.buffer, 0, {4 * len(x)}));
      }}"""
    subprocess.run(["node", "-e", code], cwd=tmp_path, check=True)
    for at, expression in enumerate(calls()):
        got = np.fromfile(tmp_path / str(at), np.float32)
        assert same_bits(got, run(expression, [x], 4, len(x))), expression


def test_random_numbers_are_the_references() -> None:
    reference = OPS["random"].reference
    for kind, most in (("uniform", 0.0), ("normal", 1e-6)):
        want = reference(np.uint32(7), np.uint32(5), shape=(999,), site=3, kind=kind)
        for lanes in (1, 4):
            got = run(f"wg_{kind}(7u, 3u, 5u, {{i}})", [], lanes, 999)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=most)


def test_functions_stand_in_for_built_in_ones_or_for_ones_of_the_ops() -> None:
    """What is in `functions/` is used: by the ops' patterns, their functions, or in their place."""
    ops = {name for path in FOLDER.glob("*.wgsl") for name in parse_functions(path.read_text())}
    own = set(standard_functions()) - ops
    called_by_those = {"wg_exp_below", "wg_exp_part"}
    assert own == {"exp", "log"} | called_by_those
