"""Commands that messages suggest can be pasted into a shell, whatever names they contain."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from adapters import ROOT
from wgcc.cli.data import DataOptions
from wgcc.cli.group import cli
from wgcc_runtime.errors import WgccError

CASES = ROOT / "tests" / "data_cases"


def test_the_hint_for_columns_can_be_pasted() -> None:
    case = json.loads((CASES / "quoted_columns.expected.json").read_text(encoding="utf-8"))
    model = json.loads((CASES / case["model"]).read_text(encoding="utf-8"))
    with pytest.raises(WgccError) as caught:
        DataOptions().read(CASES / case["source"], model)
    hint = caught.value.message.partition("choose its columns with ")[2]
    option, names = shlex.split(hint)
    assert option == "--columns"
    model["entries"]["train"]["inputs"]["x"]["shape"] = [2, 3]
    data = DataOptions(columns=names, target="label").read(CASES / case["source"], model)
    assert data.arrays["x"].tolist() == [[1.5, 2, 3], [2.5, 3, 4]]


def test_a_folder_with_blanks_can_be_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["new", "my model's", "-t", "classes"])
    (line,) = (line for line in result.stderr.splitlines() if line.startswith("  cd "))
    assert shlex.split(line) == ["cd", "my model's"]
