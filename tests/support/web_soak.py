"""Trains the sin model for a long time in Chromium and prints its memory: web_soak.py [STEPS]."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from adapters import ROOT
from web_stacks import build_web, run_node


def soak(steps: int) -> list[dict[str, Any]]:
    """The memory at three times: before the steps, after half of them, after all."""
    with tempfile.TemporaryDirectory() as folder:
        bundle = build_web(ROOT / "examples" / "sin" / "model.wg", Path(folder) / "sin")
        seen = run_node("soak.mjs", str(bundle), str(steps))
    assert seen["problems"] == []
    looks: list[dict[str, Any]] = seen["looks"]
    return looks


if __name__ == "__main__":
    for look in soak(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000):
        parts = ", ".join(f"{kind} {size / 1e6:.1f}" for kind, size in look["resident"].items())
        print(f"{look['step']:7,} steps: heap {look['heap'] / 1e6:.3f} MB, {look['alive']} buffers")
        print(f"               {look['ms']:.2f} ms/step; processes in MB: {parts}")
