"""Convolutions, pools and upsampling as users write them: values, gradients, memory, dispatches.

Values and gradients run on both adapters, at odd sizes, against the same program
in float64 (which test_network_builtins.py compares with plain loops and central differences).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from adapters import ROOT
from tint_compiler import compile_all
from wgcc.compiler import Compiled, compile_file
from wgcc.evaluate import evaluate

FORWARD, GRADIENT = 1e-5, 1e-4

# x, w, expression of x and w
CASES = {
    "plain": ("1, 5, 7, 3", "3, 3, 3, 9", "conv2d(x, w)"),
    "padded": ("2, 7, 5, 3", "3, 3, 3, 17", "conv2d(x, w, pad = 1)"),
    "pixels": ("2, 3, 5, 7", "1, 1, 7, 9", "conv2d(x, w)"),
    "skipping": ("2, 7, 9, 3", "1, 1, 3, 5", "conv2d(x, w, stride = 2)"),
    "strided": ("2, 9, 11, 5", "4, 3, 5, 6", "conv2d(x, w, stride = 2, pad = 1)"),
    "far": ("1, 11, 9, 4", "2, 3, 4, 7", "conv2d(x, w, stride = (3, 2), pad = (0, 2))"),
    "tiles": ("2, 9, 8, 3", "4, 4, 3, 5", "conv2d(x, w, stride = 4)"),
    "dilated": ("1, 9, 8, 5", "3, 2, 5, 6", "conv2d(x, w, pad = 2, dilation = (2, 3))"),
    "both": ("1, 13, 9, 3", "2, 3, 3, 4", "conv2d(x, w, stride = 3, pad = 2, dilation = 2)"),
    "groups": ("2, 5, 5, 8", "3, 3, 4, 10", "conv2d(x, w, pad = 1, groups = 2)"),
    "strided_groups": ("1, 7, 6, 6", "3, 3, 2, 9", "conv2d(x, w, stride = 2, groups = 3)"),
    "depthwise": ("2, 6, 5, 7", "3, 3, 1, 7", "conv2d(x, w, pad = 1, groups = 7)"),
    "strided_depthwise": (
        "1, 9, 7, 5", "5, 5, 1, 5", "conv2d(x, w, stride = 2, pad = 2, groups = 5)"
    ),
    "multiplied": ("1, 5, 6, 3", "3, 3, 1, 6", "conv2d(x, w, pad = 1, groups = 3)"),
    "one_channel": ("2, 5, 5, 1", "3, 3, 1, 1", "conv2d(x, w, pad = 2)"),
    "fused": ("2, 5, 7, 3", "3, 3, 3, 8", "tanh(conv2d(relu(x), w, pad = 1) + w[0, 0, 0])"),
    "deep": ("3, 43, 41, 2", "3, 3, 2, 5", "conv2d(x, w, pad = 1) / 8.0"),
    "transposed": (
        "1, 4, 5, 3", "2, 2, 4, 3", "grad(sum(conv2d(zeros(f32[1, 8, 10, 4]) + z, w, "
        "stride = 2) * x), z)"
    ),
    "pooled": ("2, 9, 7, 3", "1", "max_pool2d(x * w, 2) ** 2"),
    "pooled_over": ("2, 9, 7, 5", "1", "max_pool2d(x * w, 3, 2, pad = 1)"),
    "pooled_rows": ("1, 8, 7, 5", "1", "max_pool2d(x * w, (3, 2), (1, 2), pad = (1, 0))"),
    "averaged": ("2, 9, 7, 3", "1", "avg_pool2d(x * w, 2)"),
    "averaged_over": ("2, 9, 7, 5", "1", "avg_pool2d(x * w, 3, 2, pad = 1)"),
    "causal": ("3, 17, 5", "4, 5", "causal_conv1d(x, w)"),
    "causal_short": ("2, 3, 65", "5, 65", "causal_conv1d(x, w)"),
    "larger": ("2, 3, 5, 7", "1", "upsample(x * w, (2, 3))"),
}  # fmt: skip


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """For each case the entries NAME (the value) and NAME_back (the gradients of its squares)."""
    entries = []
    for name, (x, w, expression) in CASES.items():
        extra = "\n    z = zeros(f32[1, 8, 10, 4])" if "z)" in expression else ""
        result = f"y = {expression}\n    loss = sum(y * y)"
        entries.append(f"""
  entry {name}(x: f32[{x}], w: f32[{w}]) -> (total: f32) {{{extra}
    {result}
    return loss
  }}
  entry {name}_back(x: f32[{x}], w: f32[{w}]) -> (dx: f32[{x}], dw: f32[{w}]) {{{extra}
    {result}
    return grad(loss, x), grad(loss, w)
  }}""")
    source = tmp_path_factory.mktemp("conv") / "conv.wg"
    source.write_text(f"model M {{{''.join(entries)}\n}}\n", encoding="utf-8")
    return compile_file(source)


@pytest.fixture(scope="module")
def bundle(compiled: Compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("conv") / "bundle"
    compiled.write(folder)
    return folder


def test_values_and_gradients(compiled: Compiled, bundle: Path, device: Any) -> None:
    model = wgcc_runtime.load(bundle, device=device)
    rng = np.random.default_rng(11)
    for name, graph in compiled.program.entries.items():
        given = {v.name: rng.uniform(-1, 1, v.shape).astype(np.float32) for v in graph.inputs}
        exact = {key: array.astype(np.float64) for key, array in given.items()}
        wanted = evaluate(graph, exact).outputs
        tolerance = GRADIENT if name.endswith("_back") else FORWARD
        for key, found in model.call(name, **given).items():
            error = np.abs(found - wanted[key]) / (1 + np.abs(wanted[key]))
            assert error.max() <= tolerance, f"{name} {key}: {error.max():.2e}"
    model.close()


def test_tint_accepts_every_kernel(bundle: Path) -> None:
    messages = compile_all(bundle.glob("kernels/*.wgsl"))
    assert messages and not any(messages.values()), messages


def test_the_first_of_equals_gets_the_gradient(tmp_path: Path, device: Any) -> None:
    """As in PyTorch: windows of 3 at every second pixel, many pixels equal."""
    source = tmp_path / "m.wg"
    source.write_text("""
