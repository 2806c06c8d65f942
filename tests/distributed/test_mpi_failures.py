"""An error of one process ends all of them, wherever it happens, and nothing is lost."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

import wgcc_runtime
from adapters import ROOT
from distributed_models import NOISY, make
from mpi_failures import ENDING, RANK_0, RANK_1
from test_mpi import mpiexec

PROGRAM = str(ROOT / "tests" / "support" / "mpi_failures.py")
INJECTED = "worker: worker {}{}: ValueError: injected"
ADAPTER = " (WebAssembly (1 thread))"
# The rank that failed, the rest of its name, and the steps that all have made.
EXPECTED = {
    "worker": (1, "", 0),
    "data digest": (1, "", 0),
    "bundle digest": (1, "", 0),
    "take over": (1, "", 0),
    "gradients": (1, ADAPTER, 2),
    "apply": (1, ADAPTER, 2),
    "state": (1, ADAPTER, 2),
    "even out": (1, "", 4),
    "local steps": (1, ADAPTER, 2),
    "finish of a round": (1, "", 2),
    "start": (0, "", 0),
    "callback": (0, "", 2),
    "evaluation": (0, "", 2),
    "save": (0, "", 4),
}
MESSAGES = {
    "options": "range: worker 1: fit: `steps` is a whole number above 0, not 0",
    "other options": "mismatch: `steps` is 5 for worker 1 on ",
    "self-test": "selftest: worker 1: the self-test failed on WebAssembly (1 thread): train.loss",
    "checkpoint": "weights: cannot write '",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("failures")
    make(found, "noisy", NOISY, 4)
    return found


def saved_steps(folder: Path, name: str) -> int:
    with wgcc_runtime.load(folder / "noisy4", device="wasm", threads=1) as model:
        model.load(folder / f"{name}.safetensors")
        return model.steps_done


def test_an_error_of_one_process_is_raised_by_all(folder: Path) -> None:
    code, out, err = mpiexec(2, sys.executable, PROGRAM, str(folder))
    assert code == 0, err
    found = json.loads(out)
    assert found["agreed"].keys() == {*RANK_1, *RANK_0} == {*EXPECTED, *MESSAGES}
    for name, (first, second) in found["agreed"].items():
        # What failed on one is undone on all, and all have the values of the same step.
        assert first == second, name
        if name in MESSAGES:
            assert first["error"].startswith(MESSAGES[name]), first
            continue
        rank, more, steps = EXPECTED[name]
        assert first["error"].startswith(INJECTED.format(rank, more)), first
        assert first["steps"] == steps, name
        # Steps are saved every second time: that of step 4 failed.
        if steps and name not in ("callback", "evaluation"):
            assert saved_steps(folder, name) == 2, name
    assert found["folder"] == saved_steps(folder, "lone") == 6
    first, second = found["data"]
    assert first == second and first.startswith("mismatch: worker 1 on ")
    assert "has other data than worker 0" in first and "`x` is f4 [256, 6] with SHA-256" in first


@pytest.mark.parametrize("case", ENDING)
def test_an_error_that_others_cannot_know_ends_them(case: str, folder: Path) -> None:
    started = time.monotonic()
    code, _, err = mpiexec(2, sys.executable, PROGRAM, str(folder), case)
    assert time.monotonic() - started < 60
    is_key = case == "interrupt"
    assert code == (130 if is_key else 1) and "Traceback" not in err, err
    expected = err.count("error[worker]: worker 1: ValueError: injected")
    assert expected == err.count("error[") == (0 if is_key else 1)
    assert saved_steps(folder, case) == 2
