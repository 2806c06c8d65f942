"""Random entries over rows, in parts and as a whole."""

from __future__ import annotations

import argparse
import time
from collections import Counter

from random_rows.generate import generate
from random_rows.judge import Wrong, judge


def arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("count", type=int, nargs="?", default=500)
    command.add_argument("--start", type=int, default=1000)


def run(options: argparse.Namespace) -> int:
    seen: Counter[str] = Counter()
    began = time.monotonic()
    for seed in range(options.start, options.start + options.count):
        program = generate(seed)
        rows = program.rows
        try:
            seen[judge(program, (max(1, rows - 1), rows + 1, 3, 2 * rows + 3))] += 1
        except Wrong as error:
            seen["wrong"] += 1
            print(f"seed {seed}: {error}")
    text = ", ".join(f"{count} {name}" for name, count in seen.items())
    print(f"{options.count} programs in {time.monotonic() - began:.0f} s: {text}")
    return 1 if seen["wrong"] else 0
