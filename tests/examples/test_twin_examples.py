"""Every entry of every example gives the same bits on any number of threads."""

from __future__ import annotations

from pathlib import Path

import pytest

import wgcc_runtime
from adapters import ROOT
from building import build
from example_runs import EXAMPLES, draw_batch
from line_training import everything

STEPS = 2


@pytest.mark.parametrize("name", EXAMPLES)
def test_threads_give_the_same_bits(name: str, tmp_path: Path) -> None:
    bundle = build(ROOT / "examples" / name / "model.wg", tmp_path / "bundle")
    single, several = run(bundle, 1), run(bundle, 3)
    assert single.keys() == several.keys()
    for key, data in single.items():
        assert data == several[key], key


def run(bundle: Path, threads: int) -> dict[str, bytes]:
    """All outputs, and all parameters and state in the end."""
    found = {}
    with wgcc_runtime.load(bundle, device="wasm", threads=threads) as model:
        for step in range(STEPS):
            for entry in model.plan.entries.values():
                outputs = model.call(entry.name, **draw_batch(entry, step))
                for name, array in outputs.items():
                    found[f"{entry.name}.{name}, step {step}"] = array.tobytes()
        return {**found, **{name: array.tobytes() for name, array in everything(model).items()}}
