"""Makes the data of examples/chargpt and examples/lora from the texts.

The files are in the repository already; this script shows where they come from.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

FOLDER = Path(__file__).parent
LENGTH, APART = 64, 16
# How many passages, spread over a text, are kept for testing, and how many sequences each has.
PASSAGES = {"chargpt": ("genesis.txt", 8), "lora": ("sonnets.txt", 4)}
SEQUENCES = 4


def main() -> None:
    for example, (text, passages) in PASSAGES.items():
        ids = read_ids((FOLDER / text).read_bytes())
        for name, starts in stretches(len(ids), passages).items():
            rows = np.stack([ids[at : at + LENGTH + 1] for at in starts])
            save_file({"letters": rows}, FOLDER.parent / example / f"{name}.safetensors")
            print(f"{example}, {name}: {len(rows)} stretches of {LENGTH + 1} letters")


def read_ids(text: bytes) -> np.ndarray:
    """A newline is 0, then come the characters from space to ~: `letters` in the models."""
    letters = np.frombuffer(text, np.uint8)
    return np.where(letters == ord("\n"), 0, letters - 31).astype(np.uint8)


def stretches(count: int, passages: int) -> dict[str, list[int]]:
    """Where the sequences begin; those for training share no letter with those for testing."""
    size = SEQUENCES * LENGTH + 1
    kept = [(2 * i + 1) * count // (2 * passages) for i in range(passages)]
    train = [
        at
        for at in range(0, count - LENGTH, APART)
        if all(at + LENGTH < start or at >= start + size for start in kept)
    ]
    return {"train": train, "test": [at + LENGTH * i for at in kept for i in range(SEQUENCES)]}


if __name__ == "__main__":
    main()
