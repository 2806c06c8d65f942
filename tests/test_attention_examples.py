"""gqa_decode learns, decodes by cache as without it, and its README tells the truth."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from adapters import ROOT, environment
from building import build
from wgcc.compiler import compile_file

EXAMPLES = ROOT / "examples"
NAMES = ("gqa_decode",)
MINUTE = 60
CLOSE = 1e-5


def run_script(folder: Path, *command: str) -> str:
    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime_py")])
    env = {**os.environ, **environment("lavapipe"), "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, *command],
        env=env, cwd=folder, capture_output=True, encoding="utf-8", timeout=9 * MINUTE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_gqa_decode_repeats_what_it_was_shown(tmp_path: Path) -> None:
    folder = EXAMPLES / "gqa_decode"
    build(folder / "model.wg", tmp_path / "bundle")
    output = run_script(tmp_path, str(folder / "train.py"), "bundle")
    assert differences(output) <= CLOSE
    assert "100.0% of 128 symbols" in output


def differences(output: str) -> float:
    (found,) = re.findall(r"scores differ by (\S+)", output)
    return float(found)


@pytest.mark.parametrize("name", NAMES)
def test_readme_tells_the_truth(name: str) -> None:
    compiled = compile_file(EXAMPLES / name / "model.wg")
    readme = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    entries = compiled.planned.plan["entries"]
    parameters = sum(tensor.type.size for tensor in compiled.program.params.values())
    assert f"training step is {len(entries['train']['dispatches'])} dispatches" in readme
    assert re.search(rf"one \w+ (token|letter) {len(entries['decode']['dispatches'])}\b", readme)
    assert f"{parameters:,}" in readme


@pytest.mark.parametrize("name", NAMES)
def test_curve_is_a_picture(name: str) -> None:
    root = ElementTree.fromstring((EXAMPLES / name / "curve.svg").read_text(encoding="utf-8"))
    assert [child for child in root if child.tag.endswith("polyline")]
