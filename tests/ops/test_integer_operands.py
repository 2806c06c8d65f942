"""Ops on floats also accept floats made from integers and bools, as inputs or computed: what
`check` accepts, `build` builds, naga and Tint compile, and kernels give the results of numpy."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from random_models.generate import generate
from tint_compiler import compile_all
from wgcc.compiler import Compiled, compile_program, read_program
from wgcc.evaluate import evaluate
from wgcc.passes.pipeline import run_passes

Array = np.ndarray[Any, Any]

# `{q}` stands for a float operand that is computed from integers; its type, then other inputs.
CONSUMERS: list[tuple[str, str, tuple[int, ...], dict[str, str], str]] = [
    ("right of a product", "x @ {q}", (64, 32), {"x": "f32[9, 64]"}, "f32[9, 32]"),
    ("left of a product", "{q} @ x", (9, 64), {"x": "f32[64, 33]"}, "f32[9, 33]"),
    ("stack of products", "x @ {q}", (2, 16, 5), {"x": "f32[2, 7, 16]"}, "f32[2, 7, 5]"),
    ("turned product", "x @ transpose({q})", (8, 17), {"x": "f32[3, 17]"}, "f32[3, 8]"),
    ("matrix and vector", "{q} @ x", (9, 64), {"x": "f32[64]"}, "f32[9]"),
    ("product and more", "gelu(x @ {q} + y)", (16, 8), {"x": "f32[5, 16]", "y": "f32[8]"},
     "f32[5, 8]"),
    ("einsum", 'einsum("a b, c b -> c a", x, {q})', (6, 20), {"x": "f32[3, 20]"}, "f32[6, 3]"),
    ("sum", "sum({q} * x, axis = 0)", (40, 6), {"x": "f32[6]"}, "f32[6]"),
    ("norm", "layer_norm({q} + x, x, x)", (5, 40), {"x": "f32[40]"}, "f32[5, 40]"),
    ("softmax", "softmax({q}, axis = -1)", (5, 40), {}, "f32[5, 40]"),
    ("cumsum", "cumsum({q}, axis = 0)", (20, 3), {}, "f32[20, 3]"),
    ("loss", "cross_entropy({q}, argmax(x, axis = 1))", (7, 10), {"x": "f32[7, 10]"}, "f32"),
    ("query", "attention({q}, x, x)", (2, 6, 8), {"x": "f32[2, 9, 8]"}, "f32[2, 6, 8]"),
    ("key", "attention(x, {q}, x)", (2, 6, 8), {"x": "f32[2, 6, 8]"}, "f32[2, 6, 8]"),
    ("value", "attention(x, x, {q}, causal = true)", (2, 6, 5), {"x": "f32[2, 6, 8]"},
     "f32[2, 6, 5]"),
    ("mask", "attention(x, x, x, mask = {q})", (6, 6), {"x": "f32[2, 6, 8]"}, "f32[2, 6, 8]"),
    ("image", "conv2d({q}, x, pad = 1)", (2, 6, 5, 3), {"x": "f32[3, 3, 3, 4]"}, "f32[2, 6, 5, 4]"),
    ("kernel", "conv2d(x, {q}, stride = 2)", (3, 3, 2, 4), {"x": "f32[2, 7, 7, 2]"},
     "f32[2, 3, 3, 4]"),
    ("pool", "max_pool2d({q}, 2)", (2, 6, 6, 3), {}, "f32[2, 3, 3, 3]"),
    ("scan", "selective_scan({q}, softplus(x), -exp(y), z, z)", (2, 9, 4),
     {"x": "f32[2, 9, 4]", "y": "f32[4, 3]", "z": "f32[2, 9, 3]"}, "f32[2, 9, 4]"),
    ("lookup", "gather({q}, argmax(x, axis = 1))", (10, 6), {"x": "f32[7, 10]"}, "f32[7, 6]"),
]  # fmt: skip
# How the operand is made from integers `i` of type `{t}`, and which other inputs that needs.
FORMS: list[tuple[str, bool]] = [
    ("f32(i)", False), ("(f32(i) * s)", True), ("(0.5 - f32(i)) * s", True),
    ("f32({t}(i > {t}(0)))", False),
]  # fmt: skip
DTYPES = ("u8", "i32", "i8", "bool", "u32")
GRADIENT = ("right of a product", "left of a product", "query", "image", "norm", "loss")


def entries() -> list[tuple[str, str, dict[str, str], str]]:
    """(name, expression, types of inputs, type of the result), every consumer in every form."""
    found, dtypes = [], cycle(DTYPES)
    for name, text, shape, others, result in CONSUMERS:
        for number, (form, scaled) in enumerate(FORMS):
            dtype = next(dtypes)
            if dtype == "bool" and "{t}" in form:
                form = "f32(not i)"
            scale = {"s": f"f32[{shape[-1]}]"} if scaled else {}
            sizes = ", ".join(map(str, shape))
            types = {"i": f"{dtype}[{sizes}]", **scale, **others}
            operand = f"({form.replace('{t}', dtype)})"
            entry = f"{name.replace(' ', '_')}_{number}"
            found.append((entry, text.replace("{q}", operand), types, result))
            if name in GRADIENT and scaled:
                slope = f"grad(sum(sin({text.replace('{q}', operand)})), s)"
                found.append((f"{entry}_slope", slope, types, scale["s"]))
    return found


def model_text() -> str:
    lines = [
        f"  entry {name}({', '.join(f'{k}: {t}' for k, t in types.items())}) -> (y: {result}) = "
        f"{text}"
        for name, text, types, result in entries()
    ]
    return "\n".join(["model M {", *lines, "}\n"])


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Compiled, Any, Path]:
    folder = tmp_path_factory.mktemp("integers")
    (folder / "model.wg").write_text(model_text(), encoding="utf-8")
    source, traced, diagnostics = read_program(folder / "model.wg")
    found = compile_program(source, traced, diagnostics)
    found.write(folder / "bundle")
    return found, run_passes(traced, until="opt"), folder / "bundle"


def test_every_combination_is_there() -> None:
    used = {(name.rsplit("_", 1)[0], types["i"].split("[")[0]) for name, _, types, _ in entries()}
    assert {dtype for _, dtype in used} == set(DTYPES)
    assert len(entries()) > 4 * len(CONSUMERS)


def test_naga_and_tint_accept_the_kernels(
    compiled: tuple[Compiled, Any, Path], lavapipe: Any
) -> None:
    accepted(compiled[0], compiled[2], lavapipe)


def test_kernels_give_what_numpy_gives(compiled: tuple[Compiled, Any, Path], target: Any) -> None:
    _, program, bundle = compiled
    model = wgcc_runtime.load(bundle, device=target)
    for name, graph in program.entries.items():
        given = {value.name: drawn(value.dtype, value.shape) for value in graph.inputs}
        wanted = evaluate(graph, given).outputs["y"]
        got = model.call(name, **given)["y"].astype(np.float64)
        error = np.abs(got - wanted) / (1 + np.abs(wanted).max())
        assert error.max() <= 1e-5, f"{name}: {error.max()}"


def drawn(dtype: str, shape: tuple[int, ...]) -> Array:
    draw = np.random.default_rng(len(shape))
    if dtype == "f32":
        return draw.uniform(-1, 1, shape).astype(np.float32)
    low, high = {"bool": (0, 1), "i32": (-4, 5), "i8": (-9, 9)}.get(dtype, (0, 9))
    return np.asarray(draw.integers(low, high, shape, endpoint=True))


@pytest.mark.parametrize("seed", range(30_010, 30_022))
def test_random_models_with_integers(seed: int, lavapipe: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.wg"
    path.write_text(generate(seed, whole=0.4).text(), encoding="utf-8")
    found = compile_program(*read_program(path))
    found.write(tmp_path / "bundle")
    accepted(found, tmp_path / "bundle", lavapipe)


def accepted(compiled: Compiled, bundle: Path, device: Any) -> None:
    kernels = sorted((bundle / "kernels").iterdir())
    refused = {path: text for path, text in compile_all(kernels).items() if text}
    assert not refused
    for path in kernels:
        device.create_shader_module(code=path.read_text(encoding="utf-8"))
