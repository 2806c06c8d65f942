"""The convolutional example reaches what its README promises, and the README is true."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from adapters import ROOT, running_on
from building import TWIN, build
from wgcc.compiler import Compiled, compile_file

FOLDER = ROOT / "examples" / "cnn"
MINUTE = 60


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return compile_file(FOLDER / "model.wg")


def run(target: str, folder: Path, *command: str) -> str:
    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime_py")])
    env = {**os.environ, **running_on(target), "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, *command],
        env=env, cwd=folder, capture_output=True, encoding="utf-8", timeout=8 * MINUTE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_train_py_reads_97_of_100_digits(tmp_path: Path) -> None:
    """A whole training takes minutes on an adapter: there, test_curves.py trains a CNN."""
    build(FOLDER / "model.wg", tmp_path / "bundle")
    # The script exits with 1 if the accuracy is below 0.97.
    output = run(TWIN, tmp_path, str(FOLDER / "train.py"), "bundle")
    losses = [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", output)]
    assert losses[-1] < losses[0] / 3, output


def test_the_commands_of_its_readme(tmp_path: Path) -> None:
    run(TWIN, tmp_path, "-m", "wgcc", "build", str(FOLDER / "model.wg"), "-o", "bundle")
    data = [str(FOLDER.parent / "digits" / f"{name}.safetensors") for name in ("train", "test")]
    train = ["train", "bundle", data[0], "--eval", data[1], "--steps", "100", "--json"]
    summary = json.loads(run(TWIN, tmp_path, "-m", "wgcc", *train, "--out", "w.safetensors"))
    assert summary["eval_acc"] >= 0.95


def test_readme_is_true(compiled: Compiled) -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    entries = compiled.planned.plan["entries"]
    parameters = sum(tensor.type.size for tensor in compiled.program.params.values())
    assert f"{parameters:,} parameters" in readme
    assert f"{len(entries['train']['dispatches'])} dispatches" in readme
    assert f"`eval` is {len(entries['eval']['dispatches'])}" in readme
    assert f"{compiled.planned.plan['memory']['temps'] / 1e6:.1f} MB" in readme


def test_it_fits_default_limits(compiled: Compiled) -> None:
    needed = compiled.planned.plan["requires"]
    assert not needed["features"]
    assert needed["limits"]["maxStorageBuffersPerShaderStage"] <= 8
