"""Runs of the examples on random batches, and the result of a run as one fingerprint."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

import wgcc_runtime
from adapters import NAMES, ROOT
from wgcc_runtime.plan import Entry, Plan

EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/model.wg"))


def training_entries(plan: Plan) -> list[Entry]:
    return [entry for entry in plan.entries.values() if entry.training]


def draw_batch(entry: Entry, step: int) -> dict[str, Any]:
    """Inputs that the entry accepts, the same for the same step."""
    found = {}
    for number, (name, tensor) in enumerate(entry.inputs.items()):
        draw = np.random.default_rng([step, number])
        if tensor.is_float:
            found[name] = draw.uniform(-1, 1, tensor.shape).astype(np.float32)
            continue
        limits = entry.ranges.get(name)
        low, high = (limits.low, limits.high) if limits else (0, 1 if tensor.dtype == "bool" else 3)
        kind = {"u8": np.uint8, "bool": np.bool_}.get(tensor.dtype, np.int32)
        found[name] = draw.integers(low, high, tensor.shape, endpoint=True).astype(kind)
    return found


def run(bundle: Path, adapter: str, first: int, count: int, start: str, end: str) -> list[str]:
    """Trains from a checkpoint (or from the beginning) to a checkpoint: a fingerprint per step."""
    found = []
    with wgcc_runtime.load(bundle, device=NAMES.get(adapter, adapter)) as model:
        if start:
            model.load(start)
        for step in range(first, first + count):
            for entry in training_entries(model.plan):
                outputs = model.call(entry.name, **draw_batch(entry, step))
                found.append(fingerprint(*(array.tobytes() for array in outputs.values())))
        model.save(end)
    return found


def fingerprint(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()
