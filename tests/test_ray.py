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
from typing import Any

import numpy as np
import pytest
import ray as cluster
import wasmtime
from safetensors import safe_open

import wgcc_runtime
from adapters import ROOT, running_on
from distributed_models import MODELS, NOISY, STEPS, assert_close, data_for, make, same_bits
from wgcc_runtime import WgccError, ray
from wgcc_runtime.distributed.identity import Identity, check_equal
from wgcc_runtime.distributed.ray_team import Member
from wgcc_runtime.distributed.trap_handlers import kept_trap_handlers
from wgcc_runtime.history import History, Report

# Ray leaves sockets and files to be closed at exit.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
CORES = 5


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """One cluster for all tests; a worker takes one of its cores."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime_py"), str(ROOT / "tests")])
    before = dict(os.environ)
    os.environ.update({"PYTHONPATH": path, "RAY_IGNORE_UNHANDLED_ERRORS": "1"})
    os.environ.update(running_on("wasm"))
    wasmtime.Engine()  # so that its handlers of traps are there before Ray's
    with kept_trap_handlers():
        found = cluster.init(
            "local", num_cpus=CORES, include_dashboard=False, log_to_driver=False,
            logging_level=50, object_store_memory=100 << 20,
        )  # fmt: skip
    yield str(found.address_info["address"])
    with kept_trap_handlers():
        cluster.shutdown()
    assert_a_trap_is_an_error()
    # What Ray leaves open is closed here, not in the middle of a later test.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()
    os.environ.clear()
    os.environ.update(before)


def assert_a_trap_is_an_error() -> None:
    """Without the handlers of wasmtime, the process would end here."""
    engine = wasmtime.Engine()
    module = wasmtime.Module(engine, '(module (func (export "f") unreachable))')
    store = wasmtime.Store(engine)
    function = wasmtime.Instance(store, module, []).exports(store)["f"]
    with pytest.raises(wasmtime.Trap):
        function(store)


def test_a_trap_of_a_twin_is_still_an_error(address: str) -> None:
    assert_a_trap_is_an_error()


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("noisy")
    make(folder, "noisy", NOISY, 4)
    return folder


def fit(bundle: Path, name: str, workers: Any, **options: Any) -> History:
    return ray.fit(bundle, data_for(name), workers, device="wasm", **options)


def position(checkpoint: Path) -> int:
    with safe_open(checkpoint, "np") as file:
        return int(json.loads(file.metadata()["wgcc"])["data"]["position"])


class Killer:
    """Kills a worker before some steps; `watch` and `stop` are arguments of `fit`."""

    def __init__(self, steps: set[int]) -> None:
        self._steps, self._calls = steps, 0
        self._random = random.Random(5)
        self.killed = 0
        self._pids: list[int] = []

    def watch(self, members: list[Member]) -> None:
        self._pids = [member.pid for member in members]

    def stop(self) -> bool:
        if self._calls in self._steps:
            os.kill(self._random.choice(self._pids), signal.SIGKILL)
            self.killed += 1
        self._calls += 1
        return False


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


@pytest.mark.usefixtures("address")
def test_workers_that_are_killed_are_replaced_and_the_bits_stay(noisy: Path) -> None:
    """Before 10 of 40 steps a worker gets SIGKILL; with dropout, batch norm and accumulation."""
    calm, killed = noisy / "calm.safetensors", noisy / "killed.safetensors"
    fit(noisy / "noisy4", "noisy", 2, steps=40, checkpoint=calm)
    killer = Killer(set(random.Random(11).sample(range(40), 10)))
    lines: list[str] = []
    fit(
        noisy / "noisy4", "noisy", 2, steps=40, checkpoint=killed,
        stop=killer.stop, on_workers=killer.watch, notice=lines.append,
    )  # fmt: skip
    assert killer.killed == 10 and sum("died" in line for line in lines) == 10
    assert same_bits(calm, killed)


@pytest.mark.usefixtures("address")
def test_workers_come_late_and_training_goes_on_with_fewer(noisy: Path) -> None:
    """The cluster is full at first; later there is room, then a worker dies."""
    taken = [_Sleeper.remote() for _ in range(CORES - 1)]  # type: ignore[attr-defined]
    cluster.get([sleeper.ready.remote() for sleeper in taken])
    out, counts, pids = noisy / "late.safetensors", [], []
    killed: list[int] = []

    def watch(members: list[Member]) -> None:
        pids[:] = [member.pid for member in members]

    def after(report: Report) -> None:
        counts.append(len(pids))
        if report.step == 5:
            for sleeper in taken:
                cluster.kill(sleeper)
        if len(pids) > 1 and not killed:
            killed.append(pids.pop())
            os.kill(killed[0], signal.SIGKILL)
        time.sleep(0.05)

    def enough() -> bool:
        return len(killed) > 0 and counts[-1] > 1

    history = fit(
        noisy / "noisy4", "noisy", (1, 2), steps=2000, every=1, checkpoint=out,
        callbacks=[after], on_workers=watch, stop=enough,
    )  # fmt: skip
    assert counts[:5] == [1] * 5 and history.stopped == "stop"
    steps = [report.step for report in history.reports]
    assert steps == list(range(1, len(steps) + 1)), "no step is lost or made twice"
    assert len(steps) < position(out) <= 2 * len(steps)


@cluster.remote(num_cpus=1)
class _Sleeper:
    def ready(self) -> None:
        return None


def test_a_killed_driver_resumes_to_the_bit(noisy: Path, address: str) -> None:
    out, calm = noisy / "driver.safetensors", noisy / "undisturbed.safetensors"
    program, data = ROOT / "tests" / "ray_program.py", noisy / "noisy.safetensors"
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
def test_rare_exchange_survives_a_death_and_a_break(noisy: Path) -> None:
    whole, parts = noisy / "rare.safetensors", noisy / "rare-parts.safetensors"
    rare = {"sync_every": 4, "outer_lr": 0.7, "outer_momentum": 0.9}
    fit(noisy / "noisy4", "noisy", 2, steps=20, checkpoint=whole, **rare)
    killer = Killer({1})
    fit(
        noisy / "noisy4", "noisy", 2, steps=8, checkpoint=parts,
        stop=killer.stop, on_workers=killer.watch, **rare,
    )  # fmt: skip
    fit(noisy / "noisy4", "noisy", 2, steps=20, checkpoint=parts, resume=True, **rare)
    assert killer.killed == 1 and same_bits(whole, parts)


def test_the_command_stops_and_resumes(noisy: Path, address: str, tmp_path: Path) -> None:
    out, wgcc = tmp_path / "out.safetensors", str(Path(sys.executable).parent / "wgcc")
    command = [wgcc, "train", str(noisy / "noisy4"), str(noisy / "noisy.safetensors")]
    command += ["--workers", "2", "--ray", address, "--device", "wasm", "--out", str(out)]
    process = subprocess.Popen(
        [*command, "--steps", "100000", "--every", "1"],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stderr is not None
    while not process.stderr.readline().startswith("step 1/"):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=120)[1]
    assert process.returncode == 130, err
    assert f"--workers 2 --ray {address} --resume" in err and "worker 1: WebAssembly" in err
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
        (few, {}, "data", "5 rows are fewer than 2 workers take in one step"),
        (None, {"device": "nowhere"}, "no-adapter", "no adapter's name contains `nowhere`"),
        (None, {"entry": "nothing"}, "name", "no entry `nothing`"),
        (None, {"stepz": 4}, "name", "`stepz` is not an option; did you mean `steps`"),
        (None, {"workers": (3, 2)}, "range", "`workers` is a number above 0"),
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
    given = {"workers": 2, "device": "wasm", "steps": 4, "checkpoint": out, **options}
    with pytest.raises(WgccError, match=text) as caught:
        ray.fit(noisy / "noisy4", data, given.pop("workers"), **given)
    assert caught.value.code == code and not out.exists()


@pytest.mark.usefixtures("address")
def test_a_worker_that_computes_wrong_numbers_is_refused(noisy: Path, tmp_path: Path) -> None:
    bundle = make(tmp_path, "noisy", NOISY, 4)
    plan = json.loads((bundle / "plan.json").read_text(encoding="utf-8"))
    first = plan["selftest"]["entries"]["train"]["outputs"][0]["loss"]
    first["sum"] += 1.0
    (bundle / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    with pytest.raises(WgccError) as caught:
        fit(bundle, "noisy", 2, steps=4)
    assert caught.value.code == "selftest"


def test_no_cluster_and_no_ray(noisy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "is_initialized", lambda: False)
    with pytest.raises(
        WgccError, match=r"no Ray cluster at 127\.0\.0\.1:9: Connection refused"
    ) as caught:
        fit(noisy / "noisy4", "noisy", 2, steps=4, address="127.0.0.1:9")
    assert caught.value.code == "ray"
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(WgccError, match=r"pip install 'wgcc\[ray\]'") as caught:
        fit(noisy / "noisy4", "noisy", 2, steps=4)
    assert caught.value.code == "no-ray"


def test_differences_between_machines_are_found() -> None:
    own = Identity("a" * 64, "1.0", "here", "gpu")
    check_equal([own, Identity("a" * 64, "1.0", "there", "wasm")])
    with pytest.raises(
        WgccError, match="worker 1 on there has another bundle than worker 0 on here"
    ):
        check_equal([own, Identity("b" * 64, "1.0", "there", "gpu")])
    with pytest.raises(WgccError, match=r"worker 1 on there has wgcc_runtime 1\.1") as caught:
        check_equal([own, Identity("a" * 64, "1.1", "there", "gpu")])
    assert caught.value.code == "version"
