"""What the twin costs: CPU seconds of `wgcc build` with and without it, and its size."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any


def measure_builds(source: Path, folder: Path, repeats: int) -> dict[str, Any]:
    """Builds with and without the twin alternate."""
    times: dict[str, list[float]] = {"twin": [], "none": []}
    for _ in range(repeats):
        times["twin"].append(_cpu_seconds(source, folder / "twin"))
        times["none"].append(_cpu_seconds(source, folder / "none", "--no-twin"))
    twin = (folder / "twin" / "twin.wasm").read_bytes()
    return {
        **{name: median(values) for name, values in times.items()},
        "bytes": len(twin),
        "gzip": len(gzip.compress(twin, 9)),
    }


def _cpu_seconds(source: Path, bundle: Path, *options: str) -> float:
    command = [sys.executable, "-m", "wgcc", "build", str(source), "-o", str(bundle), *options]
    before = os.times()
    subprocess.run(command, check=True, capture_output=True)
    after = os.times()
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system
