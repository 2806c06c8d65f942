"""Every n-th allocation, instance and call of a short run of the twin fails, for every n.

Each failure is one clean error; whatever checkpoint is there afterwards is a right one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import wasmtime

import line_twin
import wgcc_runtime
from line_training import batches, everything
from test_faults import MOST_CALLS, STEPS, check_files, failing, run
from wgcc_runtime import WgccError, wasm_machine
from wgcc_runtime.wasm_engine import Instance, compile_module

REASONS = {
    "refused": lambda: wasmtime.WasmtimeError("injected"),
    "memory": lambda: MemoryError("injected"),
    "trap": lambda: wasmtime.Trap("wasm trap: injected"),
}
# Where a fault is, and the codes of its error for the reasons above.
FAULTS: dict[str, tuple[Any, str, tuple[str, ...]]] = {
    "module": (wasmtime.Module, "__init__", ("bundle", "memory")),
    "store": (wasmtime.Store, "__init__", ("gpu", "memory")),
    "memory": (wasmtime.Memory, "__init__", ("gpu", "memory")),
    "shared memory": (wasmtime.SharedMemory, "__init__", ("gpu", "memory")),
    "instance": (wasmtime.Instance, "__init__", ("bundle", "memory")),
    "call": (Instance, "call", ("gpu", "memory", "device-lost")),
    "storage": (wasm_machine, "_zeros", ("gpu", "memory")),
}
CASES = [
    (fault, reason)
    for fault, (_, _, codes) in FAULTS.items()
    for reason in list(REASONS)[: len(codes)]
]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return line_twin.write_bundle(tmp_path_factory.mktemp("faults") / "bundle")


@pytest.fixture(scope="module")
def right(bundle: Path) -> list[dict[str, Any]]:
    """Everything of the model after 0, 1, 2 and 3 steps."""
    with wgcc_runtime.load(bundle, device="wasm") as model:
        found = [everything(model)]
        for item in batches(STEPS):
            model.train(**item)
            found.append(everything(model))
    return found


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("fault", "reason"), CASES)
def test_faults_of_the_twin(
    fault: str, reason: str, threads: int, bundle: Path, right: list[dict[str, Any]], tmp_path: Path
) -> None:
    owner, name, codes = FAULTS[fault]
    code = codes[list(REASONS).index(reason)]
    plan = wgcc_runtime.load_plan(bundle)
    for number in range(1, MOST_CALLS):
        path = tmp_path / f"{number}.safetensors"
        compile_module.cache_clear()
        with failing(owner, name, number, REASONS[reason]) as calls:
            try:
                run(bundle, path, "wasm", threads)
            except WgccError as error:
                assert error.code == code, error
            else:
                # Only a failed copy for undoing a step may pass without an error.
                undone = (fault, reason) == ("storage", "memory")
                assert len(calls) < number or undone, f"call {number} of {name} failed unnoticed"
        check_files(path, plan, right)
        if len(calls) < number:
            break
    unused = {1: "shared memory", 3: "memory"}[threads]
    assert (fault == unused or number > 1) and number < MOST_CALLS - 1
