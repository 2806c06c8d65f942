"""Several processes of MPI train one model: the same as one, to the bit again, and all or none."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import wgcc_runtime
from adapters import ROOT, running_on
from distributed_models import (
    MODELS,
    NOISY,
    STEPS,
    assert_close,
    data_for,
    make,
    mixed_by_hand,
    same_bits,
)
from wgcc_runtime.batches import ArraySource, Length
from wgcc_runtime.fit import _source

BIN = Path(sys.executable).parent
TIMEOUT = 120


def started(processes: int, *command: str, on: str = "wasm") -> subprocess.Popen[str]:
    path = os.pathsep.join([str(BIN), os.environ.get("PATH", "")])
    modules = os.pathsep.join(
        [str(ROOT), str(ROOT / "runtime_py"), str(ROOT / "tests" / "support")]
    )
    own = {"PATH": path, "PYTHONPATH": modules, "WGCC_THREADS": "1", **running_on(on)}
    environment = {**os.environ, **own}
    return subprocess.Popen(
        [str(BIN / "mpiexec"), "-n", str(processes), *command],
        env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def mpiexec(processes: int, *command: str, on: str = "wasm") -> tuple[int, str, str]:
    process = started(processes, *command, on=on)
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    finally:
        process.terminate()  # with all its processes, which would wait for each other for ever
    return process.returncode, out, err


def train(folder: Path, *options: str) -> list[str]:
    return ["wgcc", "train", str(folder / "noisy4"), str(folder / "noisy.safetensors"), *options]


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("noisy")
    make(folder, "noisy", NOISY, 4)
    return folder


def test_four_workers_are_one_with_a_batch_four_times_as_large(tmp_path: Path) -> None:
    for name, (text, whole, part) in MODELS.items():
        bundle = make(tmp_path, name, text, whole)
        make(tmp_path, name, text, part)
        with wgcc_runtime.load(bundle, device="wasm", threads=1) as model:
            out = tmp_path / f"{name}-one.safetensors"
            log = out.with_suffix(".jsonl")
            model.fit(data_for(name), steps=STEPS, seed=7, checkpoint=out, log=log)
    code, _, err = mpiexec(
        4, sys.executable, str(ROOT / "tests" / "support" / "mpi_program.py"), str(tmp_path)
    )
    assert code == 0, err
    for name in MODELS:
        first, second = (tmp_path / f"{name}-{run}.safetensors" for run in ("first", "second"))
        assert same_bits(first, second), name
        assert_close(first, tmp_path / f"{name}-one.safetensors", 1e-6)


def test_ctrl_c_saves_and_resumes_to_the_bit(noisy: Path) -> None:
    """With dropout of each worker's own, averaged running means, accumulation and averages."""
    whole, parts = noisy / "whole.safetensors", noisy / "parts.safetensors"
    code, _, err = mpiexec(2, *train(noisy, "--steps", "61", "--out", str(whole)))
    assert code == 0, err
    assert (
        len(re.findall(r"^  worker \d: WebAssembly \(1 thread\) on .*exchanging$", err, re.M)) == 2
    )
    command = train(noisy, "--steps", "100000", "--every", "1", "--out", str(parts))
    process = started(2, *command)
    assert process.stderr is not None
    while not process.stderr.readline().startswith("step 1/"):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=TIMEOUT)[1]
    assert process.returncode == 130, err
    assert err.count("stopping after this step") == 1 and "mpiexec -n 2 wgcc train" in err
    done = int(re.findall(r"^(\d+) steps in", err, re.M)[0])
    more = ("--steps", str(max(61, done)), "--out", str(parts), "--resume")
    code, _, err = mpiexec(2, *train(noisy, *more))
    assert code == 0, err
    if done <= 61:
        assert same_bits(whole, parts)
    else:
        code, _, err = mpiexec(2, *train(noisy, "--steps", str(done), "--out", str(whole)))
        assert code == 0 and same_bits(whole, parts), err


def test_workers_draw_numbers_of_their_own_and_average_state(noisy: Path) -> None:
    one, two = noisy / "one.safetensors", noisy / "two.safetensors"
    for processes, out in ((1, one), (2, two)):
        code, _, err = mpiexec(processes, *train(noisy, "--steps", "3", "--out", str(out)))
        assert code == 0, err
    first, second = load_file(one), load_file(two)
    assert first["rng/seed"] == second["rng/seed"] == 5
    assert first["rng/step"] == second["rng/step"]
    assert not np.array_equal(first["norm.run_mean"], second["norm.run_mean"])


def test_a_bad_step_on_one_worker_is_undone_on_all(noisy: Path, tmp_path: Path) -> None:
    data = data_for("noisy", 8)
    data["x"][:] = np.float32(3e38) * np.sign(data["x"])
    save_file(data, tmp_path / "bad.safetensors")
    out = tmp_path / "out.safetensors"
    command = ["wgcc", "train", str(noisy / "noisy4"), str(tmp_path / "bad.safetensors")]
    code, _, err = mpiexec(2, *command, "--steps", "5", "--out", str(out))
    assert code == 3, err
    assert re.search(
        r"^error\[nan\]: worker \d \(.*\): train, step 1: .*undone on all workers$", err, re.M
    )
    assert err.count("error") == 1 and not out.exists()


def by_rank(options: Sequence[str], *different: str) -> list[str]:
    """A command with other options on rank 1."""
    same, other = " ".join(options), " ".join(different)
    return ["sh", "-c", f'if [ "$PMI_RANK" = 1 ]; then exec {other}; else exec {same}; fi']


