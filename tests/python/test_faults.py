"""Every n-th buffer, pipeline, map, write and file operation of a short run fails, for every n.

Each failure is one clean error; a checkpoint that exists afterwards is correct.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import wgpu
from wgpu.backends.wgpu_native import _api

import line_bundle
import wgcc_runtime
from line_training import batches, everything
from wgcc_runtime import WgccError
from wgcc_runtime.checkpoint import resume_checkpoint
from wgcc_runtime.plan import Plan
from wgcc_runtime.replace_file import previous

STEPS = 3
MOST_CALLS = 400
GPU_FAULTS: dict[str, tuple[Any, str]] = {
    "buffer": (_api.GPUDevice, "create_buffer"),
    "shader": (_api.GPUDevice, "create_shader_module"),
    "pipeline": (_api.GPUDevice, "create_compute_pipeline"),
    "bind group": (_api.GPUDevice, "create_bind_group"),
    "layout": (_api.GPUDevice, "create_bind_group_layout"),
    "encoder": (_api.GPUDevice, "create_command_encoder"),
    "submit": (_api.GPUQueue, "submit"),
    "write": (_api.GPUQueue, "write_buffer"),
    "copy": (_api.GPUCommandEncoder, "copy_buffer_to_buffer"),
    "map": (_api.GPUBuffer, "map_async"),
    "read": (_api.GPUBuffer, "read_mapped"),
}
# Calls of `load` that find out how wgpu compiles subgroup operations.
SUBGROUP_TRIALS = {"shader": 2, "pipeline": 1}
REASONS = {
    "refused": lambda: wgpu.GPUValidationError("injected"),
    "memory": lambda: wgpu.GPUOutOfMemoryError("Out of memory: injected"),
    "lost": lambda: wgpu.GPUValidationError("Parent device is lost"),
}
FILE_FAULTS: dict[str, tuple[Any, str]] = {
    "open": (builtins, "open"),
    "fsync": (os, "fsync"),
    "replace": (os, "replace"),
    "link": (os, "link"),
    "mkdir": (Path, "mkdir"),
}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return line_bundle.write_bundle(tmp_path_factory.mktemp("faults") / "bundle")


@pytest.fixture(scope="module")
def right(bundle: Path) -> list[dict[str, Any]]:
    """Everything of the model after 0, 1, 2 and 3 steps."""
    found = []
    with wgcc_runtime.load(bundle, device="lavapipe") as model:
        for item in [*batches(STEPS), None]:
            found.append(everything(model))
            if item:
                model.train(**item)
    return found


def run(bundle: Path, path: Path, device: str = "lavapipe", threads: int = 1) -> None:
    with wgcc_runtime.load(bundle, device=device, threads=threads) as model:
        model.fit(batches(STEPS), steps=STEPS, every=1, checkpoint=path, checkpoint_every=1)


@contextmanager
def failing(owner: Any, name: str, number: int, error: Callable[[], Exception]) -> Iterator[Any]:
    """The call with this number raises; the list holds one item per call."""
    calls: list[int] = []
    real = getattr(owner, name)

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(len(calls))
        if len(calls) == number:
            raise error()
        return real(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, counted)
        yield calls


def check_files(path: Path, plan: Plan, right: list[dict[str, Any]]) -> None:
    """There is no checkpoint, or it holds exactly the values of the model at its step."""
    assert not list(path.parent.glob(".*.tmp"))
    for file in (path, previous(path)):
        if file.exists():
            found = resume_checkpoint(file, plan, {})
            for name, value in found.words.items():
                wanted = right[found.progress.step("train")][name]
                assert value.tobytes() == wanted.astype(value.dtype).tobytes(), (file, name)


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("fault", GPU_FAULTS)
def test_gpu_faults(
    fault: str, reason: str, bundle: Path, right: list[dict[str, Any]], tmp_path: Path
) -> None:
    owner, name = GPU_FAULTS[fault]
    plan = wgcc_runtime.load_plan(bundle)
    for number in range(1, MOST_CALLS):
        path = tmp_path / f"{number}.safetensors"
        with failing(owner, name, number, REASONS[reason]) as calls:
            try:
                run(bundle, path)
            except WgccError as error:
                wanted = {"refused": "gpu", "memory": "memory", "lost": "device-lost"}[reason]
                assert error.code == wanted, error
            else:
                # Only a failed copy for undoing a step may pass without an error, and a driver that
                # refuses kernels with subgroup operations.
                undone = (fault, reason) == ("buffer", "memory")
                tried = reason == "refused" and number <= SUBGROUP_TRIALS.get(fault, 0)
                unnoticed = f"call {number} of {name} failed unnoticed"
                assert len(calls) < number or undone or tried, unnoticed
        check_files(path, plan, right)
        if len(calls) < number:
            break
    assert 1 < number < MOST_CALLS - 1


@pytest.mark.parametrize("fault", FILE_FAULTS)
def test_file_faults(fault: str, bundle: Path, right: list[dict[str, Any]], tmp_path: Path) -> None:
    owner, name = FILE_FAULTS[fault]
    plan = wgcc_runtime.load_plan(bundle)
    for number in range(1, MOST_CALLS):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "ck.safetensors"
        with failing(owner, name, number, lambda: OSError(28, "No space left on device")) as calls:
            try:
                run(bundle, path)
            except WgccError as error:
                assert error.code in ("weights", "bundle", "gpu"), error
            else:
                # The previous file is kept if that is possible.
                assert len(calls) < number or fault in ("link", "replace")
        check_files(path, plan, right)
        if len(calls) < number:
            break
    assert number < MOST_CALLS - 1
