"""Actors of Ray train one model: deaths of workers and driver, late joiners, and clear errors."""

from __future__ import annotations

import gc
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray as cluster
from safetensors.numpy import load_file

import line_twin
import wgcc_runtime
from adapters import NAMES, ROOT, environment
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
from ray_broken_import import BrokenWorker
from ray_runs import Killer, fit, position, second_machine, taken_cores
from ray_workers import DEATHS, MortalWorker, SlowWorker
from wgcc_runtime import WgccError, ray
from wgcc_runtime.distributed import ray_members
from wgcc_runtime.distributed.ray_members import Member
from wgcc_runtime.history import Report

# Ray leaves sockets and files to be closed at exit.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
CORES, GPUS = 5, 2
# A machine that is lost counts as dead after two seconds, not fifteen.
FAST = {"RAY_health_check_period_ms": "1000", "RAY_health_check_failure_threshold": "2"}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One cluster for all tests; its GPUs are the two software adapters."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime_py"), str(ROOT / "tests" / "support")])
    before = dict(os.environ)
    os.environ.update({"PYTHONPATH": path, "RAY_IGNORE_UNHANDLED_ERRORS": "1"})
    os.environ.update({**FAST, DEATHS: str(tmp_path_factory.mktemp("deaths"))})
    os.environ.update(environment(*NAMES))
    found = cluster.init(
        "local", num_cpus=CORES, num_gpus=GPUS, include_dashboard=False, log_to_driver=False,
        logging_level=50, object_store_memory=100 << 20,
    )  # fmt: skip
    yield str(found.address_info["address"])
    cluster.shutdown()
    # What Ray leaves open is closed here, not in the middle of a later test.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("noisy")
    make(folder, "noisy", NOISY, 4)
    return folder


@pytest.mark.usefixtures("address")
@pytest.mark.parametrize("name", MODELS)
def test_four_workers_are_one_with_a_batch_four_times_as_large(name: str, tmp_path: Path) -> None:
    text, whole, part = MODELS[name]
    one, four = tmp_path / "one.safetensors", tmp_path / "four.safetensors"
    bundle = make(tmp_path, name, text, whole)
    with wgcc_runtime.load(bundle, device="wasm", threads=1, seed=7) as model:
        log = one.with_suffix(".jsonl")
        model.fit(data_for(name), steps=STEPS, seed=7, checkpoint=one, log=log)
    bundle, log = make(tmp_path, name, text, part), four.with_suffix(".jsonl")
    history = fit(bundle, name, 4, steps=STEPS, seed=7, checkpoint=four, log=log)
    assert_close(four, one, 1e-6)
    assert [line.split(":")[0] for line in history.workers] == [f"worker {i}" for i in range(4)]
    assert all(re.search(r"\d+ % of the time exchanging", line) for line in history.workers)


# In the middle of calls, at any moment, while another dead worker is replaced, and while joining.
PLACES: list[list[str | None]] = [
    ["after gradients"], ["before reduce"], ["after reduce"], ["before apply"], ["after apply"],
    [None], [None], [None], ["before gradients", "before assign"],
    ["after apply", "before everything", "after start"],
    ["no device in gradients"], ["no device in apply"],
]  # fmt: skip