@pytest.mark.parametrize(
    "case", ["bundle", "device", "rows", "workers", "file", "mpi4py", "option"]
)
def test_what_one_worker_lacks_ends_all_with_one_message(
    case: str, noisy: Path, tmp_path: Path
) -> None:
    command = train(noisy, "--steps", "5", "--out", str(tmp_path / "out.safetensors"))
    expected, exit_code = "", 1
    if case == "workers":
        command += ["--workers", "2"]
        expected, exit_code = "Error: --workers is for workers of Ray, but mpiexec has", 2
    if case == "option":
        command += ["--stepps", "5"]
        expected, exit_code = "Error: No such option.*--stepps", 2
    if case == "file":
        command = by_rank(command, *[w.replace("noisy.safetensors", "none.npz") for w in command])
        expected = r"error\[usage\]: worker 1: Invalid value for '\[DATA\]': Path '.*none.npz' does"
    if case == "mpi4py":
        (tmp_path / "mpi4py.py").write_text("raise ImportError('not here')")
        command = by_rank(command, "env", f"PYTHONPATH={tmp_path}:$PYTHONPATH", *command)
        expected = r"error\[no-mpi\]: mpiexec started 2 .* cannot be imported on .*\(not here\)"
    if case == "bundle":
        other = make(tmp_path, "noisy", NOISY.replace("0.3", "0.31"), 4)
        command = by_rank(command, *[w.replace(str(noisy / "noisy4"), str(other)) for w in command])
        expected = r"error\[mismatch\]: worker 1 on .* has another bundle than worker 0"
    if case == "device":
        command = by_rank(command, *command, "--device", "nowhere")
        expected = r"error\[no-adapter\]: worker 1: "
    if case == "rows":
        save_file(data_for("noisy", 4), tmp_path / "few.safetensors")
        command[3] = str(tmp_path / "few.safetensors")
        expected = (
            r"error\[data\]: 4 rows are fewer than 2 workers take in one step \(4 rows each\)"
        )
    started_at = time.monotonic()
    code, _, err = mpiexec(2, *command)
    assert code == exit_code and len(re.findall(expected, err)) == 1, err
    assert len(re.findall("error[:[]", err, re.IGNORECASE)) == 1, err
    assert time.monotonic() - started_at < 60


def test_a_gpu_and_a_twin_train_one_model(noisy: Path, tmp_path: Path) -> None:
    """Their bits differ; at the checkpoint both have those of worker 0."""
    mixed, equal = tmp_path / "mixed.safetensors", tmp_path / "equal.safetensors"
    command = train(noisy, "--steps", "12", "--out", str(mixed), "--device")
    code, _, err = mpiexec(2, *by_rank([*command, "wasm"], *command, "llvmpipe"), on="lavapipe")
    assert code == 0 and "worker 0: WebAssembly" in err and "worker 1: llvmpipe" in err, err
    code, _, err = mpiexec(2, *train(noisy, "--steps", "12", "--out", str(equal)))
    assert code == 0, err
    one, other = load_file(mixed), load_file(equal)
    for name in ("a.w", "b.w", "norm.run_mean"):
        assert np.allclose(one[name], other[name], rtol=1e-3, atol=1e-5), name


def test_one_machine_continues_with_the_rows_that_follow(noisy: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    code, _, err = mpiexec(2, *train(noisy, "--steps", "3", "--out", str(out)))
    assert code == 0, err
    with wgcc_runtime.load(noisy / "noisy4", device="wasm") as model:
        model.load(out)
        assert (model.progress.steps, model.progress.position) == ({"train": 3}, 6)
        expected = ArraySource(data_for("noisy"), model.entry("train"), 0, 6).take()
        taken = _source(model, model.entry("train"), data_for("noisy"), Length(cycle=True)).take()
        assert taken is not None and expected is not None
        assert taken["x"].tobytes() == expected["x"].tobytes()


@pytest.mark.parametrize("momentum", ["0", "0.9"])
def test_rare_exchange_resumes_to_the_bit(momentum: str, noisy: Path, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole.safetensors", tmp_path / "parts.safetensors"
    rare = ("--sync-every", "4", "--outer-momentum", momentum, "--outer-lr", "0.7")
    rare += ("--sync-slack", "inf", "--out")
    for options in (
        ("--steps", "20", *rare, str(whole)),
        ("--steps", "8", *rare, str(parts)),
        ("--steps", "20", "--resume", *rare, str(parts)),
    ):
        code, _, err = mpiexec(2, *train(noisy, *options))
        assert code == 0, err
    assert same_bits(whole, parts)


@pytest.mark.parametrize(
    ("variable", "advice"),
    [("OMPI_COMM_WORLD_SIZE", "are of different MPI"), ("SLURM_STEP_NUM_TASKS", "srun --mpi=list")],
)
def test_another_library_of_mpi(
    variable: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "4")
    code = "from wgcc_runtime import mpi; mpi.Processes()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "started 4 processes, but mpi4py sees 1: " in done.stderr and advice in done.stderr


def test_workers_of_mixed_speeds_weigh_by_rows(tmp_path: Path) -> None:
    """The slow one sends what it has done when the fast one has long been ready."""
    text = NOISY.replace("accumulate = 2", "accumulate = 3")
    bundle, out = make(tmp_path, "noisy", text, 4), tmp_path / "out.safetensors"
    code, lines, err = mpiexec(
        2, sys.executable, str(ROOT / "tests" / "support" / "mpi_slow.py"), str(bundle), str(out)
    )
    assert code == 0, err
    rows = [int(found) for found in re.findall(r"(\d+) rows", lines)]
    assert rows[0] == 80 and 2 <= rows[1] // 4 < 15, lines
    found = load_file(out)
    for name, value in mixed_by_hand(bundle, [n // 4 for n in rows]).items():
        assert found[name].tobytes() == value.tobytes(), name
