"""Makes train.safetensors and test.safetensors: every letter of many names with those before it.

The two files are in the repository already; this script shows where they come from.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
from language import make_name
from safetensors.numpy import save_file

FOLDER = Path(__file__).parent
BACK = 8
TRAIN, TEST = 1500, 200


def main() -> None:
    rng = random.Random(7)
    names = sorted({make_name(rng) for _ in range(4 * (TRAIN + TEST))})
    rng.shuffle(names)
    for file, part in (("train", names[:TRAIN]), ("test", names[TRAIN : TRAIN + TEST])):
        rows = np.array([row for name in part for row in windows(name)], np.uint8)
        save_file({"letters": rows}, FOLDER / f"{file}.safetensors")
        print(f"{file}: {len(part)} names, {len(rows)} letters, such as {', '.join(part[:5])}")


def windows(name: str) -> list[list[int]]:
    """The letters before each letter, and the letter; 0 marks the start and end of the name."""
    ids = [0] * BACK + [ord(letter) - ord("a") + 1 for letter in name] + [0]
    return [ids[at : at + BACK + 1] for at in range(len(name) + 1)]


if __name__ == "__main__":
    main()
