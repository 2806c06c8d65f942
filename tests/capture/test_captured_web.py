"""`model.captured()` in JavaScript: the numbers of Python, on the twin and on a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from test_captured_values import BLOCKS, IDS
from web_stacks import run_job
from wgcc.compiler import compile_file
from wgcc.errors import Source
from wgcc.ir.program import patterns_of
from wgcc_runtime.captured import Stats

MANY = np.arange(40, dtype=np.int32).reshape(8, 5) % 7
VALUES, STATS = ["blocks.0", "blocks.*.attn.weights", "d.tok.w", "tok.w"], ["*.norm", "d.*.h"]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captured") / "bundle"
    patterns = patterns_of(VALUES, STATS)
    compile_file(Source("net.wg", BLOCKS), capture=patterns).write(folder)
    return folder


def _as_json(shown: Any) -> dict[str, Any]:
    if not isinstance(shown, Stats):
        return {"shape": list(shown.shape), "list": shown.ravel().tolist()}
    names = ("mean", "deviation", "min", "max", "zeros", "nan", "infinite")
    numbers = {name: getattr(shown, name) for name in names}
    return {"shape": list(shown.shape), **numbers, "histogram": shown.histogram.tolist()}


def _arguments(**options: Any) -> dict[str, Any]:
    return {"ids": IDS.ravel().tolist(), "many": MANY.ravel().tolist(), **options}


def test_the_twin_captures_the_bits_of_python(bundle: Path) -> None:
    result = run_job("node", bundle, "captured", _arguments(isTwin=True))
    with wgcc_runtime.load(bundle, device="wasm") as model:
        model.train(ids=IDS)
        train = {name: _as_json(shown) for name, shown in model.captured.items()}
        assert result["train"] == train
        assert result["earlier"] == {"blocks.0": train["blocks.0"]}
        model.predict(ids=MANY)
        names = ("blocks.0", "blocks.0.attn.weights", "tok.w", "blocks.0.squashed")
        assert {n: result["parts"][n] for n in names} == {
            n: _as_json(model.captured[n]) for n in names
        }
    assert "blocks.0.norm" not in result["parts"]
    assert result["fitted"] == result["applied"] == [*train]
    joined, unknown, entry = result["refused"]
    assert "call with exactly 3 rows" in joined and "is not captured by predict" in unknown
    assert "those that capture are" in entry and result["before"].startswith("captured: ")


def test_a_gpu_captures_the_same_numbers(bundle: Path) -> None:
    result = run_job("node", bundle, "captured", _arguments())
    with wgcc_runtime.load(bundle, device="wasm") as model:
        model.train(ids=IDS)
        for name, shown in model.captured.items():
            wanted, got = _as_json(shown), result["train"][name]
            for key in wanted.keys() - {"histogram"}:
                # Between two drivers, exp and its relatives differ in the last bits.
                np.testing.assert_allclose(got[key], wanted[key], rtol=1e-4, atol=1e-6)
            if "histogram" in wanted:
                moved = np.abs(np.subtract(got["histogram"], wanted["histogram"])).sum()
                assert moved <= 4, name


def test_a_worker_captures_too(bundle: Path) -> None:
    result = run_job("chrome", bundle, "captured", _arguments(isTwin=True, worker=True))
    with wgcc_runtime.load(bundle, device="wasm") as model:
        model.train(ids=IDS)
        assert result["train"]["blocks.0"] == _as_json(model.captured["blocks.0"])