model M {
  entry back(x: f32[2, 7, 8, 3], g: f32[2, 4, 4, 3]) -> (dx: f32[2, 7, 8, 3]) =
    grad(sum(max_pool2d(x, 3, 2, pad = 1) * g), x)
}
""", encoding="utf-8")  # fmt: skip
    compile_file(source).write(tmp_path / "bundle")
    rng = np.random.default_rng(5)
    x = rng.integers(-2, 2, (2, 7, 8, 3)).astype(np.float32)
    g = rng.normal(size=(2, 4, 4, 3)).astype(np.float32)
    wanted = np.zeros(x.shape)
    for n, r, c, k in np.ndindex(g.shape):
        rows, columns = range(max(2 * r - 1, 0), 2 * r + 2), range(max(2 * c - 1, 0), 2 * c + 2)
        places = [(i, j) for i in rows for j in columns if i < 7 and j < 8]
        i, j = max(places, key=lambda place: x[n, place[0], place[1], k])
        wanted[n, i, j, k] += g[n, r, c, k]
    model = wgcc_runtime.load(tmp_path / "bundle", device=device)
    np.testing.assert_allclose(model.call("back", x=x, g=g)["dx"], wanted, atol=1e-6)


def test_a_convolution_is_one_dispatch(compiled: Compiled) -> None:
    """With the ops around it. Each gradient is one more, and one to reorder it if the entry's
    result is not read through a view."""
    entries = compiled.planned.plan["entries"]
    counts = {name: len(entry["dispatches"]) for name, entry in entries.items()}
    sums = 1  # the kernels that sum the squares of the case
    for name in ("padded", "strided", "groups", "depthwise", "fused", "transposed"):
        assert counts[name] == 1 + sums, name
    for name, orderings in {"padded": 0, "strided": 1, "tiles": 1, "groups": 2}.items():
        assert counts[f"{name}_back"] == 3 + orderings, name


def test_windows_are_never_stored() -> None:
    """A residual network of 13 convolutions: no temporary is larger than an activation."""
    program = ROOT / "tests" / "filetests" / "programs" / "cnn.wg"
    compiled = compile_file(program, sizes={"B": 16})
    activation = 16 * 32 * 32 * 32
    temporaries = compiled.schedule.entries["train"].temporaries
    assert max(place.count for place, _, _ in temporaries.values()) <= 1.2 * activation
    # Each of the ten normed convolutions keeps two activations, of 1, 1/2 or 1/4 of that size.
    assert compiled.planned.plan["memory"]["temps"] <= 4 * activation * 18


SIGNAL, IMAGE, VOLUME = "4, 64, 32", "2, 16, 16, 16", "1, 8, 8, 8, 8"
# Input, expression, its shape, the dispatches it may take, and its largest temporary as a multiple
# of its largest input or output: with stored windows that would be the size of a kernel.
ECONOMICAL = (
    (SIGNAL, "conv1d(x, ones(f32[5, 32, 8]), pad = 2)", "4, 64, 8", 1, 0),
    (VOLUME, "conv3d(x, ones(f32[3, 3, 3, 8, 8]), pad = 1)", VOLUME, 1, 0),
    (IMAGE, "conv_transpose2d(x, ones(f32[4, 4, 16, 8]), 2, 1)", "2, 32, 32, 8", 2, 1.5),
    (IMAGE, "grad(sum(x * conv_transpose2d(x, ones(f32[3, 3, 16, 16]), pad = 1)), x)", IMAGE, 2, 1),
    (VOLUME, "f32(max_pool3d(x, 3, 2, 1, return_indices = true)[1])", "1, 4, 4, 4, 8", 1, 0),
    (SIGNAL, "grad(sum(square(max_pool1d(x, 3, 1, pad = 1))), x)", SIGNAL, 3, 1),
    (IMAGE, "avg_pool2d(x, 3, 2, pad = 1, count_include_pad = false)", "2, 8, 8, 16", 1, 0),
    (IMAGE, 'resize(x, 33, "bilinear")', "2, 33, 33, 16", 2, 0.6),
    (IMAGE, 'grad(sum(x * resize(resize(x, 33, "bicubic"), 16, "bicubic")), x)', IMAGE, 10, 4.5),
    (IMAGE, "resize(x, 33)", "2, 33, 33, 16", 1, 0),
    (IMAGE, "unfold(x, 3, pad = 1)", "2, 256, 144", 1, 0),
    ("2, 256, 144", "fold(x, 16, 3, pad = 1)", IMAGE, 1, 0),
    (IMAGE, "grid_sample(x, x[.., : 2])", IMAGE, 4, 1),
)


def test_windows_of_other_functions_are_not_stored_either(tmp_path: Path) -> None:
    entries = [
        f"  entry e{number}(x: f32[{x}]) -> (y: f32[{y}]) = {expression}\n"
        for number, (x, expression, y, _, _) in enumerate(ECONOMICAL)
    ]
    source = tmp_path / "m.wg"
    source.write_text(f"model M {{\n{''.join(entries)}}}\n", encoding="utf-8")
    compiled = compile_file(source)
    for number, (_, expression, _, dispatches, most) in enumerate(ECONOMICAL):
        entry, graph = (
            compiled.schedule.entries[f"e{number}"],
            compiled.program.entries[f"e{number}"],
        )
        largest = max(value.type.size for value in (*graph.inputs, *graph.outputs.values()))
        stored = max([place.count for place, _, _ in entry.temporaries.values()], default=0)
        assert (len(entry.dispatches) <= dispatches, stored <= most * largest) == (True, True), (
            expression, len(entry.dispatches), stored / largest
        )  # fmt: skip
