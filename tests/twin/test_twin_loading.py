"""What a bundle with a WebAssembly twin is loaded on, and which twins are refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import line_bundle
import line_twin
import wgcc_runtime
from line_training import assert_same, batches, data, everything, refused
from trials.interrupts import python_path
from twin_modules import assemble, record
from wgcc_runtime import choice, wasm_machine
from wgcc_runtime.plan_parts import PAGE
from wgcc_runtime.wasm_machine import Threads, choose_threads


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return line_twin.write_bundle(tmp_path_factory.mktemp("twin") / "bundle")


def with_module(folder: Path, body: str, **plan: Any) -> Path:
    """A bundle whose twin has these functions instead."""
    code, flag = assemble(body)
    line_bundle.write_bundle(folder, twin=record(code, flag, line_twin.SIZES), **plan)
    (folder / "twin.wasm").write_bytes(code)
    return folder


def test_changed_file_is_refused(bundle: Path, tmp_path: Path) -> None:
    folder = line_twin.write_bundle(tmp_path / "bundle")
    data = (folder / "twin.wasm").read_bytes()
    (folder / "twin.wasm").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with refused("bundle", "twin.wasm was changed"):
        wgcc_runtime.load(folder, device="wasm")
    (folder / "twin.wasm").unlink()
    with refused("bundle", "lacks twin.wasm"):
        wgcc_runtime.load(folder, device="wasm")
    with wgcc_runtime.load(folder, device="lavapipe") as model:
        model.train(**batches(1)[0])


ALL = ["train", "train/guard", "predict", "pick", "forget"]


def function(name: str) -> str:
    return f'(func (export "{name}") (param i32 i32))'


EMPTY = " ".join(map(function, ALL))
BAD_MODULES = {
    "no section of types": "",
    "no function `train`": EMPTY.replace(function("train"), ""),
    "`train/guard` is of another type": EMPTY.replace("guard\") (param i32 i32)", "guard\")"),
    "section of kind 4": EMPTY.replace(function("pick"), '(table (export "pick") 1 funcref)'),
    "imports something else": '(import "env" "more" (func))' + EMPTY,
    "wasmtime does not accept": EMPTY + "(func (result i32))",
}  # fmt: skip


@pytest.mark.parametrize("text", BAD_MODULES)
def test_modules_of_another_form_are_refused(text: str, tmp_path: Path) -> None:
    folder = with_module(tmp_path / "bundle", BAD_MODULES[text])
    with refused("bundle", text):
        wgcc_runtime.load(folder, device="wasm")


def test_wrong_place_of_the_memory_flag(tmp_path: Path) -> None:
    code, flag = assemble(EMPTY)
    twin = record(code, flag + 2, line_twin.SIZES)
    folder = line_bundle.write_bundle(tmp_path / "bundle", twin=twin)
    (folder / "twin.wasm").write_bytes(code)
    with refused("bundle", "its memory is not the one that plan.json describes"):
        wgcc_runtime.load(folder, device="wasm")


def test_more_than_four_gigabytes(tmp_path: Path) -> None:
    folder = with_module(tmp_path / "bundle", EMPTY)
    twin = {**record(*assemble(EMPTY), line_twin.SIZES), "scratch": 1 << 31}
    line_bundle.write_plan(folder, {**line_bundle.make_plan(), "twin": twin})
    with refused("memory", "4,295,032,832 bytes with 2 threads; WebAssembly has 4 GiB"):
        wgcc_runtime.load(folder, device="wasm", threads=2)
    with refused("memory", "needs 2,147,549,184 bytes; .*max_bytes=2147549184"):
        wgcc_runtime.load(folder, device="wasm", threads=1, max_bytes=1 << 30)


OUT_OF_MEMORY = """
import resource, sys
import wgcc_runtime
resource.setrlimit(resource.RLIMIT_AS, (1 << 30,) * 2)
try:
    wgcc_runtime.load(sys.argv[1], device="wasm", threads=int(sys.argv[2]))
