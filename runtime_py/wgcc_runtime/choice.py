"""Chooses what a bundle runs on: a GPU through WebGPU, else its WebAssembly twin.

A software adapter is used if it is requested, and for bundles without a twin.
"""

from __future__ import annotations

import glob
import os
import sys
from typing import Any

from wgcc_runtime.device import adapter_name, adapters, can_run, is_software
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import Plan

AUTO, WASM, WEBGPU = "auto", "wasm", "webgpu"
# Linux with a driver for a GPU has one of these; without them, WebGPU need not be tried.
GPU_FILES = ("/dev/dri/*", "/dev/nvidia*", "/dev/dxg", "/dev/kgsl*", "/dev/mali*", "/dev/nvhost*")


def choose(device: Any, plan: Plan, profile: str | None) -> Any:
    """`WASM` for the bundle's twin, else what `open_device` takes."""
    wanted = os.environ.get("WGCC_DEVICE") or AUTO if device in (None, "") else device
    name = wanted.lower() if isinstance(wanted, str) else ""
    # `model.device_name` of a twin names it, too.
    if name == WASM or name.startswith("webassembly"):
        _check_twin(plan, profile)
        return WASM
    if name == WEBGPU:
        return None
    if name != AUTO:
        return wanted
    if plan.twin is None or profile not in (None, WASM):
        return None
    return WASM if profile == WASM else hardware_adapter(plan) or WASM


def default_choice() -> tuple[str, str]:
    """The device that a bundle with a twin runs on if `device` is not given, and the reason."""
    wanted = os.environ.get("WGCC_DEVICE") or AUTO
    if wanted.lower() != AUTO:
        return wanted, "$WGCC_DEVICE asks for it"
    adapter = hardware_adapter()
    if adapter:
        return adapter_name(adapter), "it is a GPU"
    return WASM, "no GPU was found"


def hardware_adapter(plan: Plan | None = None) -> Any:
    """The best adapter that is a GPU and can run the plan, or None."""
    if not may_have_gpu():
        return None
    try:
        candidates = adapters()
    except WgccError:
        # A broken or missing driver is not an error, because the twin needs none.
        return None
    kinds = (
        (adapter, adapter_name(adapter), adapter.info["adapter_type"]) for adapter in candidates
    )
    hardware = (adapter for adapter, name, kind in kinds if not is_software(name, kind))
    return next((one for one in hardware if plan is None or can_run(one, plan)), None)


def may_have_gpu() -> bool:
    return not sys.platform.startswith("linux") or any(map(glob.glob, GPU_FILES))


def _check_twin(plan: Plan, profile: str | None) -> None:
    if plan.twin is None:
        why = plan.no_twin or "build it again, without --no-twin"
        text = f"the bundle has no twin to run as WebAssembly: {why}"
        raise WgccError("name", text, "device")
    if profile not in (None, WASM):
        text = f"the twin has no profiles, such as `{profile}`; they are for WebGPU"
        raise WgccError("name", text, "profile")
