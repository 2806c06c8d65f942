"""Kernels that run without the checks of naga, because what these ensure was proven beforehand.

naga clamps indices of workgroup memory and bounds each loop. Whether a kernel needs that is never
read from a bundle, which anybody can write: the compiler installed here proves it again, from the
text that is about to run. Without the compiler all kernels keep their checks.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from wgcc_runtime.device import Device, is_software
from wgcc_runtime.plan import Dispatch, Plan
from wgcc_runtime.provers import Grid, prover

# Bits of wgpu's `WGPUShaderRuntimeChecks`.
INDICES, LOOPS = 1, 2
ALL = INDICES | LOOPS
# Where indices of storage buffers are checked by the driver too, whatever naga leaves out.
_BACKENDS = ("Vulkan",)
_NATIVE = "wgpu.backends.wgpu_native._api"


class Unchecked:
    """Says of each kernel of a plan which checks it can do without."""

    def __init__(self, device: Device, plan: Plan, profile: str, checked: bool | None) -> None:
        self._gpu, self._plan = device.gpu, plan
        self._is_allowed = _allows(device, checked)
        self._largest = _largest_grids(plan, profile) if self._is_allowed else {}

    def flags(self, number: int, text: str) -> int:
        """The checks that the kernel with this number needs."""
        kernel = self._plan.kernels[number]
        if number not in self._largest or f"kernels/{kernel.file}" in self._plan.edited:
            return ALL
        prove = prover()
        if prove is None:
            return ALL
        in_range, end = prove(text, self._largest[number])
        return 0 if in_range and end else LOOPS if in_range else ALL

    def covers(self, dispatch: Dispatch) -> bool:
        """Whether what is proven of a kernel holds for this grid."""
        largest = self._largest.get(dispatch.kernel)
        return largest is not None and all(map(int.__le__, dispatch.grid, largest))

    def module(self, text: str, label: str, flags: int) -> Any:
        """A shader module with these checks alone; None if this wgpu cannot make it."""
        try:
            api = importlib.import_module(_NATIVE)
            make = api.libf.wgpuDeviceCreateShaderModuleTrusted
            descriptor, alive = _descriptor(api, text, label)
        except (ImportError, AttributeError, TypeError):
            return None
        pointer = make(self._gpu._internal, descriptor, flags)
        alive.clear()
        return api.GPUShaderModule(label, pointer, self._gpu)


def _allows(device: Device, checked: bool | None) -> bool:
    info = device.gpu.adapter.info
    if checked or info["backend_type"] not in _BACKENDS:
        return False
    # Proofs take longer than they save on a CPU.
    return checked is False or not is_software(device.name, info["adapter_type"])


def _largest_grids(plan: Plan, profile: str) -> dict[int, Grid]:
    largest: dict[int, Grid] = {}
    for dispatch in _dispatches(plan, profile):
        x, y, z = map(max, dispatch.grid, largest.get(dispatch.kernel, (1, 1, 1)))
        largest[dispatch.kernel] = x, y, z
    return largest


def _dispatches(plan: Plan, profile: str) -> Iterator[Dispatch]:
    for name, entry in plan.entries.items():
        yield from plan.dispatches(name, profile)
        if entry.guard:
            yield from entry.guard.dispatches
    yield from plan.copies


def _descriptor(api: Any, text: str, label: str) -> tuple[Any, list[Any]]:
    """A descriptor of wgpu's library, and what must live as long as it is used."""
    ffi = api.ffi
    source = ffi.new("WGPUShaderSourceWGSL *")
    source.chain.sType = api.lib.WGPUSType_ShaderSourceWGSL
    descriptor = ffi.new("WGPUShaderModuleDescriptor *")
    descriptor.nextInChain = ffi.cast("WGPUChainedStruct *", source)
    alive = [source]
    for view, string in ((source.code, text), (descriptor.label, label)):
        data = ffi.new("char[]", string.encode())
        view.data, view.length = data, len(data) - 1
        alive.append(data)
    return descriptor, alive
