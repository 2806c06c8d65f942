"""Functions agree with PyTorch: results and gradients, in numpy, on both adapters and the twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from pytorch_cases import CASES, POINTS, Case, inputs, recorded
from tint_compiler import compile_all
from wgcc.compiler import Compiled, compile_file
from wgcc.evaluate import evaluate

EXACT, IN_F32, IN_F16 = 1e-6, 1e-5, 1e-2
# Also with f16 inputs: at these numbers intermediate results could overflow or vanish.
HALVES = [name for name, case in CASES.items() if case.at == POINTS] + ["triplet_equal"]
RECORDED = recorded()


def entry(name: str, case: Case, dtype: str = "f32") -> str:
    types = {
        key: f"{dtype}[{', '.join(map(str, shape))}]" for key, shape in inputs_of(case).items()
    }
    y = ", ".join(map(str, np.shape(RECORDED[name]["y"])))
    takes = ", ".join(f"{key}: {type_}" for key, type_ in types.items())
    gives = ", ".join(f"d{key}: {type_}" for key, type_ in types.items())
    return f"""
  entry {dtype}_{name}({takes}) -> (y: {f"{dtype}[{y}]" if y else dtype}, {gives}) {{
    y = {case.wg}
    return y, {", ".join(f"grad(sum(y * y + y), {key})" for key in types)}
  }}"""


def inputs_of(case: Case) -> dict[str, tuple[int, ...]]:
    return dict(zip(case.names, case.shapes, strict=True))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    source = tmp_path_factory.mktemp("functions") / "functions.wg"
    entries = "".join(entry(name, case) for name, case in CASES.items())
    entries += "".join(entry(name, CASES[name], "f16") for name in HALVES)
    entries += "\n  entry unit(x: f16[2, 2]) -> (y: f16[2, 2]) = normalize(x)"
    source.write_text(f"model M {{{entries}\n}}\n", encoding="utf-8")
    return compile_file(source)


@pytest.fixture(scope="module")
def bundle(compiled: Compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("functions") / "bundle"
    compiled.write(folder)
    return folder


def compare(name: str, found: dict[str, Any], tolerance: float) -> None:
    for key, wanted in RECORDED[name].items():
        error = np.abs(np.asarray(found[key]) - wanted) / (1 + np.abs(wanted))
        assert np.max(error) <= tolerance, f"{name} {key}: {np.max(error):.2e}"


def test_the_reference_agrees(compiled: Compiled) -> None:
    for name in CASES:
        compare(
            name, evaluate(compiled.program.entries[f"f32_{name}"], inputs(name)).outputs, EXACT
        )


def test_kernels_agree(bundle: Path, machine: Any) -> None:
    model = wgcc_runtime.load(bundle, device=machine)
    for name in CASES:
        given = {key: array.astype(np.float32) for key, array in inputs(name).items()}
        compare(name, model.call(f"f32_{name}", **given), IN_F32)
    for name in HALVES:
        given = {key: array.astype(np.float16) for key, array in inputs(name).items()}
        compare(name, model.call(f"f16_{name}", **given), IN_F16)
    found = model.call("unit", x=np.array([[0, 0], [300, 400]], np.float16))["y"]
    np.testing.assert_allclose(found, [[0, 0], [0.6, 0.8]], rtol=IN_F16)
    model.close()


def test_tint_accepts_every_kernel(bundle: Path) -> None:
    messages = compile_all(bundle.glob("kernels/*.wgsl"))
    assert messages and not any(messages.values()), messages
