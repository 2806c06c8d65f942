"""A training on the twin gives the same bits in every engine and for any number of threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, load_file

import wgcc_runtime
from web_stacks import as_lists, build_web, from_base64, run_job

FOLDER = Path(__file__).parent / "curves"
RUNS = [("gpt", "train"), ("mamba", "train"), ("cnn", "train_adamw"), ("tokens", "train")]
ENGINES = ("node", "chrome", "firefox")
STEPS, THREADS = 4, (1, 2, 3)

Arrays = dict[str, np.ndarray[Any, Any]]


@pytest.mark.parametrize(("name", "entry"), RUNS)
def test_same_bits_everywhere(name: str, entry: str, tmp_path: Path) -> None:
    bundle = build_web(FOLDER / f"{name}.wg", tmp_path / name)
    batches = recorded_batches(name)
    wanted = in_python(bundle, batches, entry, threads=1)
    assert any(array.any() for array in wanted.values())
    for threads in THREADS[1:]:
        assert_equal(in_python(bundle, batches, entry, threads), wanted, f"{threads} threads")
    given = {"batches": [as_lists(b) for b in batches], "entry": entry, "threads": THREADS}
    for engine in ENGINES:
        for threads, saved in zip(
            THREADS, run_job(engine, bundle, "twin_bits", given), strict=True
        ):
            assert_equal(load(from_base64(saved)), wanted, f"{engine}, {threads} threads")


def recorded_batches(name: str) -> list[Arrays]:
    record = load_file(FOLDER / f"{name}.safetensors")
    rows = {key.removeprefix("batch/"): v for key, v in record.items() if key.startswith("batch/")}
    return [{key: value[step % len(value)] for key, value in rows.items()} for step in range(STEPS)]


def in_python(bundle: Path, batches: list[Arrays], entry: str, threads: int) -> Arrays:
    with wgcc_runtime.load(bundle, device="wasm", threads=threads) as model:
        for batch in batches:
            model.call(entry, **batch)
        path = bundle.parent / f"{threads}.safetensors"
        model.save(path)
    return load_file(path)


def assert_equal(found: Arrays, wanted: Arrays, what: str) -> None:
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name].view(np.uint32), array.view(np.uint32), what)
