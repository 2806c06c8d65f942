"""Trains the sine model from Python and shows what it learned.

wgcc build examples/sin/model.wg -o bundle
python examples/sin/train.py bundle
"""

from __future__ import annotations

import math
import sys

import numpy as np

import wgcc_runtime as wg

STEPS = 1000
GOOD_ENOUGH = 0.05  # largest error of a prediction; not visible in a plot


def main(bundle: str) -> int:
    model = wg.load(bundle)
    print(f"on {model.device_name}")
    model.fit(points, steps=STEPS, every=STEPS // 20, callbacks=[show])

    x = np.linspace(-np.pi, np.pi, 100, dtype=np.float32)[:, None]
    y = model.predict(x=x)["y"]
    plot(y[:, 0])
    error = float(np.abs(y - np.sin(x)).max())
    print(f"largest error of 100 predictions: {error:.4f}")
    return 0 if error < GOOD_ENOUGH else 1


def points(step: int) -> dict[str, np.ndarray]:
    """The batch of a step: 256 random points of the curve."""
    x = np.random.default_rng(step).uniform(-np.pi, np.pi, (256, 1)).astype(np.float32)
    return {"x": x, "y": np.sin(x)}


def show(report: wg.Report) -> None:
    """One line per report; the bar is the loss on a logarithmic scale from 1e-6 to 1."""
    bar = "█" * round(40 * (1 + math.log10(max(report.loss, 1e-6)) / 6))
    print(f"step {report.step:5}  loss {report.loss:.6f}  {bar}", flush=True)


def plot(y: np.ndarray, rows: int = 11) -> None:
    """The predicted curve in characters."""
    levels = np.rint((1 - np.clip(y, -1, 1)) / 2 * (rows - 1)).astype(int)
    for row in range(rows):
        print("  " + "".join("•" if level == row else " " for level in levels).rstrip())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "bundle"))
