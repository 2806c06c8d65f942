"""Folders for tests that build into them: an old bundle together with files of the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_runs import run
from trials.builds import MODELS, THEIRS
from wgcc.bundle.folder import write_files
from wgcc.compiler import compile_file

Capsys = pytest.CaptureFixture[str]
Files = dict[str, bytes]


def compile_both(folder: Path) -> dict[str, Files]:
    """The files of two bundles that share as little as possible."""
    for name, text in MODELS.items():
        (folder / name).write_text(text)
    return {name: compile_file(folder / name).files() for name in MODELS}


def write_old(files: Files, folder: Path) -> Path:
    """A bundle with files of the user in its folder."""
    write_files(files, folder)
    for name, data in THEIRS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def content(folder: Path) -> Files:
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def build(capsys: Capsys, source: Path, folder: Path, *options: str) -> str:
    """What `wgcc build` prints."""
    code, _, err = run(capsys, "build", str(source), "-o", str(folder), *options)
    assert code == 0, err
    return err
