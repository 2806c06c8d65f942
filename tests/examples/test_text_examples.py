"""The examples that write text reach what they promise, and their READMEs are true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from adapters import ROOT, running_on
from building import TWIN, build
from wgcc.compiler import compile_file

EXAMPLES = ROOT / "examples"
NAMES = ("names", "mamba")
MINUTE = 60


def run_script(target: str, folder: Path, *command: str) -> str:
    """What a script prints; it exits with 1 if the result is not good enough."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime_py")])
    env = {**os.environ, **running_on(target), "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, *command],
        env=env, cwd=folder, capture_output=True, encoding="utf-8", timeout=8 * MINUTE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_names_follow_the_rules_behind_the_data(target: str, tmp_path: Path) -> None:
    build(EXAMPLES / "names" / "model.wg", tmp_path / "bundle")
    output = run_script(target, tmp_path, str(EXAMPLES / "names" / "train.py"), "bundle")
    right, new = map(int, re.findall(r"(\d+)%", output))
    assert right >= 80 and new >= 80, output


@pytest.mark.parametrize("file", ["model.wg", "mamba2.wg"])
def test_mamba_learns_to_write(file: str, tmp_path: Path) -> None:
    """A third of the steps; tests of the op and PyTorch's curves run on both adapters."""
    build(EXAMPLES / "mamba" / file, tmp_path / "bundle")
    script = str(EXAMPLES / "mamba" / "train.py")
    output = run_script(TWIN, tmp_path, script, "bundle", "100")
    losses = [float(loss) for loss in re.findall(r"test loss (\d+\.\d+)", output)]
    assert losses[-1] < 1.9 < losses[0], output
    difference = float(re.findall(r"differ by (\S+)", output)[0])
    assert difference <= 1e-5
    assert (tmp_path / "trained.safetensors").is_file()


@pytest.mark.parametrize("name", NAMES)
def test_readme_is_true(name: str) -> None:
    compiled = compile_file(EXAMPLES / name / "model.wg")
    readme = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    parameters = sum(tensor.type.size for tensor in compiled.program.params.values())
    assert f"{parameters:,}" in readme


@pytest.mark.parametrize("name", NAMES)
def test_curve_is_a_picture(name: str) -> None:
    root = ElementTree.fromstring((EXAMPLES / name / "curve.svg").read_text(encoding="utf-8"))
    assert root.tag.endswith("svg")
    assert [child for child in root if child.tag.endswith("polyline")]
