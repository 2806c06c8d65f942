"""Malformed bundles are refused before any GPU call, with the same code by both runtimes."""

from __future__ import annotations

import shutil
import struct
import sys
import zipfile
from pathlib import Path

import pytest

import line_bundle
from hostile_bundles import CASES, Case, as_web, write_case
from web_stacks import run_node
from wgcc_runtime.errors import WgccError
from wgcc_runtime.loader import load


def test_there_are_enough_classes() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 100


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_python_refuses(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # An attempt to use a GPU would give the code `no-wgpu`.
    monkeypatch.setitem(sys.modules, "wgpu", None)
    with pytest.raises(WgccError) as caught:
        load(write_case(case, tmp_path / "bundle"))
    assert caught.value.code == case.code, caught.value
    assert len(str(caught.value)) < 1000


def test_javascript_refuses_alike(tmp_path: Path) -> None:
    cases = [case for case in CASES if case.web]
    bundles = [write_case(case, tmp_path / str(i)) for i, case in enumerate(cases)]
    sound = line_bundle.write_bundle(tmp_path / "sound")
    answers = run_node("hostile.mjs", data=[as_web(bundle) for bundle in [sound, *bundles]])
    assert answers[0] == "the GPU was asked for"
    found = dict(zip([case.name for case in cases], answers[1:], strict=True))
    assert found == {case.name: case.code for case in cases}


# ---- archives, which only Python reads


def zipped(folder: Path, path: Path) -> Path:
    return Path(shutil.make_archive(str(path), "zip", folder))


def refuse(path: Path, text: str) -> None:
    with pytest.raises(WgccError, match=text) as caught:
        load(path)
    assert caught.value.code == "bundle"


def test_archive_with_a_bomb(tmp_path: Path) -> None:
    bundle = line_bundle.write_bundle(tmp_path / "bundle")
    for name in ("plan.json", "kernels/predict.wgsl", "weights.safetensors"):
        path = tmp_path / "bomb.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in bundle.rglob("*"):
                if file.is_file() and file.relative_to(bundle).as_posix() != name:
                    archive.write(file, file.relative_to(bundle))
            archive.writestr(name, b"\0" * (64 << 20))
        assert path.stat().st_size < 200_000
        refuse(path, "at most")


def test_archive_with_wrong_sizes(tmp_path: Path) -> None:
    """The directory says 100 bytes, but the member is larger: no more than 100 are unpacked."""
    path = tmp_path / "wrong_sizes.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("plan.json", b" " * 1_000_000)
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02") + 24
    data[at : at + 4] = struct.pack("<I", 100)
    path.write_bytes(data)
    refuse(path, "plan.json")


def test_archive_with_a_link(tmp_path: Path) -> None:
    path = tmp_path / "link.zip"
    with zipfile.ZipFile(path, "w") as archive:
        link = zipfile.ZipInfo("plan.json")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    refuse(path, "symbolic link")


def test_archive_with_names_that_leave_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "climb.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../plan.json", "{}")
        archive.writestr("/plan.json", "{}")
    with pytest.raises(WgccError) as caught:
        load(path)
    assert caught.value.code in ("bundle", "plan")


@pytest.mark.parametrize("cut", [10, 100, 1000])
def test_archive_cut_off(cut: int, tmp_path: Path) -> None:
    path = zipped(line_bundle.write_bundle(tmp_path / "bundle"), tmp_path / "cut")
    path.write_bytes(path.read_bytes()[:-cut])
    refuse(path, ".")


def test_archive_with_damaged_members(tmp_path: Path) -> None:
    whole = zipped(line_bundle.write_bundle(tmp_path / "bundle"), tmp_path / "whole").read_bytes()
    for at in range(30, len(whole), 97):
        data = bytearray(whole)
        data[at] ^= 0xFF
        path = tmp_path / "damaged.zip"
        path.write_bytes(data)
        # Damage may affect bytes that are never read (a date); then the bundle is valid.
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "wgpu", None)
            with pytest.raises(WgccError) as caught:
                load(path)
        assert caught.value.code in ("bundle", "plan", "weights", "no-wgpu")
