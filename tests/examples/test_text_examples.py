"""The examples that write text reach what they promise, and their READMEs are true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import wgcc_runtime
from adapters import NAMES as DRIVERS
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


def test_names_follow_the_rules_behind_the_data(tmp_path: Path) -> None:
    build(EXAMPLES / "names" / "model.wg", tmp_path / "bundle")
    output = run_script(TWIN, tmp_path, str(EXAMPLES / "names" / "train.py"), "bundle")
    right, new = map(int, re.findall(r"(\d+)%", output))
    assert right >= 80 and new >= 80, output


def test_names_are_learned_alike_everywhere(tmp_path: Path) -> None:
    """The losses of the first steps, and the names that the model spells then: a kernel that is
    wrong on an adapter shows here sooner than in how many names of a whole training are right.
    """
    bundle = build(EXAMPLES / "names" / "model.wg", tmp_path / "bundle")
    losses, names = beginning(bundle, TWIN)
    assert losses[-1] < losses[0] - 0.3
    for name in DRIVERS.values():
        found, spelled = beginning(bundle, name)
        np.testing.assert_allclose(found, losses, rtol=1e-4, err_msg=name)
        # One letter whose odds are at the edge of a draw may differ, and all that follow it.
        assert (spelled == names).all(axis=1).sum() >= len(names) - 1, name


def beginning(bundle: Path, device: str) -> tuple[list[float], np.ndarray[Any, Any]]:
    """Losses of training and test set, and a row of letters for each name."""
    train, test = (load_file(EXAMPLES / "names" / f"{n}.safetensors") for n in ("train", "test"))
    losses: list[float] = []

    def keep(report: wgcc_runtime.Report) -> None:
        losses.extend((report.loss, report.eval["loss"]))

    with wgcc_runtime.load(bundle, device=device) as model:
        model.fit(train, steps=40, every=5, eval=test, callbacks=[keep])
        model.begin()
        return losses, np.stack([model.spell(temperature=0.8)["letters"] for _ in range(14)], 1)


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
