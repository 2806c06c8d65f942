"""A bundle holds the twin that the compiler wrote; plan and seal cover it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import wasmtime

from adapters import ROOT
from cli_runs import run
from wgcc import compiler
from wgcc.backends.wasm import twin
from wgcc.bundle.edited import read_files
from wgcc.bundle.folder import write_files
from wgcc.bundle.javascript import seal_text
from wgcc_runtime import load_plan

MODEL = ROOT / "tests" / "golden" / "regression.wg"


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return compiler.compile_file(MODEL).files()


def test_plan_describes_the_file(files: dict[str, bytes], tmp_path: Path) -> None:
    write_files(files, tmp_path / "bundle")
    found = load_plan(tmp_path / "bundle").twin
    assert found is not None
    assert found.sha256 == hashlib.sha256(files["twin.wasm"]).hexdigest()
    assert files["twin.wasm"][found.memory_flag] == 1
    assert list(found.buffers) == [
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


def test_build_can_leave_it_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "bundle"
    assert run(capsys, "build", str(MODEL), "-o", str(folder), "--no-twin")[0] == 0
    assert not (folder / "twin.wasm").exists() and load_plan(folder).twin is None


def test_a_model_larger_than_webassembly_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(twin, "MOST_PAGES", 0)
    code, _, said = run(capsys, "build", str(MODEL), "-o", str(tmp_path / "bundle"))
    assert code == 0 and "no twin.wasm: WebAssembly has 4 GiB of memory" in said
    assert not (tmp_path / "bundle" / "twin.wasm").exists()


def test_kernels_are_shown_as_webassembly_text(capsys: pytest.CaptureFixture[str]) -> None:
    name = compiler.compile_file(MODEL).planned.kernels[0].name
    code, text, _ = run(capsys, "show", str(MODEL), "--kernel", name, "--wat")
    assert code == 0 and text.startswith("(func $") and "v128.load" in text
    assert wasmtime.wat2wasm(f'(module (import "env" "memory" (memory 1)) {text})')


def test_wat_needs_a_kernel_of_a_model(
    files: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(files, tmp_path / "bundle")
    code, _, said = run(capsys, "show", str(tmp_path / "bundle"), "--kernel", "tanh", "--wat")
    assert code == 1 and "give wgcc show the model file" in said
    assert run(capsys, "show", str(MODEL), "--wat")[0] == 2
