"""Inputs as nested arrays, pictures and GPU buffers, and outputs that stay on the GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from web_stacks import JOBS, build_web, run_job

X = [1, 2, 3, 4, 6, 5, 9, 8, 7, 0, 1, 2]
HALF_RED_HALF_BLUE = [0.5, 0, 0.5]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_web(JOBS / "picture.wg", tmp_path_factory.mktemp("inputs") / "bundle")


@pytest.fixture(scope="module", params=["twin", "node", "chrome"])
def seen(request: pytest.FixtureRequest, bundle: Path) -> Any:
    stack, device = {
        "twin": ("node", "wasm"), "node": ("node", None), "chrome": ("chrome", "webgpu")
    }[request.param]  # fmt: skip
    return run_job(stack, bundle, "given", {"device": device} if device else {})


def test_nested_arrays(seen: Any) -> None:
    assert seen["nested"] == {
        "y": [2 * x for x in X],
        "best": [2, 1, 0, 2],
        "more": [[5, 3], [2, 1, 0, 2, 2]],
        "typed": True,
        "picked": [0, 1, 2, 9, 8, 7, 4, 6, 5, 1, 2, 3],
    }


def test_pictures(seen: Any) -> None:
    """Red, green, blue and, on white, transparent: half of each colour."""
    assert seen["pictures"] == {"one": [[1, 3], [0.5] * 3], "two": [2, 3], "grey": 64 * 127.5}
    for name, means in seen.get("seen", {}).items():
        assert means == pytest.approx(HALF_RED_HALF_BLUE, abs=0.01), name
    assert len(seen.get("seen", range(6))) == 6


def test_refusals(seen: Any) -> None:
    refused = seen["refused"]
    assert {name: found[:2] for name, found in refused.items()} == {
        "ragged": ["shape", "predict.x"],
        "deeper": ["shape", "predict.x"],
        "wide": ["shape", "predict.x"],
        "object": ["dtype", "predict.x"],
        "picture": ["shape", "predict.x"],
        "number": ["not-finite", "predict.x"],
        "index": ["shape", "pick.id"],
        "range": ["range", "pick.id"],
        "option": ["name", "outputs"],
        "output": ["name", "output"],
    }
    assert "different lengths: see [1], not [3]" in refused["ragged"][2]
    assert "did you mean `output`?" in refused["option"][2]


def test_buffers_of_the_gpu(seen: Any) -> None:
    """Nothing of them is copied through the page's memory; the twin says that it has none."""
    if "twin" in seen:
        for code, field, text in seen["twin"]:
            assert (code, field) == ("no-webgpu", "predict")
            assert "runs as WebAssembly" in text
        return
    found = seen["gpu"]
    assert found["facts"] == [[4, 3], "f32", 48, "i32"]
    assert found["read"] == [8 * x for x in X]
    assert found["mixed"] == [0, 2, 4] * 4
    assert {name: text[2] for name, text in found["wrong"].items()} == {
        "size": "shape: `GPUBuffer` has 16 bytes; [4,3] takes 48",
        "usage": "gpu: `GPUBuffer` needs the usage COPY_SRC",
        "other": "range: `pick.id` holds 9 at 3, not within 0 to 3",
        "rows": "shape: `predict.x` has shape [8,3], not [4,3]",
    }
