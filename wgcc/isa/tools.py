"""Which programs, drivers and packages that compile for GPUs are installed, and how to get them."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from glob import glob
from pathlib import Path

from wgcc.errors import WgError

# Where distributions put the files that describe Vulkan drivers.
_DRIVER_FOLDERS = ("/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d")
_DRIVER_NAMES = {"radv": "radeon_icd*.json", "lavapipe": "lvp_icd*.json"}


def driver_file(driver: str) -> str | None:
    """The file that describes radv or lavapipe to Vulkan's loader."""
    patterns = (f"{folder}/{_DRIVER_NAMES[driver]}" for folder in _DRIVER_FOLDERS)
    return next((path for pattern in patterns for path in sorted(glob(pattern))), None)


def only_driver(driver: str) -> dict[str, str]:
    """Variables for a process that sees this driver alone."""
    file = driver_file(driver) or ""
    return {"VK_ICD_FILENAMES": file, "VK_DRIVER_FILES": file}


def compiler() -> str | None:
    """A C compiler."""
    return next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)


def node_package(name: str) -> Path | None:
    """The folder of an npm package: of this folder's project, or of NODE_PATH."""
    places = [parent / "node_modules" for parent in (Path.cwd(), *Path.cwd().parents)]
    places += [Path(place) for place in os.environ.get("NODE_PATH", "").split(os.pathsep) if place]
    return next((place / name for place in places if (place / name).is_dir()), None)


def nvidia_file(pattern: str) -> Path | None:
    """A file of NVIDIA's Python packages whose name matches."""
    names = re.compile(pattern)
    return next((file for file in _nvidia_files() if names.fullmatch(file.name)), None)


@cache
def _nvidia_files() -> tuple[Path, ...]:
    spec = importlib.util.find_spec("nvidia")
    folders = spec.submodule_search_locations if spec else None
    return tuple(file for folder in folders or () for file in Path(folder).rglob("*nv*"))


NVRTC = r"libnvrtc\.so\.\d+|nvrtc64_\d+_0\.dll"
NVDISASM = r"nvdisasm(\.exe)?"


def nvdisasm() -> str | None:
    packaged = nvidia_file(NVDISASM)
    return str(packaged) if packaged else shutil.which("nvdisasm")


def _has_loader() -> bool:
    try:
        ctypes.CDLL("libvulkan.so.1")
    except OSError:
        return False
    return True


# What each tool is found by, and how to get it. Debian's names stand for those of other systems.
_CHECKS: Mapping[str, tuple[Callable[[], object], str]] = {
    "radv": (lambda: driver_file("radv"), "Mesa's RADV driver: apt install mesa-vulkan-drivers"),
    "loader": (_has_loader, "Vulkan's loader: apt install libvulkan1"),
    "lavapipe": (
        lambda: driver_file("lavapipe"),
        "Mesa's software adapter: apt install mesa-vulkan-drivers",
    ),
    "cc": (compiler, "a C compiler: apt install gcc"),
    "wgpu": (lambda: importlib.util.find_spec("wgpu"), "pip install wgpu"),
    "node": (lambda: shutil.which("node"), "Node: apt install nodejs"),
    "webgpu": (lambda: node_package("webgpu"), "Dawn for Node: npm install webgpu"),
    "nvrtc": (lambda: nvidia_file(NVRTC), "pip install 'wgcc[isa]'"),
    "nvdisasm": (nvdisasm, "pip install 'wgcc[isa]'"),
}
_VULKAN = ("radv", "loader", "lavapipe", "cc")
# The WGSL compilers by which kernels get to a card, and what each needs.
NEEDS: Mapping[str, Sequence[str]] = {
    "naga": (*_VULKAN, "wgpu"),
    "tint": (*_VULKAN, "node", "webgpu"),
    "nvrtc": ("nvrtc", "nvdisasm"),
}


def missing(route: str) -> list[str]:
    """How to get what one of `NEEDS` lacks; empty if it can be used."""
    return list(dict.fromkeys(_advice(NEEDS[route])))


def _advice(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        is_there, advice = _CHECKS[name]
        if not is_there():
            yield advice


def require(route: str) -> None:
    lacking = missing(route)
    if lacking:
        raise WgError(f"{route} cannot be asked here; it needs {'; '.join(lacking)}")
