"""The batch of each model, in files that every library reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray[Any, Any]]


def write_batch(model: str, entry: str, folder: Path) -> None:
    from safetensors.numpy import save_file

    batch = _batch(model) if model in ("a", "b", "c") else _drawn(folder / "bundles" / model, entry)
    places = folder / "batches"
    places.mkdir(exist_ok=True)
    save_file(batch, places / f"{model}.safetensors")
    np.savez(places / f"{model}.npz", **batch)


def _batch(model: str) -> Arrays:
    draw = np.random.default_rng(1)
    if model == "a":
        x = draw.uniform(-3, 3, (256, 1)).astype(np.float32)
        return {"x": x, "y": np.sin(x)}
    if model == "b":
        x = draw.random((128, 784), np.float32)
        return {"x": x, "y": draw.integers(0, 10, 128, np.int32)}
    ids = draw.integers(0, 65, (8, 64), np.int32)
    return {"ids": ids, "labels": (ids * 7 + 3) % 65}


def _drawn(bundle: Path, entry: str) -> Arrays:
    """Numbers that the entry accepts, as its self-test draws them."""
    import wgcc_runtime
    from wgcc_runtime.arrays import from_words
    from wgcc_runtime.benchmark import sample_inputs

    with wgcc_runtime.load(bundle, device="wasm") as model:
        inputs = model.entry(entry).inputs
        words = sample_inputs(model, model.entry(entry))
        return {name: from_words(words[name].tobytes(), tensor) for name, tensor in inputs.items()}
