"""The two software adapters of every GPU test: where their drivers are, and devices on them."""

from __future__ import annotations

import glob
import os
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
INSTALL = "`python3 dev.py test` installs what the tests need"

# The name of the driver, and where distributions install the file that describes it.
NAMES = {"lavapipe": "llvmpipe", "swiftshader": "SwiftShader"}
DRIVER_FILES = {
    "lavapipe": (
        "/usr/share/vulkan/icd.d/lvp_icd*.json",
        "/usr/local/share/vulkan/icd.d/lvp_icd*.json",
        "/etc/vulkan/icd.d/lvp_icd*.json",
    ),
    "swiftshader": (
        "/usr/lib*/chromium*/vk_swiftshader_icd.json",
        "/usr/share/chromium*/vk_swiftshader_icd.json",
        "/opt/*/chrome*/vk_swiftshader_icd.json",
        "/snap/chromium/current/usr/lib/chromium-browser/vk_swiftshader_icd.json",
        "/usr/share/vulkan/icd.d/vk_swiftshader_icd*.json",
    ),
}
PACKAGES = {"lavapipe": "mesa-vulkan-drivers", "swiftshader": "chromium"}

# The limits that every WebGPU implementation grants; wgpu would otherwise grant the adapter's own.
DEFAULT_LIMITS = {
    "max-bind-groups": 4,
    "max-bindings-per-bind-group": 1000,
    "max-buffer-size": 268435456,
    "max-compute-invocations-per-workgroup": 256,
    "max-compute-workgroup-size-x": 256,
    "max-compute-workgroup-size-y": 256,
    "max-compute-workgroup-size-z": 64,
    "max-compute-workgroup-storage-size": 16384,
    "max-compute-workgroups-per-dimension": 65535,
    "max-storage-buffer-binding-size": 134217728,
    "max-storage-buffers-per-shader-stage": 8,
    "max-uniform-buffer-binding-size": 65536,
    "max-uniform-buffers-per-shader-stage": 12,
    "min-storage-buffer-offset-alignment": 256,
    "min-uniform-buffer-offset-alignment": 256,
}


def use_software_drivers() -> None:
    """Make Vulkan offer both adapters and nothing else. Call before wgpu is first imported."""
    os.environ.update(environment("lavapipe", "swiftshader"))


def environment(*adapters: str) -> dict[str, str]:
    """Variables for a process that should see only these adapters."""
    drivers = os.pathsep.join(found for name in adapters if (found := driver_file(name)))
    return {
        "VK_ICD_FILENAMES": drivers,
        "VK_DRIVER_FILES": drivers,
        # Without such a folder, Mesa prints a warning on stderr.
        "XDG_RUNTIME_DIR": os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir(),
    }


def running_on(target: str) -> dict[str, str]:
    """Variables for a process that runs bundles on this adapter, or without any as WebAssembly."""
    if target == "wasm":
        nowhere = os.path.join(tempfile.gettempdir(), "no-driver.json")
        found = {"VK_ICD_FILENAMES": nowhere, "VK_DRIVER_FILES": nowhere, "WGCC_DEVICE": "auto"}
        return {**environment(), **found}
    return {**environment(target), "WGCC_DEVICE": "webgpu"}


def driver_file(adapter: str) -> str | None:
    patterns = DRIVER_FILES[adapter]
    return next((path for pattern in patterns for path in sorted(glob.glob(pattern))), None)


def request_device(adapter: str) -> Any:
    """A device with WebGPU's default limits. Raises LookupError that says what to install."""
    import wgpu

    if driver_file(adapter) is None:
        raise LookupError(f"no {adapter} driver: install {PACKAGES[adapter]}; {INSTALL}")
    for candidate in wgpu.gpu.enumerate_adapters_sync():
        info = candidate.info
        if info["backend_type"] == "Vulkan" and NAMES[adapter] in info["device"]:
            return candidate.request_device_sync(required_limits=DEFAULT_LIMITS)
    raise LookupError(f"the {adapter} driver is there but gives no Vulkan adapter; {INSTALL}")
