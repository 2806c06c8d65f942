"""Makes data.safetensors, points of the sine to train on. The file is in the repository already."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

POINTS = 2048


def main() -> None:
    x = np.random.default_rng(0).uniform(-np.pi, np.pi, (POINTS, 1)).astype(np.float32)
    save_file({"x": x, "y": np.sin(x)}, Path(__file__).parent / "data.safetensors")


if __name__ == "__main__":
    main()
