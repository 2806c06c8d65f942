"""Compile WGSL with Tint (Chromium's shader compiler) through Node, many kernels at once."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from adapters import INSTALL, ROOT

NODE_FOLDER = ROOT / ".cache" / "node"
SCRIPT = ROOT / "tests" / "tint" / "compile.mjs"
# Tint needs milliseconds for a kernel; a hang must not hang the tests.
SECONDS_PER_KERNEL, SECONDS_TO_START = 1, 60


def compile_all(
    paths: Iterable[Path | str], halves: bool = False, subgroups: bool = False
) -> dict[str, list[str]]:
    """Messages per path; an empty list means that every browser built on Tint accepts the kernel.

    `halves` says that the kernels may use f16, `subgroups` subgroup operations, as those in a
    bundle's folder of that name may.
    """
    wanted = [str(path) for path in paths]
    forms = [] if subgroups else [path for path in wanted if Path(path).parent.name == "subgroups"]
    if forms:
        others = [path for path in wanted if path not in forms]
        return {**compile_all(others, halves), **compile_all(forms, halves, subgroups=True)}
    features = ["shader-f16"] * halves + ["subgroups"] * subgroups
    done = subprocess.run(
        [_node(), str(SCRIPT), str(NODE_FOLDER), *features],
        input=json.dumps(wanted),
        capture_output=True,
        text=True,
        timeout=SECONDS_TO_START + SECONDS_PER_KERNEL * len(wanted),
        check=False,
    )
    assert done.returncode == 0, f"Tint did not run ({INSTALL}):\n{done.stderr}"
    results: dict[str, list[str]] = json.loads(done.stdout)
    return results


def _node() -> str:
    node = shutil.which("node")
    assert node, f"Node is missing; {INSTALL}"
    assert (NODE_FOLDER / "node_modules" / "webgpu").is_dir(), f"npm's webgpu is missing; {INSTALL}"
    return node
