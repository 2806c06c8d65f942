"""Builds bundles with their web files; runs jobs (tests/web/*.js) in Node, Deno and Chromium."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapters import INSTALL, ROOT, environment
from building import build
from wgcc.bundle.folder import write_files
from wgcc.bundle.web import web_files
from wgcc.cli.commands.verify.stacks import run_on

NODE = ROOT / ".cache" / "node"
TOOLS = NODE / "node_modules" / ".bin"
JOBS = ROOT / "tests" / "web"
# The driver that each stack uses here: Deno's WebGPU is wgpu, like Python's; the others use Dawn.
ADAPTERS = {
    "node": "swiftshader", "deno": "lavapipe", "chrome": "swiftshader", "firefox": "swiftshader",
}  # fmt: skip


def build_web(source: Path, folder: Path, twin: bool = True, **sizes: int) -> Path:
    """Compile a model into a complete bundle."""
    return build(source, folder, twin, **sizes)


def add_web_files(bundle: Path) -> Path:
    """The web files for a bundle that was written by hand."""
    files = {
        path.relative_to(bundle).as_posix(): path.read_bytes()
        for path in sorted(bundle.rglob("*"))
        if path.is_file()
    }
    plan = json.loads(files["plan.json"])
    files.setdefault(plan["model"]["source"], b"")
    write_files({**files, **web_files(plan, files)}, bundle)
    return bundle


def run_job(stack: str, bundle: Path, job: str, arguments: Mapping[str, Any] | None = None) -> Any:
    """What tests/web/JOB.js returns for the bundle on a stack."""
    with pytest.MonkeyPatch.context() as patch:
        for key, value in environment(ADAPTERS[stack]).items():
            patch.setenv(key, value)
        patch.setenv("PATH", f"{TOOLS}{os.pathsep}{os.environ['PATH']}")
        return run_on(stack, bundle, JOBS / f"{job}.js", arguments or {}, [NODE])


def run_node(script: str, *arguments: str, data: Any = None) -> Any:
    """A script of tests/web that needs no GPU, with JSON in and out."""
    done = subprocess.run(
        ["node", str(JOBS / script), *arguments],
        input=json.dumps(data),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NODE_FOLDER": str(NODE), **environment("swiftshader")},
    )
    assert done.returncode == 0, f"{script} failed ({INSTALL}):\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout) if done.stdout.strip() else None


def verify(
    bundle: Path, *options: str, drivers: Sequence[str] = ("lavapipe", "swiftshader")
) -> subprocess.CompletedProcess[str]:
    """`wgcc verify`, in the folder where npm's webgpu is, with these drivers available."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime_py")])
    tools = f"{TOOLS}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [sys.executable, "-m", "wgcc", "verify", str(bundle), *options],
        cwd=NODE,
        env={**os.environ, **environment(*drivers), "PYTHONPATH": path, "PATH": tools},
        capture_output=True,
        text=True,
        check=False,
    )


def tool(name: str, *arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A program that npm installed."""
    program = TOOLS / name
    assert program.exists(), f"{name} is missing; {INSTALL}"
    return subprocess.run(
        [str(program), *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def as_lists(batch: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """Arrays as lists for JSON: float32 values survive the conversion to double and back."""
    return {name: array.ravel().tolist() for name, array in batch.items()}


def from_base64(text: str) -> bytes:
    return base64.b64decode(text)


def to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