@pytest.mark.usefixtures("address")
def test_workers_that_are_killed_are_replaced_and_the_bits_stay(
    noisy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In 10 of 24 steps workers get SIGKILL, in two they lose their device; with dropout,
    batch norm and accumulation."""
    monkeypatch.setattr(ray_members, "RayWorker", MortalWorker)
    calm, killed = noisy / "calm.safetensors", noisy / "killed.safetensors"
    fit(noisy / "noisy4", "noisy", 3, steps=24, checkpoint=calm)
    steps = random.Random(11).sample(range(22), len(PLACES))
    killer = Killer(dict(zip(steps, PLACES, strict=True)))
    lines: list[str] = []
    fit(
        noisy / "noisy4", "noisy", 3, steps=24, checkpoint=killed,
        stop=killer.stop, on_workers=killer.watch, notice=lines.append,
    )  # fmt: skip
    died = [line for line in lines if "died" in line]
    assert len(died) == killer.ordered >= 12 and not os.listdir(os.environ[DEATHS]), died
    assert sum("died while it joined" in line for line in died) == 1
    assert same_bits(calm, killed)


@pytest.mark.usefixtures("address")
def test_workers_come_late_and_training_goes_on_with_fewer(noisy: Path) -> None:
    """The cluster is full at first; later there is room, then a worker dies."""
    out, counts, pids = noisy / "late.safetensors", [], []
    killed: list[int] = []

    def watch(members: list[Member]) -> None:
        pids[:] = [member.pid for member in members]

    def after(report: Report) -> None:
        counts.append(len(pids))
        if report.step == 5:
            cluster.kill(taken)
        if len(pids) > 1 and not killed:
            killed.append(pids.pop())
            os.kill(killed[0], signal.SIGKILL)
        time.sleep(0.05)

    def enough() -> bool:
        return len(killed) > 0 and counts[-1] > 1

    with taken_cores(CORES - 1) as taken:
        history = fit(
            noisy / "noisy4", "noisy", (1, 2), steps=2000, every=1, checkpoint=out,
            callbacks=[after], on_workers=watch, stop=enough,
        )  # fmt: skip
    assert counts[:5] == [1] * 5 and history.stopped == "stop"
    steps = [report.step for report in history.reports]
    assert steps == list(range(1, len(steps) + 1)), "no step is lost or made twice"
    assert len(steps) < position(out) <= 2 * len(steps)


def test_a_machine_that_is_lost_for_good_ends_the_training_with_a_checkpoint(
    noisy: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, calm = noisy / "lost.safetensors", noisy / "found.safetensors"
    lines: list[str] = []
    # When the machine is gone, a minute takes three seconds.
    hurry = SimpleNamespace(monotonic=lambda: time.monotonic() * (20 if lines[2:] else 1))
    monkeypatch.setattr(ray_members, "time", hurry)
    with taken_cores(CORES - 1), second_machine(address) as machine:

        def after(report: Report) -> None:
            if report.step == 4:
                machine.kill_all_processes(check_alive=False, allow_graceful=False)

        with pytest.raises(WgccError) as caught:
            fit(
                noisy / "noisy4", "noisy", 2, steps=1000, every=1, checkpoint=out,
                callbacks=[after], notice=lines.append, wait=60,
            )  # fmt: skip
    error = caught.value
    assert error.code == "ray" and sum("died" in line for line in lines) == 1, (error, lines)
    text = "1 of 2 workers joined within 60 s: .* needs 1 core; .*; saved .* at step (\\d+): resume"
    found = re.search(text, error.message)
    assert found and position(out) == 2 * int(found[1]), error
    monkeypatch.undo()
    # What was saved is what an undisturbed training has at that step.
    fit(noisy / "noisy4", "noisy", 2, steps=int(found[1]), checkpoint=calm)
    assert same_bits(out, calm)


@pytest.mark.usefixtures("address")
def test_workers_that_die_at_their_start_are_not_started_for_ever(
    noisy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_members, "RayWorker", BrokenWorker)
    lines: list[str] = []
    with pytest.raises(WgccError, match=r"3 workers, one after .*: ImportError: libsome") as caught:
        fit(noisy / "noisy4", "noisy", 1, steps=4, notice=lines.append)
    assert caught.value.code == "ray" and len(lines) == 3, lines


@pytest.mark.usefixtures("address")
def test_a_worker_has_the_gpu_that_ray_reserved_for_it(noisy: Path) -> None:
    data = data_for("noisy")
    history = ray.fit(noisy / "noisy4", data, 2, steps=2, device="webgpu", gpus=1)
    for name in NAMES.values():
        assert sum(name in line for line in history.workers) == 1, history.workers


def test_a_killed_driver_resumes_to_the_bit(noisy: Path, address: str) -> None:
    out, calm = noisy / "driver.safetensors", noisy / "undisturbed.safetensors"
    program, data = ROOT / "tests" / "support" / "ray_program.py", noisy / "noisy.safetensors"
    process = subprocess.Popen(
        [sys.executable, str(program), address, str(noisy / "noisy4"), str(data), str(out)],
        stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    while int(process.stdout.readline()) < 8:
        pass
    process.kill()
    process.communicate()
    steps = position(out) // 2 + 5
    for checkpoint in (out, calm):
        fit(noisy / "noisy4", "noisy", 2, steps=steps, checkpoint=checkpoint, resume=True)
    assert same_bits(out, calm)


@pytest.mark.usefixtures("address")
def test_rare_exchange_survives_deaths_and_a_break(
    noisy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its momentum is in the checkpoint itself."""
    monkeypatch.setattr(ray_members, "RayWorker", MortalWorker)
    whole, parts = noisy / "rare.safetensors", noisy / "rare-parts.safetensors"
    rare = {"sync_every": 4, "outer_lr": 0.7, "outer_momentum": 0.9, "sync_slack": float("inf")}
    fit(noisy / "noisy4", "noisy", 2, steps=20, checkpoint=whole, **rare)
    killer = Killer({0: ["after floats", "no device in local_steps"], 1: ["after finish_round"]})
    fit(
        noisy / "noisy4", "noisy", 2, steps=8, checkpoint=parts,
        stop=killer.stop, on_workers=killer.watch, **rare,
    )  # fmt: skip
    moved = noisy / "moved.safetensors"
    parts.rename(moved)
    fit(noisy / "noisy4", "noisy", 2, steps=20, checkpoint=moved, resume=True, **rare)
    assert same_bits(whole, moved)


@pytest.mark.usefixtures("address")
def test_workers_of_mixed_speeds_weigh_by_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow one sends what it has done when the fast one has long been ready."""
    monkeypatch.setattr(ray_members, "RayWorker", SlowWorker)
    text = NOISY.replace("accumulate = 2", "accumulate = 3")
    bundle, out = make(tmp_path, "noisy", text, 4), tmp_path / "out.safetensors"
    lines: list[str] = []
    history = fit(
        bundle, "noisy", 2, steps=20, checkpoint=out, sync_every=20, seed=3, notice=lines.append
    )
    rows = [int(re.search(r"(\d+) rows", line)[1]) for line in history.workers]  # type: ignore[index]
    assert rows[0] == 80 and 2 <= rows[1] // 4 < 10, history.workers
    assert any(re.match(r"worker 1: .* \d+ rows, \d+ % of the", line) for line in lines)
    found, expected = load_file(out), mixed_by_hand(bundle, [n // 4 for n in rows])
    for name, value in expected.items():
        assert found[name].tobytes() == value.tobytes(), name
    # Counters, and sums of gradients that belong to them, are those of the one that is ahead.
    assert found["opt/opt/micro"] == 2 and found["opt/opt/step"] == 6
    assert position(out) == 40


def test_the_command_stops_and_resumes(noisy: Path, address: str, tmp_path: Path) -> None:
    out, wgcc = tmp_path / "out.safetensors", str(Path(sys.executable).parent / "wgcc")
    command = [wgcc, "train", str(noisy / "noisy4"), str(noisy / "noisy.safetensors")]
    command += ["--workers", "2", "--ray", address, "--device", "wasm", "--out", str(out)]
    command += ["--cores", "2"]
    process = subprocess.Popen(
        [*command, "--steps", "100000", "--every", "1"],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stderr is not None
    first = ""
    while "step 1/" not in first:
        assert process.poll() is None, first
        first += process.stderr.readline()
    process.send_signal(signal.SIGINT)
    err = first + process.communicate(timeout=120)[1]
    assert process.returncode == 130, err
    assert f"--workers 2 --ray {address} --cores 2 --resume" in err
    # A line for each worker at the first report, and at the end.
    assert err.count("worker 1: WebAssembly (2 threads) on ") == 2, err
    steps = position(out) // 2 + 3
    history = fit(noisy / "noisy4", "noisy", 2, steps=steps, checkpoint=out, resume=True)
    assert history.steps_done == steps == position(out) // 2


def large(data: dict[str, Any]) -> None:
    data["x"][:] = np.float32(3e38) * np.sign(data["x"])


def few(data: dict[str, Any]) -> None:
    for name in data:
        data[name] = data[name][:5]


@pytest.mark.usefixtures("address")
@pytest.mark.parametrize(
    ("change", "options", "code", "text"),
    [
        (large, {}, "nan", r"worker \d \(WebAssembly.*train, step 1: .*; undone on all workers"),
        (few, {"workers": 2}, "data", "5 rows are fewer than 2 workers take in one step"),
        (None, {"device": "nowhere"}, "no-adapter", "no adapter's name contains `nowhere`"),
        (None, {"entry": "nothing"}, "name", "no entry `nothing`"),
        (None, {"stepz": 4}, "name", "`stepz` is not an option; did you mean `steps`"),
        (None, {"workers": (3, 2)}, "range", "`workers` is a number above 0"),
        (None, {"gpus": 1, "device": None}, "no-adapter", r"GPU \d of this .* adapters are: none"),
        (None, {"sync_every": 2, "sync_slack": -1}, "range", "sync_slack is 0 or a positive"),
        (None, {"sync_every": 0}, "range", "`sync_every` is a whole number"),
        (None, {"sync_every": 2, "outer_momentum": 1.0}, "range", "outer_momentum is from 0"),
    ],
)
def test_errors(
    change: Callable[[dict[str, Any]], None] | None,
    options: dict[str, Any],
    code: str,
    text: str,
    noisy: Path,
) -> None:
    data, out = data_for("noisy", 16), noisy / "never.safetensors"
    if change:
        change(data)
    given = {"workers": 1, "device": "wasm", "steps": 4, "checkpoint": out, **options}
    with pytest.raises(WgccError, match=text) as caught:
        ray.fit(noisy / "noisy4", data, given.pop("workers"), **given)
    assert caught.value.code == code and not out.exists()
    assert "\n" not in caught.value.message


@pytest.mark.usefixtures("address")
def test_a_worker_that_computes_wrong_numbers_is_refused(noisy: Path, tmp_path: Path) -> None:
    bundle = make(tmp_path, "noisy", NOISY, 4)
    plan = json.loads((bundle / "plan.json").read_text(encoding="utf-8"))
    first = plan["selftest"]["entries"]["train"]["outputs"][0]["loss"]
    first["sum"] += 1.0
    plan.pop("sha256", None)
    (bundle / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    with pytest.raises(WgccError) as caught:
        fit(bundle, "noisy", 1, steps=4)
    assert caught.value.code == "selftest"


def test_no_cluster_and_no_ray(noisy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "is_initialized", lambda: False)
    with pytest.raises(
        WgccError, match=r"no Ray cluster at 127\.0\.0\.1:9: Connection refused"
    ) as caught:
        fit(noisy / "noisy4", "noisy", 2, steps=4, address="127.0.0.1:9")
    assert caught.value.code == "ray"

    def refused(*_: object, **__: object) -> None:
        """What Ray raises where its token is missing."""
        raise ConnectionError("Failed to connect to Ray cluster at 10.0.0.1:6379\nmore")

    monkeypatch.setattr(cluster, "init", refused)
    with pytest.raises(
        WgccError, match=r"6379 \(one with a token needs RAY_AUTH_MODE=token, .*\)$"
    ):
        fit(noisy / "noisy4", "noisy", 2, steps=4, address="auto")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(WgccError, match=r"pip install 'wgcc\[ray\]'") as caught:
        fit(noisy / "noisy4", "noisy", 2, steps=4)
    assert caught.value.code == "no-ray"


def test_programs_with_ray_of_another_version_and_with_models_of_their_own(
    noisy: Path, address: str, tmp_path: Path
) -> None:
    twin = line_twin.write_bundle(tmp_path / "twin")
    program = ROOT / "tests" / "support" / "ray_own_code.py"
    done = subprocess.run(
        [sys.executable, str(program), address, str(noisy / "noisy4"), str(twin)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    version, *traps = done.stdout.splitlines()
    assert re.match(
        rf"version the cluster at {address} has Ray {cluster.__version__} and Python \S+, "
        r"this machine Ray 1\.0\.0 and Python \S+: install the same versions everywhere$",
        version,
    ), version + done.stderr
    assert done.returncode == 0 and traps == ["device-lost"] * 4, done.stderr
