"""Prints how long starts, checks and builds of the workbench take in Chromium.

    python tests/bench/workbench.py

Times on the clock are only worth something if nothing else runs on the machine. Those of the
processor hold always: all threads of the page's process together, while something was awaited.
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
    "longest task of the page": 50,
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
        count = first_bytes(site)
        seen = run_node("workbench_stopwatch.mjs", str(site))
    print(f"{'':32} {'measured':>12} {'processor':>10} {'goal':>10}")
    for name, (clock, processor) in seen.pop("times").items():
        print(f"{name:32} {clock:>9,} ms {processor:>7,} ms {GOALS.get(name, 0) or '':>10}")
    for name, number in {"bytes to the first compile": count, **seen}.items():
        print(f"{name:32} {number:>12,} {'':10} {GOALS[name]:>10,}")


if __name__ == "__main__":
    main()
