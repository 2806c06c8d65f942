"""Has wgpu or Dawn translate kernels, and collects the SPIR-V that it hands to the driver.

Both run on a software adapter. Between them and the driver is a Vulkan layer (`layer.c`), compiled
when it is needed, which keeps the SPIR-V. So it is what users' drivers get, with all the checks.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from wgcc.errors import WgError
from wgcc.isa import tools
from wgcc.isa.processes import last_line, run_worker

HERE = Path(__file__).parent
LAYER = "VK_LAYER_wgcc_spirv"


def translate(
    kernels: Mapping[str, str], by: str, folder: Path
) -> tuple[dict[str, Path], dict[str, str]]:
    """Files with the SPIR-V of kernels, in the folder, and the errors of kernels that have none.

    `by` is `naga`, `trusted` (naga without run-time checks) or `tint`.
    """
    # Files are called by numbers: a name may be no name of a file.
    numbered = {str(i): text for i, text in enumerate(kernels.values())}
    dump = folder / "modules"
    dump.mkdir()
    variables = {
        **tools.only_driver("lavapipe"),
        **_layer(folder),
        "WGCC_SPIRV": str(dump),
        "XDG_RUNTIME_DIR": os.environ.get("XDG_RUNTIME_DIR", str(folder)),
    }
    command = _command(by, dump, folder)
    code, _, said = run_worker(by, command, variables, json.dumps(numbered))
    if code:
        raise WgError(f"{by} failed: {last_line(said)}")
    files = {name: folder / f"{number}.spv" for number, name in enumerate(kernels)}
    failed = {name: file.with_suffix(".txt") for name, file in files.items() if not file.is_file()}
    errors = {name: _in_one_line(file.read_text("utf-8")) for name, file in failed.items()}
    return {name: file for name, file in files.items() if name not in errors}, errors


def _in_one_line(error: str) -> str:
    """naga's own words, without those of wgpu around them."""
    told = re.search(r"(?:parsing error: |error: )(.*)", error)
    return told[1] if told else last_line(error)


def _command(by: str, dump: Path, out: Path) -> list[str]:
    if by == "tint":
        package = tools.node_package("webgpu")
        return ["node", str(HERE / "tint.mjs"), str(package), str(dump), str(out)]
    return [sys.executable, str(HERE / "naga.py"), str(dump), str(out), by]


def _layer(folder: Path) -> dict[str, str]:
    """The layer as a library, and the variables by which Vulkan's loader finds it."""
    library, cc = folder / "layer.so", tools.compiler()
    assert cc is not None
    command = [cc, "-shared", "-fPIC", "-O1", str(HERE / "layer.c"), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise WgError(f"{cc} cannot compile wgcc's Vulkan layer: {last_line(done.stderr)}")
    description = {
        "file_format_version": "1.1.0",
        "layer": {
            "name": LAYER,
            "type": "GLOBAL",
            "library_path": str(library),
            "api_version": "1.3.0",
            "implementation_version": "1",
            "description": "Keeps the SPIR-V that drivers are given",
            "functions": {
                "vkGetInstanceProcAddr": "wgcc_get_instance_proc",
                "vkGetDeviceProcAddr": "wgcc_get_device_proc",
            },
        },
    }
    (folder / "layer.json").write_text(json.dumps(description), encoding="utf-8")
    return {"VK_INSTANCE_LAYERS": LAYER, "VK_LAYER_PATH": str(folder)}
