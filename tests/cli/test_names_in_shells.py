"""Shells complete the names of entries, kernels and stages, by click's protocol for each shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import shell_complete

import line_bundle
from adapters import ROOT
from cli_runs import MODEL
from wgcc.cli.group import cli

SHELLS = ("bash", "zsh", "fish")
ENTRIES = ["train", "predict", "pick", "forget"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    line_bundle.write_bundle(tmp_path / "line")
    (tmp_path / "model.wg").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Asking:
    """What a shell offers for a line that ends where the cursor is."""

    def __init__(
        self, shell: str, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._shell, self._patch, self._capsys = shell, patch, capsys

    def __call__(self, line: str) -> list[str]:
        words = line.split(" ")
        # Fish sends the word at the cursor, the others its number.
        at = words[-1] if self._shell == "fish" else str(len(words) - 1)
        self._patch.setenv("COMP_WORDS", line)
        self._patch.setenv("COMP_CWORD", at)
        shell_complete(cli, {}, "wgcc", "_WGCC_COMPLETE", f"{self._shell}_complete")
        lines = self._capsys.readouterr().out.splitlines()
        if self._shell == "zsh":  # three lines for each: kind, value, help
            return lines[1::3]
        return [text.partition(",")[2].partition("\t")[0] for text in lines if text]


@pytest.fixture(params=SHELLS)
def ask(
    request: pytest.FixtureRequest,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Asking:
    return Asking(request.param, monkeypatch, capsys)


@pytest.mark.parametrize(
    "command", ["bench line --entry", "trace line --entry", "show line --entry", "run line",
                "train line --entry"]
)  # fmt: skip
def test_entries_of_a_bundle(ask: Asking, command: str) -> None:
    assert ask(f"wgcc {command} ") == ENTRIES
    assert ask(f"wgcc {command} p") == ["predict", "pick"]


def test_entries_of_a_model(ask: Asking) -> None:
    assert ask("wgcc show model.wg --entry ") == ["train", "predict"]
    assert ask("wgcc build model.wg -o x --entries train,p") == ["train,predict"]


def test_kernels_and_stages(ask: Asking) -> None:
    assert ask("wgcc show line --kernel g") == ["gradient"]
    assert ask("wgcc show model.wg --stage gr") == ["grad", "gradients", "groups"]
    assert ask("wgcc bench line --like 7") == ["740", "780M"]
    assert {"serve", "trace"} <= set(ask("wgcc "))


def test_what_cannot_be_read_has_no_names(ask: Asking, folder: Path) -> None:
    (folder / "line" / "plan.json").write_bytes(b"{]")
    assert ask("wgcc bench line --entry ") == []
    assert ask("wgcc show nowhere --kernel ") == []
    (folder / "bad.wg").write_bytes(b"entry \xff(")
    assert ask("wgcc show bad.wg --entry ") == []


def test_bash_itself_completes(folder: Path) -> None:
    """The script that people put into ~/.bashrc, in a real bash."""
    bash = shutil.which("bash")
    assert bash
    program = folder / "wgcc"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m wgcc "$@"\n')
    program.chmod(0o755)
    script = """
eval "$(_WGCC_COMPLETE=bash_source wgcc)"
COMP_WORDS=(wgcc show line --kernel gr) COMP_CWORD=4
_wgcc_completion wgcc
printf '%s\\n' "${COMPREPLY[@]}"
"""
    python = os.pathsep.join([str(ROOT), str(ROOT / "runtime_py")])
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [bash, "--norc", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": python},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["gradient"]), done.stderr
