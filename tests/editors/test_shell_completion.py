"""Shells complete the names of entries, kernels and stages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from adapters import ROOT
from cli_runs import MODEL
from wgcc.cli import main

PATHS = os.pathsep.join((str(ROOT), str(ROOT / "runtime_py")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("completion")
    (made / "m.wg").write_text(MODEL)
    assert main(["build", str(made / "m.wg"), "-o", str(made / "b"), "--no-twin"]) == 0
    return made


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("run b ", ["train", "predict"]),
        ("run b pre", ["predict"]),
        ("show m.wg --entry t", ["train"]),
        ("build m.wg --entries train,p", ["train,predict"]),
        ("show b --stage fu", ["fused"]),
        ("run missing t", []),
    ],
)
def test_names_are_completed(folder: Path, line: str, expected: list[str]) -> None:
    assert completions(folder, line) == expected


def test_kernels_are_completed(folder: Path) -> None:
    names = completions(folder, "show b --kernel ")
    assert names == sorted(path.stem for path in (folder / "b" / "kernels").iterdir())


def completions(folder: Path, line: str) -> list[str]:
    words = f"wgcc {line}"
    asked = {"_WGCC_COMPLETE": "bash_complete", "COMP_WORDS": words}
    asked["COMP_CWORD"] = str(len(words.split(" ")) - 1)
    done = subprocess.run(
        [sys.executable, "-m", "wgcc"],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": PATHS, **asked},
    )
    return [item.split(",", 1)[1] for item in done.stdout.split()]
