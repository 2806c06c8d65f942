"""Makes train.safetensors and test.safetensors: stretches of examples/texts/genesis.txt.

The two files are in the repository already; this script shows where they come from.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

FOLDER = Path(__file__).parent
LENGTH, APART, TEST = 64, 8, 16


def main() -> None:
    text = (FOLDER.parent / "texts" / "genesis.txt").read_bytes()
    letters = np.frombuffer(text, np.uint8)
    # A line's end is 0, then come the characters from space to ~.
    ids = np.where(letters == ord("\n"), 0, letters - 31).astype(np.uint8)
    end = len(ids) - TEST * LENGTH - 1
    train = [ids[at : at + LENGTH + 1] for at in range(0, end - LENGTH, APART)]
    test = [ids[at : at + LENGTH + 1] for at in range(end, len(ids) - LENGTH, LENGTH)]
    for name, rows in (("train", train), ("test", test)):
        save_file({"letters": np.stack(rows)}, FOLDER / f"{name}.safetensors")
        print(f"{name}: {len(rows)} stretches of {LENGTH + 1} letters")


if __name__ == "__main__":
    main()
