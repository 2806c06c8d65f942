"""Data for the ports, the same for both frameworks: small, made here, and learnable in seconds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def pictures(rows: int, seed: int, size: int = 16, classes: int = 4) -> tuple[Array, Array]:
    """Blurred patterns, one for each class, moved a little and noisy: f32[rows, size, size, 3]."""
    patterns = np.random.default_rng(0).normal(size=(classes, size // 4, size // 4, 3))
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, rows)
    large = patterns[labels].repeat(4, 1).repeat(4, 2)
    by = random.integers(-1, 2, (rows, 2))
    moved = [np.roll(large[i], by[i], (0, 1)) for i in range(rows)]
    noisy = np.stack(moved) + random.normal(size=large.shape) * 0.5
    return noisy.astype(np.float32), labels.astype(np.int32)


def reversals(rows: int, seed: int, longest: int = 6, words: int = 10) -> tuple[Array, Array]:
    """Sentences of 3 words or more, padded with 0, and the same backwards. Word 1 begins one."""
    random = np.random.default_rng(seed)
    sources = np.zeros((rows, longest), np.int32)
    targets = np.zeros((rows, longest), np.int32)
    for i in range(rows):
        length = random.integers(3, longest + 1)
        sources[i, :length] = random.integers(2, words, length)
        targets[i, :length] = sources[i, :length][::-1]
    return sources, targets


def verse(letters: int) -> tuple[Array, str]:
    """A text of a few sentences in random order, as ids, and its characters."""
    lines = ("the owl is wise. ", "a fox ran by. ", "we saw the sea. ", "go on, said he. ")
    order = np.random.default_rng(0).integers(0, len(lines), letters)
    text = "".join(lines[i] for i in order)[:letters]
    vocab = "".join(sorted(set(text)))
    return np.array([vocab.index(c) for c in text], np.int32), vocab


def ring(points: int, seed: int) -> Array:
    """Points near a circle of radius 1."""
    random = np.random.default_rng(seed)
    angle = random.uniform(0, 2 * np.pi, points)
    near = np.stack([np.cos(angle), np.sin(angle)], 1) + random.normal(size=(points, 2)) * 0.02
    return near.astype(np.float32)


class CartPole:
    """Gym's pole on a cart, without a limit of steps: `reset` and `step` as it has them."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def reset(self) -> Array:
        self.now = self.random.uniform(-0.05, 0.05, 4)
        return self.now.astype(np.float32)

    def step(self, action: int) -> tuple[Array, bool]:
        _, v, angle, w = self.now
        sine, cosine = math.sin(angle), math.cos(angle)
        push = ((10.0 if action else -10.0) + 0.05 * w * w * sine) / 1.1
        turn = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        speed = push - 0.05 * turn * cosine / 1.1
        self.now = self.now + 0.02 * np.array([v, speed, w, turn])
        fell = abs(self.now[0]) > 2.4 or abs(self.now[2]) > 0.2095
        return self.now.astype(np.float32), bool(fell)


def captions(rows: int, seed: int) -> tuple[Array, Array]:
    """Pictures of 16 patterns, and captions of 4 words: two name the pattern, one is noise."""
    images, labels = pictures(rows, seed, size=8, classes=16)
    noise = np.random.default_rng(seed + 1).integers(8, 12, rows)
    words = np.stack([labels % 4, 4 + labels // 4, noise, np.full(rows, 12)], 1)
    return images, words.astype(np.int32)


SIZES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 20)


def table(rows: int, seed: int) -> tuple[Array, Array, Array]:
    """Twelve columns of categories, four of numbers with gaps (NaN), and a rare class 1."""
    fixed, random = np.random.default_rng(0), np.random.default_rng(seed)
    effects = [fixed.normal(size=size) for size in SIZES]
    columns = np.stack([random.integers(0, size, rows) for size in SIZES], 1)
    numbers = random.normal(size=(rows, 4))
    score = sum(effect[columns[:, i]] for i, effect in enumerate(effects)) + numbers.sum(1)
    numbers[random.random((rows, 4)) < 0.05] = np.nan
    labels = np.asarray(score > 4.0).astype(np.int32)
    return columns.astype(np.int32), numbers.astype(np.float32), labels
