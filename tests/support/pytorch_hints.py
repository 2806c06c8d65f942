"""Expressions of PyTorch that `wgcc check` translates, and the tensors in them.

`record_pytorch_hints.py` runs PyTorch once; `test_from_pytorch.py` gives the same text to wgcc,
does what its hints say until there is no error left, and compares the numbers.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from adapters import ROOT

# One expression in a line. After `|` comes what PyTorch computes, where that is another text.
EXPRESSIONS = ROOT / "tests" / "recorded" / "pytorch_expressions.txt"
RECORDED = ROOT / "tests" / "recorded" / "pytorch_hints_recorded.json"
Array = np.ndarray[Any, Any]

SIZES = {"B": 2, "T": 3, "D": 4}
TYPES = {
    "x": "f32[B, T, D]", "y": "f32[B, T, D]", "m": "f32[T, D]", "n": "f32[T, D]", "w": "f32[D, D]",
    "v": "f32[D]", "u": "f32[D]", "one": "f32[B, 1, D]", "c": "f32[D]", "p": "f32[T, D]",
    "ids": "i32[B]", "labels": "i32[T]", "index": "i32[T, D]", "mask": "bool[B, T, D]",
    "keep": "bool[T, T]", "picture": "f32[B, 4, 6, 3]", "kernel": "f32[3, 3, 3, 5]",
    "bias": "f32[5]",
    "signs": "f32[B, T, D]", "far": "f32[D]",
}  # fmt: skip

# Layers, and the number of their parameters is compared.
LAYERS = """
nn.Linear(3, 4)
nn.Linear(3, 4, bias=False)
nn.Embedding(10, 4)
nn.LayerNorm(4)
nn.LayerNorm([4], eps=1e-6)
nn.RMSNorm(4)
nn.GroupNorm(2, 4)
nn.Conv1d(4, 6, 3)
nn.Conv2d(4, 6, 3, padding=1)
nn.Conv2d(4, 6, 5, 2, 1, bias=False)
nn.Conv2d(4, 6, kernel_size=3, stride=2, groups=2)
nn.Conv3d(2, 3, 2)
nn.Dropout(0.2)
nn.Dropout()
nn.Dropout1d(0.2)
nn.Dropout2d(0.2)
nn.Dropout3d(0.2)
nn.RNN(3, 4, batch_first=True)
nn.LSTM(3, 4, num_layers=2, batch_first=True)
nn.GRU(3, 4, batch_first=True, bidirectional=True)
nn.BatchNorm1d(4)
nn.BatchNorm2d(4, momentum=0.2)
nn.BatchNorm3d(4)
nn.InstanceNorm1d(4)
nn.InstanceNorm2d(4)
nn.InstanceNorm3d(4)
nn.MultiheadAttention(8, 2, batch_first=True)
"""

# Schedules of an optimizer whose learning rate is 0.5: the rates of the first steps are compared.
SCHEDULES = """
StepLR(opt, 2)
StepLR(opt, step_size=3, gamma=0.5)
MultiStepLR(opt, [2, 5], gamma=0.5)
ExponentialLR(opt, gamma=0.9)
CosineAnnealingLR(opt, 6)
CosineAnnealingLR(opt, T_max=8, eta_min=0.1)
"""
RATE, STEPS = 0.5, 8


def lines(text: str) -> list[str]:
    return [line for line in map(str.strip, text.splitlines()) if line]


def expressions() -> dict[str, str]:
    """What wgcc is given, and what PyTorch computes."""
    pairs = (line.partition(" | ") for line in lines(EXPRESSIONS.read_text(encoding="utf-8")))
    return {ours: theirs or ours for ours, _, theirs in pairs}


def inputs() -> dict[str, Array]:
    rng = np.random.default_rng(7)
    numbers: dict[str, Array] = {}
    for name, type_ in TYPES.items():
        sizes = type_[type_.index("[") + 1 : -1].split(", ")
        shape = tuple(SIZES.get(size) or int(size) for size in sizes)
        numbers[name] = rng.uniform(-1, 1, shape).astype(np.float32)
    numbers["p"] = (numbers["p"] + 1.5) / 3
    numbers["c"] = numbers["c"] + 1.5
    numbers["signs"] = np.sign(numbers["signs"])
    numbers["far"] = np.array([1.0, np.inf, -np.inf, -2.0], np.float32)
    numbers["mask"] = numbers["mask"] > 0.2
    numbers["keep"] = np.tril(np.ones((3, 3), bool))
    numbers["ids"] = np.array([1, 0], np.int32)
    numbers["labels"] = np.array([3, 0, 1], np.int32)
    numbers["index"] = np.array([[0, 2, 1, 0], [1, 1, 2, 2], [2, 0, 0, 1]], np.int32)
    return numbers


def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found
