"""Random functions in WGSL: numpy, the twin and a GPU agree, and Tint accepts their kernels."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import wgcc
from random_wgsl import Writer
from tint_compiler import compile_all
from wgcc.compiler import compile_file
from wgcc.errors import Source
from wgcc.evaluate import evaluate

N = 65
FUNCTIONS = 12


def program(seed: int) -> tuple[str, dict[str, str]]:
    """A model with an entry whose outputs are those of random functions."""
    text, functions = Writer(random.Random(seed)).file(FUNCTIONS)
    declared, results, calls = [], [], []
    for name, kinds, result in functions:
        params = ", ".join(f"p{i}: {kind}[..]" for i, kind in enumerate(kinds))
        declared.append(f'fn {name}({params}) -> {result}[..] = wgsl("random.wgsl")')
        operands = ", ".join(f"{kind}_{i}" for i, kind in enumerate(kinds))
        results.append(f"{name}_y: {result}[{N}]")
        calls.append(f"{name}({operands})")
    inputs = ", ".join(f"{kind}_{i}: {kind}[{N}]" for kind in arrays(0) for i in range(4))
    entry = (
        f"  entry run({inputs}) -> ({', '.join(results)}) {{\n    return {', '.join(calls)}\n  }}"
    )
    return "\n".join([*declared, f"model M {{\n{entry}\n}}\n"]), {"random.wgsl": text}


def arrays(seed: int) -> dict[str, list[np.ndarray]]:
    chance = np.random.default_rng(seed)
    words = [chance.integers(-(2**31), 2**31, N, np.int64) for _ in range(4)]
    small = [chance.integers(-20, 20, N) for _ in range(4)]
    mixed = [np.where(chance.random(N) < 0.5, a, b) for a, b in zip(words, small, strict=True)]
    return {
        # Quarters of whole numbers, so that rounding jumps at the same place everywhere.
        "f32": [
            (np.round(chance.normal(0, 12, N)) / 4 + 1 / 64).astype(np.float32) for _ in range(4)
        ],
        "i32": [a.astype(np.int32) for a in mixed],
        "u32": [a.astype(np.int64).astype(np.uint32) for a in mixed],
        "bool": [chance.random(N) < 0.5 for _ in range(4)],
    }


@pytest.mark.parametrize("seed", range(4))
def test_random_functions_agree_everywhere(seed: int, tmp_path: Path) -> None:
    text, files = program(seed)
    given = {f"{kind}_{i}": a for kind, list_ in arrays(seed).items() for i, a in enumerate(list_)}
    compiled = compile_file(Source("model.wg", text, files=files))
    taken = {value.name for value in compiled.program.entries["run"].inputs}
    inputs = {name: array for name, array in given.items() if name in taken}
    expected = evaluate(compiled.program.entries["run"], inputs, "f32").outputs
    for device in ("wasm", "llvmpipe"):
        results = wgcc.compile(text, files=files, device=device).run(**inputs)
        for name, array in expected.items():
            _compare(array, results[name], f"{device} {name} of seed {seed}")
    compiled.write(tmp_path / "bundle")
    kernels = sorted((tmp_path / "bundle" / "kernels").rglob("*.wgsl"))
    assert all(not messages for messages in compile_all(kernels).values())


def _compare(expected: np.ndarray, got: np.ndarray, what: str) -> None:
    if expected.dtype.kind != "f":
        assert np.array_equal(expected, got), what
        return
    # Sums of a few hundred terms, each with an error of some units in the last place.
    scale = 1 + np.abs(expected)
    assert np.all(np.abs(expected - got) <= 1e-4 * scale), what
