"""Prints how long starts, checks and builds of the workbench take in Chromium.

    python tests/bench/workbench.py

Times are of this machine, and only worth something if nothing else runs on it.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "runtime_py"), str(ROOT / "tests" / "support")]

# Milliseconds, megabytes of memory, and bytes that are to be reached.
GOALS = {
    "bytes to the first compile": 6_500_000, "first visit: editor": 1000,
    "first visit: first check": 8000, "later visit: first check": 1500, "sin: check": 50,
    "sin: build": 250, "chargpt: check": 300, "chargpt: build": 2500, "heap in MB": 80,
}  # fmt: skip
# What is not loaded before a model is compiled.
LATER = ("pages.zip", "naga", "run.html", "wgcc/", "wgcc.js", "offline.js")


def first_bytes(site: Path) -> int:
    """Bytes of the files that the first compile needs, compressed."""
    files = {path.relative_to(site).as_posix(): path for path in site.rglob("*") if path.is_file()}
    first = (path for name, path in files.items() if not name.startswith(LATER))
    return sum(len(gzip.compress(path.read_bytes(), 9)) for path in first)


def main() -> None:
    from web_stacks import run_node
    from wgcc.workbench.folder import write_site

    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        write_site(site)
        times = {
            "bytes to the first compile": first_bytes(site),
            **run_node("workbench_stopwatch.mjs", str(site)),
        }
    for name, number in times.items():
        goal = GOALS.get(name)
        print(f"{name:32} {number:>10,}" + (f"   goal {goal:,}" if goal else ""))


if __name__ == "__main__":
    main()
