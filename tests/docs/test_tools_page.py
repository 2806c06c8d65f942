"""Every command of wgcc/TOOLS.md runs."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from adapters import ROOT
from building import build
from wgcc.cli import main

PAGE = (ROOT / "wgcc" / "TOOLS.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "sin"


def commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    return [line.partition("  #")[0] for block in blocks for line in block.splitlines()]


def test_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("model.wg", "data.safetensors"):
        shutil.copy(EXAMPLE / name, tmp_path)
    build(EXAMPLE / "model.wg", tmp_path / "bundle")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WGCC_DEVICE", "wasm")
    for command in commands():
        program, *arguments = shlex.split(command)
        code = main(arguments)
        assert (program, code) == ("wgcc", 0), f"{command}\n{capsys.readouterr().err}"
