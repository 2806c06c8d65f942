"""Each example trains to its promised result, from Python everywhere and by the commands."""

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
from wgcc.compiler import compile_file

EXAMPLES = ROOT / "examples"
MINUTE = 60
DISPATCHES = {"sin": 14, "digits": 16}


def run(target: str, *command: str, seconds: float = 4 * MINUTE) -> str:
    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime_py")])
    env = {**os.environ, **running_on(target), "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}
    arguments = [sys.executable, *command]
    done = subprocess.run(
        arguments, env=env, capture_output=True, encoding="utf-8", timeout=seconds, check=False
    )
    assert done.returncode == 0, (
        f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    )
    return done.stdout


# Each adapter and the twin train an example to its end; the first steps are compared on all of them
# by `compare.py`.
@pytest.mark.parametrize(
    ("name", "target"),
    [("sin", "lavapipe"), ("digits", "swiftshader"), ("sin", TWIN), ("digits", TWIN)],
)
def test_train_py_reaches_its_promise(name: str, target: str, tmp_path: Path) -> None:
    # The script itself exits with 1 if the result is not good enough.
    bundle = build(EXAMPLES / name / "model.wg", tmp_path / "bundle")
    output = run(target, str(EXAMPLES / name / "train.py"), str(bundle))
    losses = [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", output)]
    assert losses[-1] < losses[0] / 3, output


def test_sin_gives_the_same_losses_as_webassembly_and_on_adapters(
    adapter: str, tmp_path: Path
) -> None:
    bundle = build(EXAMPLES / "sin" / "model.wg", tmp_path / "bundle")
    output = run(adapter, str(EXAMPLES / "sin" / "compare.py"), str(bundle))
    assert len(re.findall(r"^ *\d+0  0\.\d{7} +0\.\d{7}$", output, re.MULTILINE)) == 10, output
    assert float(re.findall(r"largest difference: (\S+)", output)[0]) < 1e-4


def test_digits_by_the_commands_of_its_readme(tmp_path: Path) -> None:
    folder, bundle = EXAMPLES / "digits", str(tmp_path / "bundle")
    run("lavapipe", "-m", "wgcc", "build", str(folder / "model.wg"), "-o", bundle)
    data = [str(folder / f"{name}.safetensors") for name in ("train", "test")]
    train = ["-m", "wgcc", "train", bundle, data[0], "--eval", data[1], "--steps", "500", "--json"]
    out = str(tmp_path / "trained.safetensors")
    summary = json.loads(run("lavapipe", *train, "--out", out, seconds=MINUTE))
    assert summary["eval_acc"] >= 0.95


def test_sin_by_the_commands_of_its_readme(tmp_path: Path) -> None:
    folder, bundle = EXAMPLES / "sin", str(tmp_path / "bundle")
    run("lavapipe", "-m", "wgcc", "build", str(folder / "model.wg"), "-o", bundle)
    data, out = str(folder / "data.safetensors"), str(tmp_path / "trained.safetensors")
    train = ["-m", "wgcc", "train", bundle, data, "--steps", "300", "--json", "--out", out]
    assert json.loads(run("lavapipe", *train))["loss"] < 0.01


@pytest.mark.parametrize("name", DISPATCHES)
def test_a_training_step_is_few_dispatches(name: str) -> None:
    plan = compile_file(EXAMPLES / name / "model.wg").planned.plan
    assert len(plan["entries"]["train"]["dispatches"]) <= DISPATCHES[name]
