"""How builds grow with a model: layers, width, vocabulary and context of a GPT, each alone.

`python tests/bench/growth.py` prints a table in Markdown. Times are seconds of CPU, each build in
a process of its own; exponents are those of a power through the two largest sizes.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

MODEL = Path(__file__).parent / "models" / "gpt2.wg"
# What the others are while one grows.
BASE = {"L": 4, "D": 256, "H": 8, "V": 1024, "T": 256}
AXES = {
    "layers": [{"L": n} for n in (2, 4, 12, 24, 48)],
    "width": [{"D": n, "H": max(1, n // 64)} for n in (64, 128, 256, 512, 1024)],
    "vocabulary": [{"V": n} for n in (65, 1024, 8192, 32_000, 50_257)],
    "context": [{"T": n, "P": n} for n in (64, 256, 1024, 2048)],
}
# A whole one: batch 4 of 512 tokens.
WHOLE = {"L": 12, "D": 768, "H": 12, "V": 32_000, "T": 512, "P": 512, "B": 4}
COLUMNS = {
    "parameters": "parameters", "plan": "plan, kB", "kernels": "kernels",
    "dispatches": "dispatches", "memory": "GPU memory, MB", "seconds": "build, s",
    "peak": "memory of the build, MB",
}  # fmt: skip
BUILD = """
import json, resource, sys
from wgcc.compiler import compile_file
from wgcc.bundle.plan import with_guard
sizes = json.loads(sys.argv[2])
compiled = compile_file(sys.argv[1], sizes=sizes, entries=["train"])
compiled.write(sys.argv[3])
plan, usage = compiled.planned.plan, resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "parameters": sum(t.type.size for t in compiled.program.params.values()),
    "kernels": len(plan["kernels"]),
    "dispatches": len(plan["entries"]["train"]["dispatches"]),
    "memory": with_guard(plan["memory"]) / 1e6,
    "seconds": usage.ru_utime + usage.ru_stime,
    "peak": usage.ru_maxrss / 1e3,
}))
"""


def measure(sizes: dict[str, int]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder) / "bundle"
        command = [sys.executable, "-c", BUILD, str(MODEL), json.dumps(sizes), str(bundle)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found: dict[str, float] = json.loads(done.stdout)
        found["plan"] = (bundle / "plan.json").stat().st_size / 1e3
    return found


def exponent(sizes: list[int], values: list[float]) -> float:
    """y ~ size^e through the last two points."""
    if values[-1] <= 0 or values[-2] <= 0:
        return 0.0
    return math.log(values[-1] / values[-2]) / math.log(sizes[-1] / sizes[-2])


def table(axis: str) -> list[str]:
    steps = AXES[axis]
    name = next(iter(steps[0]))
    rows = [measure({**BASE, **step}) for step in steps]
    lines = [f"| {axis} | {' | '.join(COLUMNS.values())} |", "|" + "--:|" * (len(COLUMNS) + 1)]
    for step, row in zip(steps, rows, strict=True):
        lines.append(f"| {step[name]:,} | {' | '.join(_text(row[key]) for key in COLUMNS)} |")
    sizes = [step[name] for step in steps]
    powers = (exponent(sizes, [row[key] for row in rows]) for key in COLUMNS)
    return [*lines, f"| exponent | {' | '.join(f'{power:.2f}' for power in powers)} |", ""]


def whole() -> list[str]:
    row = measure(WHOLE)
    head = [f"| {' | '.join(COLUMNS.values())} |", "|" + "--:|" * len(COLUMNS)]
    return [*head, f"| {' | '.join(_text(row[key]) for key in COLUMNS)} |"]


def _text(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 or number == int(number) else f"{number:.1f}"


def main() -> None:
    for axis in sys.argv[1:] or (*AXES, "whole"):
        print("\n".join(whole() if axis == "whole" else table(axis)), flush=True)


if __name__ == "__main__":
    main()
