"""A bundle holds the twin that the compiler wrote; plan and seal cover it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from adapters import ROOT
from wgcc import compiler
from wgcc.bundle.folder import write_files
from wgcc.bundle.seal import seal_text
from wgcc.bundle.tuned import read_files
from wgcc_runtime import load_plan

MODEL = ROOT / "tests" / "golden" / "regression.wg"


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return compiler.compile_file(MODEL).files()


def test_plan_describes_the_file(files: dict[str, bytes], tmp_path: Path) -> None:
    write_files(files, tmp_path / "bundle")
    twin = load_plan(tmp_path / "bundle").twin
    assert twin is not None
    assert twin.sha256 == hashlib.sha256(files["twin.wasm"]).hexdigest()
    assert files["twin.wasm"][twin.memory_flag] == 1
    assert list(twin.buffers) == [
        item["name"] for item in json.loads(files["plan.json"])["buffers"]
    ]


def test_files_for_other_uses_have_it_too(files: dict[str, bytes], tmp_path: Path) -> None:
    write_files(files, tmp_path / "bundle")
    assert read_files(tmp_path / "bundle")["twin.wasm"] == files["twin.wasm"]
    assert "twin.wasm" in json.loads(files["package.json"])["files"]


def test_seal_covers_it(files: dict[str, bytes]) -> None:
    assert "bundle" in json.loads(seal_text(files))
    broken = {**files, "twin.wasm": files["twin.wasm"] + b"\0"}
    assert seal_text(broken) == "undefined"
    assert seal_text({name: data for name, data in files.items() if name != "twin.wasm"}) == (
        "undefined"
    )


def test_bundle_without_it_replaces_one_with_it(files: dict[str, bytes], tmp_path: Path) -> None:
    write_files(files, tmp_path / "bundle")
    plain = compiler.compile_file(MODEL, twin=False).files()
    assert "twin.wasm" not in plain and "twin" not in json.loads(plain["plan.json"])
    write_files(plain, tmp_path / "bundle")
    assert not (tmp_path / "bundle" / "twin.wasm").exists()
    assert load_plan(tmp_path / "bundle").twin is None
