"""A process in which wgpu translates kernels, under the layer that keeps their SPIR-V.

    python naga.py DUMPED OUT naga|trusted < {"NAME": "WGSL"}

Writes OUT/NAME.spv, or OUT/NAME.txt with the error. It stands alone, so that it starts soon.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import wgpu


def main(dumped: Path, out: Path, mode: str) -> None:
    if mode == "trusted":
        _trust()
    adapters = wgpu.gpu.enumerate_adapters_sync()
    adapter = next(one for one in adapters if one.info["backend_type"] == "Vulkan")
    features = [name for name in ("shader-f16", "subgroup") if name in adapter.features]
    limits = {key: value for key, value in adapter.limits.items() if not key.startswith("min")}
    device = adapter.request_device_sync(required_features=features, required_limits=limits)
    for name, text in json.load(sys.stdin).items():
        before = set(dumped.iterdir())
        try:
            module = device.create_shader_module(code=text)
            compute = {"module": module, "entry_point": "main"}
            device.create_compute_pipeline(layout="auto", compute=compute)
        except (wgpu.GPUError, RuntimeError) as error:
            (out / f"{name}.txt").write_text(str(error), encoding="utf-8")
            continue
        max(set(dumped.iterdir()) - before).rename(out / f"{name}.spv")


def _trust() -> None:
    """Modules without run-time checks: neither clamps of indices nor bounds of loops."""
    from wgpu.backends.wgpu_native import _api, lib

    checked = _api.libf

    class Trusting:
        def __getattr__(self, name: str) -> Any:
            if name == "wgpuDeviceCreateShaderModule":
                return lambda *given: lib.wgpuDeviceCreateShaderModuleTrusted(*given, 0)
            return getattr(checked, name)

    _api.libf = Trusting()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