except wgcc_runtime.WgccError as error:
    print(error)
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_out_of_memory(tmp_path: Path, threads: int) -> None:
    folder = with_module(tmp_path / "bundle", EMPTY)
    twin = {**record(*assemble(EMPTY), line_twin.SIZES), "scratch": 3 << 29}
    line_bundle.write_plan(folder, {**line_bundle.make_plan(), "twin": twin})
    done = subprocess.run(
        [sys.executable, "-c", OUT_OF_MEMORY, str(folder), str(threads)],
        env={**os.environ, "PYTHONPATH": python_path()},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    size = -(-((3 << 29) * threads + 4672) // PAGE) * PAGE
    wanted = f"memory: there is not enough memory for {size:,} bytes of linear memory"
    assert done.stdout.startswith(wanted), done.stderr
    assert "smaller batch" in done.stdout


@pytest.mark.parametrize("threads", [0, -1, 65, 1.5, "two", True])
def test_numbers_of_threads_are_checked(bundle: Path, threads: Any) -> None:
    with refused("range", "threads is .*from 1 to 64"):
        wgcc_runtime.load(bundle, device="wasm", threads=threads)


def test_default_number_of_threads(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = wgcc_runtime.load_plan(bundle)
    twin, all_ = plan.twin, set(plan.entries)
    assert twin is not None
    monkeypatch.setattr(wasm_machine, "_cores", lambda: 3)
    assert choose_threads(None, plan, twin).count == 1  # it is a small model
    monkeypatch.setattr(wasm_machine, "THREADED_FLOPS", 0)
    assert choose_threads(None, plan, twin) == Threads(3, frozenset(all_))
    monkeypatch.setattr(wasm_machine, "_cores", lambda: 99)
    assert choose_threads(None, plan, twin).count == 4
    monkeypatch.setenv("WGCC_THREADS", "7")
    assert choose_threads(None, plan, twin).count == 7
    assert choose_threads(2, plan, twin) == Threads(2, frozenset(all_))
    monkeypatch.setenv("WGCC_THREADS", "many")
    with refused("range", "WGCC_THREADS is 'many'"):
        choose_threads(None, plan, twin)


def test_small_entries_run_alone(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside an entry that is worth several threads, which gives the same bits."""
    plan = json.loads((bundle / "plan.json").read_text())
    plan["entries"]["train"]["dispatches"][1]["flops"] = 10**9
    shutil.copytree(bundle, tmp_path / "bundle")
    line_bundle.write_plan(tmp_path / "bundle", plan)
    monkeypatch.setattr(wasm_machine, "_cores", lambda: 3)
    with wgcc_runtime.load(tmp_path / "bundle", device="wasm") as model:
        assert model.device_name == "WebAssembly (3 threads)"
        model.predict(x=batches(1)[0]["x"])
        before = set(threading.enumerate())
        model.predict(x=batches(1)[0]["x"])
        assert set(threading.enumerate()) == before
        model.fit(data(), steps=9, every=9, seed=4)
        assert len(set(threading.enumerate()) - before) == 2
        with wgcc_runtime.load(bundle, device="wasm", threads=1) as single:
            single.fit(data(), steps=9, every=9, seed=4)
            assert_same(everything(model), everything(single))


def test_choice_without_a_gpu(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = wgcc_runtime.load_plan(bundle)
    monkeypatch.delenv("WGCC_DEVICE", raising=False)
    monkeypatch.setattr(choice, "may_have_gpu", lambda: True)
    for device in (None, "auto", "AUTO", "wasm", "WASM", "WebAssembly (2 threads)"):
        assert choice.choose(device, plan, None) == "wasm", device  # adapters here are software
    assert choice.choose("webgpu", plan, None) is None
    assert choice.choose("llvmpipe", plan, None) == "llvmpipe"
    assert choice.choose(None, plan, "gpu") is None
    monkeypatch.setenv("WGCC_DEVICE", "llvmpipe")
    assert choice.choose(None, plan, None) == "llvmpipe"
    assert choice.choose("wasm", plan, None) == "wasm"
    monkeypatch.setenv("WGCC_DEVICE", "wasm")
    assert choice.choose("webgpu", plan, None) is None
    with wgcc_runtime.load(bundle, device="webgpu") as model:
        assert "WebAssembly" not in model.device_name


class Gpu:
    """An adapter as wgpu describes it."""

    def __init__(self, kind: str, name: str = "Some GPU", **limits: int) -> None:
        self.info = {"device": name, "adapter_type": kind}
        self.features: set[str] = set()
        self.limits = limits


def test_choice_with_a_gpu(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = wgcc_runtime.load_plan(bundle)
    software, weak = (
        Gpu("CPU", "llvmpipe"),
        Gpu("DiscreteGPU", **{"max-storage-buffers-per-shader-stage": 4}),
    )
    hardware = Gpu("IntegratedGPU")
    monkeypatch.delenv("WGCC_DEVICE", raising=False)
    monkeypatch.setattr(choice, "may_have_gpu", lambda: True)
    monkeypatch.setattr(choice, "adapters", lambda: [weak, software, hardware])
    assert choice.choose(None, plan, None) is hardware
    assert choice.choose("wasm", plan, None) == "wasm"
    monkeypatch.setattr(choice, "adapters", lambda: [weak, software])
    assert choice.choose("auto", plan, None) == "wasm"


def test_broken_drivers_do_not_matter(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        raise wgcc_runtime.WgccError("no-wgpu", "broken")

    monkeypatch.delenv("WGCC_DEVICE", raising=False)
    monkeypatch.setattr(choice, "may_have_gpu", lambda: True)
    monkeypatch.setattr(choice, "adapters", broken)
    with wgcc_runtime.load(bundle) as model:
        assert model.profile_name == "wasm"


def test_bundles_without_a_twin_run_as_ever(tmp_path: Path) -> None:
    folder = line_bundle.write_bundle(tmp_path / "bundle")
    with refused("name", "no twin to run as WebAssembly: build it again, without --no-twin"):
        wgcc_runtime.load(folder, device="wasm")
    with wgcc_runtime.load(folder) as model:
        assert model.profile_name != "wasm"


def test_the_twin_has_no_profiles(bundle: Path) -> None:
    with refused("name", "no profiles, such as `gpu`"):
        wgcc_runtime.load(bundle, device="wasm", profile="gpu")
    with wgcc_runtime.load(bundle, device="wasm", profile="wasm") as model:
        assert model.profile_name == "wasm"


LAZY = """
import sys
import wgcc_runtime
from line_training import batches
assert not {"wgpu", "wasmtime"} & set(sys.modules)
with wgcc_runtime.load(sys.argv[1], device="wasm", threads=2) as model:
    model.train(**batches(1)[0])
assert "wgpu" not in sys.modules
print("fine")
"""


def test_wgpu_is_not_imported_for_the_twin(bundle: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LAZY, str(bundle)],
        env={**os.environ, "PYTHONPATH": python_path()},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "fine\n", done.stderr


def test_without_wasmtime(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    with refused("no-wasmtime", "pip install wasmtime"):
        wgcc_runtime.load(bundle, device="wasm")
