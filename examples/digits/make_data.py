"""Makes train.safetensors and test.safetensors from scikit-learn's copy of the UCI digits.

The two files are in the repository already; this script shows where they come from.
Needs scikit-learn: `pip install scikit-learn`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from sklearn.datasets import load_digits

FOLDER = Path(__file__).parent
TEST = 360  # images kept for testing: a fifth


def main() -> None:
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    for name, rows in (("train", order[TEST:]), ("test", order[:TEST])):
        image = images[rows].reshape(-1, 8, 8).astype(np.uint8)
        label = labels[rows].astype(np.int32)
        save_file({"image": image, "label": label}, FOLDER / f"{name}.safetensors")


if __name__ == "__main__":
    main()
