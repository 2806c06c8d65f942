"""A plan's description of its WebAssembly twin is valid, or refused by the name of the field."""

from __future__ import annotations

from typing import Any

import pytest

import line_bundle
from changed_plans import REMOVED, change, encode
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import read_plan
from wgcc_runtime.plan_parts import PAGE

TWIN = {
    "file": "twin.wasm",
    "sha256": "0" * 64,
    "memory_flag": 57,
    "buffers": {
        "params": 1024, "state": 1280, "temp": 2304, "input": 2816, "output": 3840, "guard": 4608,
    },
    "bytes": 4672,
    "scratch": 100,
}  # fmt: skip

MALFORMED: list[tuple[str, Any, str]] = [
    ("file", "../twin.wasm", ""),
    ("file", REMOVED, ""),
    ("sha256", "abc", ""),
    ("memory_flag", 7, ""),
    ("memory_flag", "57", ""),
    ("exports", {}, ""),
    ("buffers", [], ""),
    ("buffers.params", REMOVED, "twin.buffers"),
    ("buffers.params", 0, ""),
    ("buffers.params", 1025, ""),
    ("buffers.params", 2**32, ""),
    ("buffers.params", 4608, "twin.buffers.guard"),
    ("buffers.params", 1280, "twin.buffers.params"),
    ("buffers.params", 1088, "twin.buffers.params"),
    ("buffers.guard", 4672, ""),
    ("buffers.other", 8192, ""),
    ("buffers.__proto__", 8192, ""),
    ("bytes", 4608, "twin.buffers.guard"),
    ("bytes", 4673, ""),
    ("bytes", 2**33, ""),
    ("scratch", -1, ""),
    ("scratch", 1.5, ""),
    ("checked", "train", ""),
    ("checked", ["nothing"], ""),
    ("checked", ["predict"], ""),
]


def plan_with_twin() -> dict[str, Any]:
    return change({**line_bundle.make_plan(), "twin": TWIN}, "generator", "wgcc 0.1.0")


def test_sound_twin_is_read() -> None:
    twin = read_plan(encode(plan_with_twin())).twin
    assert twin is not None and twin.buffers["state"] == 1280
    assert twin.memory_bytes(threads=1) == PAGE
    assert twin.memory_bytes(threads=608) == PAGE
    assert twin.memory_bytes(threads=609) == 2 * PAGE


def test_bundle_without_a_twin_is_sound() -> None:
    assert read_plan(encode(line_bundle.make_plan())).twin is None


@pytest.mark.parametrize(("path", "value", "field"), MALFORMED)
def test_malformed_twin_is_refused(path: str, value: Any, field: str) -> None:
    with pytest.raises(WgccError) as caught:
        read_plan(encode(change(plan_with_twin(), f"twin.{path}", value)))
    assert caught.value.code == "plan"
    within = f"twin.{path}".rpartition(".")[0] if value is REMOVED else f"twin.{path}"
    assert caught.value.field == (field or within), caught.value
