"""The commands that run bundles: train, run, verify, bench, doctor."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import line_bundle
import line_twin
from adapters import ROOT
from wgcc.cli.commands.bench.report import report_block
from wgcc.cli.group import cli
from wgcc_runtime import WgccError
from wgcc_runtime.progress import clock, sparkline
from wgcc_runtime.timing import TIMESTAMPS
from wgcc_runtime.weights import load_weights, save_arrays


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return line_bundle.write_bundle(tmp_path / "line")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    x = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    path = tmp_path / "data.npz"
    np.savez(path, x=x, y=x.sum(axis=1), unrelated=np.zeros(3))
    return path


def wgcc(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def train(bundle: Path, data: Path, *options: object) -> Result:
    return wgcc("train", bundle, data, "--device", "lavapipe", *options)


def test_train_saves_and_resumes(bundle: Path, data: Path, tmp_path: Path) -> None:
    out, log = tmp_path / "out.safetensors", tmp_path / "log.jsonl"
    result = train(bundle, data, "--steps", 40, "--out", out, "--log", log, "--json")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    assert (facts["steps"], facts["stopped"], facts["checkpoint"]) == (40, "steps", str(out))
    assert "step 40/40  loss" in result.stderr
    assert load_weights(out)[1]["steps"] == {"train": 40}
    result = train(bundle, data, "--steps", 60, "--out", out, "--log", log, "--resume")
    assert result.exit_code == 0, result.stderr
    assert [json.loads(line)["step"] for line in log.read_text().splitlines()][-3:] == [40, 50, 60]
    straight = tmp_path / "straight.safetensors"
    assert train(bundle, data, "--steps", 60, "--out", straight).exit_code == 0
    assert straight.read_bytes() == out.read_bytes()


def test_resuming_from_a_damaged_checkpoint_says_so(
    bundle: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.safetensors"
    for steps in (20, 40):
        assert train(bundle, data, "--steps", steps, "--out", out, "--resume").exit_code == 0
    out.write_bytes(out.read_bytes()[:-1])
    result = train(bundle, data, "--steps", 60, "--out", out, "--resume", "--json")
    assert result.exit_code == 0, result.stderr
    (said,) = json.loads(result.stdout)["warnings"]
    assert said.endswith(f"used {out}.previous instead, saved at step 20 of `train`")
    lines = result.stderr.splitlines()
    assert f"warning: {said}" in lines
    assert lines.index(f"warning: {said}") < len(lines) - 2  # before the training, not after it
    whole = train(bundle, data, "--steps", 60, "--out", out, "--resume", "--json")
    assert json.loads(whole.stdout)["warnings"] == []


def test_train_writes_beside_the_bundle_by_default(bundle: Path, data: Path) -> None:
    assert train(bundle, data, "--steps", 5).exit_code == 0
    assert (bundle.parent / "line-trained.safetensors").is_file()


def write_folder(path: Path, x: Any, y: Any) -> Path:
    (path / "folder").mkdir()
    np.save(path / "folder" / "x.npy", x)
    np.save(path / "folder" / "y.npy", y)
    return path / "folder"


def write_safetensors(path: Path, x: Any, y: Any) -> Path:
    save_arrays(path / "d.safetensors", {"x": x, "y": y})
    return path / "d.safetensors"


def write_csv(path: Path, x: Any, y: Any) -> Path:
    lines = [
        "x0,x1,x2,x3,y",
        *(",".join(map(repr, [*map(float, a), float(b)])) for a, b in zip(x, y, strict=True)),
    ]
    (path / "d.csv").write_text("\n".join(lines))
    return path / "d.csv"


@pytest.mark.parametrize("write", [write_folder, write_safetensors, write_csv])
def test_data_of_every_format_trains_alike(
    bundle: Path, data: Path, tmp_path: Path, write: Any
) -> None:
    with np.load(data) as arrays:
        other = write(tmp_path, arrays["x"], arrays["y"])
    losses = [
        json.loads(train(bundle, source, "--steps", 10, "--json").stdout)["loss"]
        for source in (data, other)
    ]
    assert losses[0] == losses[1]


BAD_CSV = {
    "empty": ("", "the file is empty"),
    "only a header": ("x0,x1,x2,x3,y\n", "no rows"),
    "not a number": (
        "x0,x1,x2,x3,y\n1,2,3,4,5\n1,2,three,4,5\n",
        "line 3, column 3: .*'three'",
    ),
    "short row": ("x0,x1,x2,x3,y\n1,2\n", "line 2: 2 fields, but the first line has 5"),
    "other names": ("a,b\n1,2\n", "`x` takes 4 columns, but 1 is left for it: a"),
    "few columns": ("x0,x1,y\n" + "1,2,3\n" * 9, "`x` takes 4 columns, but 2 are left"),
}


@pytest.mark.parametrize("name", BAD_CSV)
def test_bad_csv(bundle: Path, tmp_path: Path, name: str) -> None:
    text, complaint = BAD_CSV[name]
    path = tmp_path / "bad.csv"
    path.write_text(text)
    result = train(bundle, path)
    assert result.exit_code == 1
    assert __import__("re").search(complaint, result.stderr), result.stderr


def test_train_mistakes_are_one_line(bundle: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.npz").write_bytes(b"nonsense")
    (tmp_path / "pickle.npy").write_bytes(b"\x80\x04N.")
    for source in ("broken.npz", "pickle.npy"):
        result = train(bundle, tmp_path / source)
        assert (result.exit_code, "cannot read" in result.stderr) == (1, True), result.stderr
    result = train(bundle, data, "--batch", 9)
    assert "built for batches of 8, not 9" in result.stderr
    assert wgcc("train", bundle, tmp_path / "nothing.npz").exit_code == 2
    assert wgcc("train", tmp_path, data).exit_code == 1
    result = wgcc("train", bundle, data, "--device", "quantum")
    assert (result.exit_code, "error[no-adapter]" in result.stderr) == (1, True)


def test_diverging_training_exits_with_3(bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "big.npz"
    np.savez(path, x=np.full((16, 4), 1e15, np.float32), y=np.zeros(16))
    result = train(bundle, path)
    assert (result.exit_code, "error[nan]: train, step" in result.stderr) == (3, True)


def test_interrupt_saves_and_says_how_to_go_on(bundle: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    code = "import sys; from wgcc.cli import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "train", bundle, data, "--steps", "10000000", "--out", out],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'runtime_py'}"},
    )
    assert process.stderr is not None
    while "step 10/" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[1]
    assert process.returncode == 130, rest
    assert "--resume" in rest
    assert load_weights(out)[1]["steps"]["train"] > 10


def test_run_reads_and_writes_files(bundle: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "other.npy", x)
    result = wgcc("run", bundle, "predict", "-i", tmp_path / "x.npy", "--json")
    expected = json.loads(result.stdout)["p"]
    assert len(expected) == 20
    for name in ("p.npy", "p.npz", "p.safetensors"):
        out = tmp_path / name
        result = wgcc("run", bundle, "predict", "-i", tmp_path / "other.npy", "-o", out)
        assert result.exit_code == 0, result.stderr
    np.testing.assert_allclose(np.load(tmp_path / "p.npy"), expected)
    with np.load(tmp_path / "p.npz") as arrays:
        np.testing.assert_allclose(arrays["p"], expected)
    np.testing.assert_allclose(load_weights(tmp_path / "p.safetensors")[0]["p"], expected)
    result = wgcc("run", bundle, "predict", "-i", f"x={tmp_path / 'x.npy'}", "-o", "q=a.npy")
    assert (result.exit_code, "no output `q`" in result.stderr) == (2, True)
    assert "p float32[20]" in wgcc("run", bundle, "predict", "-i", tmp_path / "x.npy").stdout


def test_run_takes_numbers(bundle: Path) -> None:
    result = wgcc("run", bundle, "pick", "-i", "ids=[0, 1, -1]", "--json")
    assert json.loads(result.stdout)["rows"][2] == 0
    result = wgcc("run", bundle, "pick", "-i", "ids=[0, 1, 9]")
    assert (result.exit_code, "error[range]" in result.stderr) == (1, True)
    assert wgcc("run", bundle, "pick", "-i", "ids=nowhere.npy").exit_code == 2
    assert "did you mean `pick`" in wgcc("run", bundle, "pik").stderr


def test_run_uses_trained_weights(bundle: Path, tmp_path: Path) -> None:
    save_arrays(tmp_path / "w.safetensors", {"w": np.arange(4.0)})
    result = wgcc(
        "run",
        bundle,
        "pick",
        "-i",
        "ids=[1, 2, 3]",
        "--json",
        "--weights",
        tmp_path / "w.safetensors",
    )
    assert json.loads(result.stdout)["rows"] == [1, 2, 3]


def test_verify(bundle: Path, tmp_path: Path, adapter: str) -> None:
    result = wgcc("verify", bundle, "--device", adapter, "--json")
    assert (result.exit_code, len(result.stderr.splitlines())) == (0, 1), result.stderr
    assert json.loads(result.stdout)[0]["outputs"][0]["output"] == "loss"
    plan = line_bundle.make_plan()
    plan["selftest"]["entries"]["train"]["outputs"][0]["loss"]["first"] = [9.0]
    wrong = line_bundle.write_bundle(tmp_path / "wrong", selftest=plan["selftest"])
    result = wgcc("verify", wrong, "--device", adapter)
    assert (result.exit_code, "wrong  train.loss" in result.stderr) == (3, True)


def test_verify_on_other_stacks(bundle: Path) -> None:
    result = wgcc("verify", bundle, "--on", "python,node")
    assert (result.exit_code, "has no index.js" in result.stderr) == (1, True)
    assert wgcc("verify", bundle, "--on", "cobol").exit_code == 2


def test_bench(bundle: Path, adapter: str) -> None:
    options = ("--device", adapter, "--seconds", 0.05)
    result = wgcc("bench", bundle, "--json", *options)
    found = json.loads(result.stdout)["bundle"]
    assert [row["entry"] for row in found["entries"]] == ["train", "predict", "pick", "forget"]
    train = found["entries"][0]
    assert (train["dispatches"], train["distinct_kernels"]) == (3, 3)
    assert train["calls"] >= 14
    assert 0 < train["best_ms"] <= train["median_ms"]
    assert train["every_10_ms"] > 0 and 0 < found["compile_ms"] < found["load_ms"]
    assert found["bytes"] == sum(buffer["bytes"] for buffer in line_bundle.make_plan()["buffers"])
    rows = found["kernels"][0]["rows"]
    assert [row["kernel"] for row in rows][1:] == ["gradient", "update"]
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert all(row["predicted_ms"] is None for row in rows)  # software is like no GPU
    result = wgcc("bench", bundle, "--entry", "train", *options)
    assert result.exit_code == 0, result.stderr
    assert "line.wg:2" in result.stdout and "GFLOP/s" in result.stdout
    assert "compile ms" in result.stdout and "read every 10th" in result.stdout


def test_bench_as_a_report(bundle: Path, adapter: str) -> None:
    options = ("--entry", "train", "--device", adapter, "--seconds", 0.05, "--report")
    result = wgcc("bench", bundle, *options)
    assert result.exit_code == 0, result.stderr
    assert "**train**: 3 dispatches" in result.stdout and "| gradient | 1 |" in result.stdout
    assert "like no GPU, so nothing is predicted" in result.stdout
    assert str(bundle) not in result.stdout  # no path of a user
    assert wgcc("bench", bundle, *options, "--json").exit_code == 2


def test_a_report_of_a_gpu_has_what_was_predicted() -> None:
    row = {"kernel": "k", "times": 2, "ms": 0.4, "predicted_ms": 0.1, "gflops": None}
    kernels = {"predicted_for": "RTX 4070", "method": TIMESTAMPS, "ms": 0.4}
    entry = {"entry": "train", "dispatches": 2, "median_ms": 0.6, "every_10_ms": 0.5}
    facts = {
        "device": "GeForce", "profile": "gpu", "entries": [entry],
        "kernels": [{**kernels, "rows": [{**row, "gbytes_per_s": 3.0}]}],
    }  # fmt: skip
    text = report_block(facts)
    # 0.1 ms of kernels, and 2 x 0.05 ms to start them.
    assert "predicted for RTX 4070: 0.200 ms" in text
    assert "starting a dispatch: 50.0 us (measured: a call without its kernels)" in text
    assert "| k | 2 | 0.4000 | 0.1000 | 4.0 | – | 3.0 |" in text


def test_bench_of_two_bundles(bundle: Path, adapter: str) -> None:
    options = ("--entry", "train", "--compare", bundle, "--device", adapter, "--seconds", 0.05)
    result = wgcc("bench", bundle, "--json", *options)
    found = json.loads(result.stdout)
    assert set(found) == {"bundle", "compared"}
    # Alternately: each is measured several times.
    assert all(side["entries"][0]["calls"] >= 4 * 13 for side in found.values())
    text = wgcc("bench", bundle, *options).stdout
    assert "other / this" in text and "difference" in text
    assert "GB/s" not in wgcc("bench", bundle, "--no-per-kernel", *options).stdout


def test_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    result = wgcc("doctor")
    assert result.exit_code == 0
    assert "llvmpipe" in result.stdout and "SwiftShader" in result.stdout
    found = json.loads(wgcc("doctor", "--json").stdout)
    assert found["adapters"][0]["below_default"] == []
    monkeypatch.setattr("wgcc_runtime.device.adapters", list)
    result = wgcc("doctor")
    assert (result.exit_code, "mesa-vulkan-drivers" in result.stderr) == (0, True)
    monkeypatch.setattr("wgcc.cli.commands.doctor._version", lambda _: None)
    assert wgcc("doctor").exit_code == 1


def test_doctor_says_what_bundles_run_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WGCC_DEVICE", raising=False)
    found = json.loads(wgcc("doctor", "--json").stdout)
    assert found["default"] == {"device": "wasm", "reason": "no GPU was found"}
    assert "bundles run on their WebAssembly twin: no GPU was found" in wgcc("doctor").stdout
    monkeypatch.setenv("WGCC_DEVICE", "llvmpipe")
    assert "bundles run on llvmpipe: $WGCC_DEVICE asks for it" in wgcc("doctor").stdout

    def broken() -> None:
        raise WgccError("no-wgpu", "broken")

    monkeypatch.setattr("wgcc_runtime.device.adapters", broken)
    result = wgcc("doctor")
    assert (result.exit_code, "no-wgpu: broken" in result.stderr) == (0, True)


def test_commands_run_the_twin(data: Path, tmp_path: Path) -> None:
    bundle = line_twin.write_bundle(tmp_path / "twin")
    out = tmp_path / "out.safetensors"
    result = wgcc("train", bundle, data, "--device", "wasm", "--steps", 40, "--out", out)
    assert (result.exit_code, "on WebAssembly (1 thread)" in result.stderr) == (0, True)
    np.save(tmp_path / "x.npy", np.ones((8, 4), np.float32))
    result = wgcc("run", bundle, "predict", "-i", tmp_path / "x.npy", "--weights", out)
    assert (result.exit_code, "p float32[8]" in result.stdout) == (0, True)
    result = wgcc("verify", bundle, "--on", "wasm,python", "--device", "lavapipe")
    assert result.exit_code == 0
    assert "wasm     twin in wasmtime, WebAssembly (1 thread), wasm kernels: ok" in result.stderr
    assert "python   WGSL through naga, llvmpipe" in result.stderr
    result = wgcc("bench", bundle, "--device", "wasm", "--seconds", 0.05)
    assert (result.exit_code, "one call per kernel" in result.stdout) == (0, True)


def test_twins_that_compute_wrongly_are_found(tmp_path: Path) -> None:
    bundle = line_twin.write_bundle(tmp_path / "twin")
    plan = json.loads((bundle / "plan.json").read_text())
    module = (bundle / "twin.wasm").read_bytes()
    rate = np.float32(0.1).tobytes()
    assert module.count(rate) == 1
    changed = module.replace(rate, np.float32(0.2).tobytes())
    plan["twin"]["sha256"] = hashlib.sha256(changed).hexdigest()
    (bundle / "twin.wasm").write_bytes(changed)
    line_bundle.write_plan(bundle, plan)
    result = wgcc("verify", bundle, "--on", "wasm")
    assert (result.exit_code, "wrong" in result.stderr) == (3, True)


def test_sparkline_and_clock() -> None:
    assert sparkline([]) == ""
    assert sparkline([1.0, 1.0]) == "▁▁"
    assert sparkline([1.0, 0.1, 0.01, 0.001]) == "█▆▃▁"
    assert len(sparkline([float(i) for i in range(1000)])) == 24
    assert (clock(-1), clock(61), clock(7325)) == ("00:00", "01:01", "2:02:05")
