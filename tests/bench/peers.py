"""The other libraries: installed into .cache/peers when first needed, never by the tests."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

CACHE = Path(__file__).resolve().parent.parent.parent / ".cache" / "peers"
NPM = (
    "@jax-js/jax@0.1.25",
    "@tensorflow/tfjs-core@4.22.0",
    "@tensorflow/tfjs-backend-webgpu@4.22.0",
    "@tensorflow/tfjs-backend-wasm@4.22.0",
)
# jax-js needs it; where the system's is older, npm has one for Linux.
OLDEST_NODE = 22
TORCH = "torch==2.13.0"


def say(text: str) -> None:
    print(f"· {text}", file=sys.stderr, flush=True)


def need_npm() -> None:
    packages = (*NPM, *_newer_node())
    stamp, wanted = CACHE / "installed", "\n".join(packages)
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    say(f"installing {', '.join(packages)} into .cache/peers")
    CACHE.mkdir(parents=True, exist_ok=True)
    quiet = ("--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--loglevel=error")
    subprocess.run(["npm", "install", *quiet, "--prefix", str(CACHE), *packages], check=True)
    stamp.write_text(wanted)


def _newer_node() -> tuple[str, ...]:
    done = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    if int(done.stdout.strip("v\n").split(".")[0]) >= OLDEST_NODE or sys.platform != "linux":
        return ()
    machine = "arm64" if platform.machine() in ("aarch64", "arm64") else "x64"
    return (f"node-linux-{machine}@{OLDEST_NODE}",)


def node_program() -> str:
    """The Node that all libraries run in."""
    newer = CACHE / "node_modules" / ".bin" / "node"
    return str(newer) if newer.exists() else "node"


def torch_python() -> Path | None:
    """Python in an environment of its own with PyTorch; None, with a reason, if that fails."""
    # Linux's ordinary wheel brings gigabytes of CUDA.
    wanted = f"{TORCH}+cpu" if sys.platform == "linux" else TORCH
    folder = CACHE / "torch"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    stamp = folder / "installed"
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    say(f"installing {wanted} into .cache/peers/torch")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-input", wanted, "numpy"]
    for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], pip):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            say(f"PyTorch is left out, it could not be installed: {reason}")
            return None
    stamp.write_text(wanted)
    return python
