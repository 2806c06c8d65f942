"""Many training steps of the sin example: memory stays flat, and steps do not get slower."""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import wgcc_runtime
from adapters import NAMES, ROOT
from building import build
from wgcc_runtime.weights import load_weights

EVERY = 50
# The fraction of a run that is not measured: pipelines, pools and caches fill.
WARM_UP = 0.2
MOST_GROWTH = 0.01
# CPU time per step, the last fifth relative to the first after the warm-up; on a busy machine such
# fifths differ by a tenth.
MOST_SLOWDOWN = 0.25


@dataclass
class Samples:
    """One per report: bytes in memory and seconds of the processor."""

    bytes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def __call__(self, report: Any) -> None:
        gc.collect()
        self.bytes.append(resident_bytes())
        self.seconds.append(time.process_time())

    def growth(self) -> float:
        """Growth of the memory from the warm-up to the end, as a fraction."""
        start = int(WARM_UP * len(self.bytes))
        fifth = max(1, len(self.bytes) // 5)
        first, last = self.bytes[start : start + fifth], self.bytes[-fifth:]
        return max(last) / max(first) - 1

    def slowdown(self) -> float:
        steps = [b - a for a, b in zip(self.seconds, self.seconds[1:], strict=False)]
        start = int(WARM_UP * len(steps))
        fifth = max(1, len(steps) // 5)
        first, last = steps[start : start + fifth], steps[-fifth:]
        return statistics.median(last) / statistics.median(first) - 1


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("steps", type=int, nargs="?", default=10_000)
    parser.add_argument("--adapter", default="lavapipe", choices=NAMES)


def run(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="wgcc-soak-") as folder:
        samples = soak(Path(folder), options.adapter, options.steps)
    growth, slowdown = samples.growth(), samples.slowdown()
    print(
        f"{options.steps} steps: {max(samples.bytes) / 1e6:.1f} MB, "
        f"memory {growth:+.2%}, processor time per step {slowdown:+.1%}"
    )
    return int(growth > MOST_GROWTH or slowdown > MOST_SLOWDOWN)


def soak(folder: Path, adapter: str, steps: int) -> Samples:
    """Trains with reports and checkpoints, as a user would."""
    example, samples = ROOT / "examples" / "sin", Samples()
    data = load_weights(example / "data.safetensors")[0]
    with wgcc_runtime.load(build(example / "model.wg", folder / "b"), NAMES[adapter]) as model:
        model.fit(
            data, steps=steps, every=EVERY, callbacks=[samples],
            checkpoint=folder / "ck.safetensors", checkpoint_every=500,
        )  # fmt: skip
        assert model.steps_done == steps
    return samples


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096
