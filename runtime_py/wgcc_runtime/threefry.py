"""The counter-based random generator of initial values, shuffles and self-tests."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from wgcc_runtime.errors import WgccError

Words = npt.NDArray[np.uint32]

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
MASK = 0xFFFFFFFF


def checked_seed(seed: Any) -> int | None:
    """A caller's seed must fit into one word: a larger one would be truncated silently."""
    if seed is None:
        return None
    is_whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not is_whole or not 0 <= seed <= MASK:
        text = f"`seed` is a whole number from 0 to {MASK}, not {seed!r}"
        raise WgccError("range", text, "seed")
    return int(seed)


def random_words(seed: int, name: str, count: int, step: int = 0, first: int = 0) -> Words:
    """`count` words that depend only on `seed`, `name`, `step` and their position from `first`."""
    positions = np.arange(first, first + count, dtype=np.uint32)
    return threefry2x32(seed, zlib.crc32(name.encode()), step, positions)


def threefry2x32(key0: int, key1: int, counter0: int, counter1: Any) -> Words:
    """First output word of Threefry-2x32 with 20 rounds, for every value of `counter1`."""
    keys = (key0 & MASK, key1 & MASK, (key0 ^ key1 ^ PARITY) & MASK)
    # At least one dimension, because numpy warns if a scalar overflows, but not for an array.
    b = np.array(counter1, np.uint32, ndmin=1) + np.uint32(keys[1])
    a = np.full_like(b, (counter0 + keys[0]) & MASK)
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            a += b
            high = b >> np.uint32(32 - rotation)
            b <<= np.uint32(rotation)
            b |= high
            b ^= a
        a += np.uint32(keys[(group + 1) % 3])
        b += np.uint32((keys[(group + 2) % 3] + group + 1) & MASK)
    words: Words = a.reshape(np.shape(counter1))
    return words
