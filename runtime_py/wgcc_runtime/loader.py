"""`load`: reads a bundle and makes a model on the GPU; all checks precede the first GPU call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wgcc_runtime.bundle_files import open_bundle, read_kernel
from wgcc_runtime.device import DEFAULT_PROFILE, open_device
from wgcc_runtime.errors import WgccError
from wgcc_runtime.forked import check_process
from wgcc_runtime.machine import Machine
from wgcc_runtime.model import Model
from wgcc_runtime.plan import MAX_PLAN_BYTES, Plan, read_plan
from wgcc_runtime.threefry import checked_seed
from wgcc_runtime.values import StartValues
from wgcc_runtime.wgsl_guard import guard_wgsl

# What a bundle may allocate on the GPU unless the caller allows more.
MAX_BYTES = 8 << 30


def load(
    path: str | Path,
    device: Any = None,
    weights: Any = None,
    seed: int | None = None,
    profile: str | None = None,
    verify: bool = False,
    max_bytes: int = MAX_BYTES,
) -> Model:
    """A bundle (folder or .zip), ready to train and predict.

    `device`: part of an adapter's name, a wgpu adapter or device; default: the best adapter.
    `weights`: a safetensors file, its bytes, or arrays by name, instead of the bundle's own.
    `seed`: draws new initial values and seeds dropout and other random numbers.
    `profile`: `gpu`, `cpu`, `lavapipe` or `swiftshader` kernels; default: those tuned for the
    adapter, or for its kind.
    `verify`: run the bundle's self-test first; a wrong result raises code `selftest`.
    """
    check_process()
    seed = checked_seed(seed)
    read = open_bundle(path)
    plan = load_plan(path)
    total = sum(buffer.bytes for buffer in plan.buffers)
    if total > max_bytes:
        raise WgccError(
            "memory",
            f"the bundle needs {total:,} bytes on the GPU; load(..., max_bytes={total}) allows it",
        )
    sources = [read_kernel(read, kernel) for kernel in plan.kernels]
    for kernel, source in zip(plan.kernels, sources, strict=True):
        guard_wgsl(source, kernel.file)
    values = StartValues(plan, read, weights)
    if profile is not None and profile not in (DEFAULT_PROFILE, *plan.profiles):
        known = ", ".join(sorted({DEFAULT_PROFILE, *plan.profiles}))
        raise WgccError("name", f"the bundle has no profile `{profile}`; there are: {known}")
    opened = open_device(device, plan)
    if profile is not None and not opened.can_run(plan, profile):
        text = f"the {profile} kernels need subgroups of {plan.subgroup(profile)} threads"
        raise WgccError("feature", f"{text}; {opened.name} has {opened.subgroup}", profile)
    machine = Machine(opened, plan, sources, profile or opened.profile_in(plan))
    model = Model(machine, values, sources, seed)
    if verify:
        _verify(model)
    return model


def load_plan(path: str | Path) -> Plan:
    """The checked plan of a bundle, without touching a GPU."""
    data = open_bundle(path)("plan.json", MAX_PLAN_BYTES)
    if data is None:
        raise WgccError("bundle", f"{path} has no plan.json, so it is not a bundle of wgcc")
    return read_plan(data)


def _verify(model: Model) -> None:
    from wgcc_runtime.selftest import run_selftest

    for result in run_selftest(model):
        if not result.passed:
            raise WgccError("selftest", f"the self-test failed on {model.device_name}: {result}")
