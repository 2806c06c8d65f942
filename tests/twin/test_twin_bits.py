"""A training on the twin gives the same bits in every engine and for any number of threads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, load_file

import wgcc_runtime
from adapters import ROOT
from web_stacks import as_lists, build_web, from_base64, run_job
from wgcc_runtime.selftest import run_selftest

FOLDER = ROOT / "tests" / "curves"
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


def test_the_self_test_knows_the_bits(tmp_path: Path) -> None:
    bundle = build_web(FOLDER / "gpt.wg", tmp_path / "gpt")
    with wgcc_runtime.load(bundle, device="wasm", threads=2) as model:
        bits = [result for result in run_selftest(model) if result.output == "bits"]
    assert len(bits) > 1 and all(result.error == 0 for result in bits)
    for engine in ENGINES:
        assert run_job(engine, bundle, "verified", {"verify": True, "device": "wasm"}) == "sound"
    plan = json.loads((bundle / "plan.json").read_text(encoding="utf-8"))
    plan["selftest"]["entries"]["train"]["twin"] = 64 * "0"
    plan.pop("sha256", None)
    (bundle / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    with pytest.raises(wgcc_runtime.WgccError, match=r"train\.bits"):
        wgcc_runtime.load(bundle, device="wasm", verify=True)


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
