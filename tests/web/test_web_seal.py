"""The seal of a bundle: a page loads only the core of the runtime, until it needs more."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from adapters import ROOT
from web_stacks import add_web_files, build_web, run_job, run_node
from wgcc_runtime.strict_json import as_javascript

PARTS = ("check.js", "files.js", "draw.js", "inspect.js", "calls.js")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return build_web(ROOT / "tests" / "golden" / "regression.wg", tmp_path / "bundle")


def without(bundle: Path, *parts: str) -> Path:
    for name in parts:
        (bundle / "wgcc" / name).unlink()
    return bundle


def edit(bundle: Path, old: str, new: str) -> Path:
    index = bundle / "index.js"
    text = index.read_text(encoding="utf-8")
    assert old in text
    index.write_text(text.replace(old, new), encoding="utf-8")
    return bundle


# Node fetches no files, so files.js reads the weights there. Chromium has subgroups, whose kernels
# inspect.js writes.
@pytest.mark.parametrize(
    "stack, parts",
    [
        ("deno", PARTS),
        ("chrome", tuple(part for part in PARTS if part != "inspect.js")),
        ("node", ("check.js",)),
    ],
)
def test_a_sealed_bundle_trains_and_predicts_without_parts(
    bundle: Path, stack: str, parts: tuple[str, ...]
) -> None:
    found = run_job(stack, without(bundle, *parts), "alone")
    assert found["losses"][1] < found["losses"][0]
    assert len(found["predicted"]) == 2


def test_a_valid_change_of_the_plan_is_noticed(bundle: Path) -> None:
    edit(bundle, '"generator":"wgcc', '"generator":"a hand and wgcc')
    found = run_job("deno", bundle, "alone")
    assert found["code"] == "plan"
    assert "changed after the bundle was built" in found["message"]


def test_a_plan_without_a_digest_is_checked_and_runs(bundle: Path) -> None:
    plan = json.loads((bundle / "plan.json").read_text(encoding="utf-8"))
    edit(bundle, f',"sha256":"{plan["sha256"]}"', "")
    assert len(run_job("deno", bundle, "alone")["losses"]) == 2
    found = run_job("deno", without(bundle, "check.js"), "alone")
    assert found["code"] == "bundle"
    assert "a part is missing" in found["message"]


def test_a_wrong_change_is_reported_before_the_first_gpu_call(bundle: Path) -> None:
    edit(bundle, '"version":1,', '"version":2,')
    assert run_job("deno", bundle, "alone")["code"] == "version"


def test_replaced_weights_are_checked(bundle: Path) -> None:
    before = run_job("deno", bundle, "alone")
    weights = bundle / "weights.safetensors"
    data = bytearray(weights.read_bytes())
    data[-4:] = np.float32(2.5).tobytes()
    weights.write_bytes(data)
    assert run_job("deno", bundle, "alone")["losses"] != before["losses"]
    weights.write_bytes(data[:-4])
    assert run_job("deno", bundle, "alone")["code"] == "weights"


def test_weights_of_another_form_are_checked(bundle: Path) -> None:
    """Sealed weights are read as words, which f16 values are not."""
    weights = bundle / "weights.safetensors"
    halves = {name: array.astype(np.float16) for name, array in load_file(weights).items()}
    save_file({name: array.astype(np.float32) for name, array in halves.items()}, weights)
    wanted = run_job("deno", add_web_files(bundle), "alone")
    save_file(halves, weights)
    assert run_job("deno", add_web_files(bundle), "alone") == wanted
    weights.write_bytes(b"no safetensors")
    assert run_job("deno", add_web_files(bundle), "alone")["code"] == "weights"


def test_numbers_are_written_as_javascript_writes_them() -> None:
    draw = np.random.default_rng(3)
    numbers = [
        *(
            0.0,
            -0.0,
            1.0,
            -1.5,
            0.1,
            1e-5,
            1e-6,
            1e-7,
            1.25e-7,
            123456789.0,
            1e15,
            1e16,
            1e20,
            1e21,
        ),
        *(1.5e21, 5e-324, 1.7976931348623157e308, 2.0**53, 3, -7),
        *(draw.normal(size=300) * 10.0 ** draw.integers(-25, 25, 300)).tolist(),
        *draw.normal(size=50).astype(np.float32).astype(float).tolist(),
    ]
    value = {"numbers": numbers, "text": 'ä "quoted" \n\\ \u2028 \x7f', "none": None, "yes": True}
    (found,) = run_node("mirror.mjs", data={"texts": [json.dumps(value)]})["texts"]
    assert as_javascript(value) == found


def test_f16_is_rounded_as_in_numpy() -> None:
    draw = np.random.default_rng(4)
    numbers = [
        *(0.0, -0.0, 1.0, 65504.0, 65519.99, -65519.99, 2.0**-24, 2.0**-25, -(2.0**-26), 6.1e-5),
        *(draw.normal(size=500) * 2.0 ** draw.integers(-26, 15, 500)).tolist(),
        *(1 + draw.integers(0, 4096, 100) / 4096).tolist(),
    ]
    words = bytes.fromhex(run_node("mirror.mjs", data={"halves": numbers})["halves"])
    expected = np.asarray(numbers).astype(np.float16).astype(np.float32)
    assert words == expected.tobytes()
