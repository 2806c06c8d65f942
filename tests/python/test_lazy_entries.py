"""Kernels of an entry are compiled at its first call, or while loading if that is asked for."""

from __future__ import annotations

from pathlib import Path

import line_bundle
import wgcc_runtime
from line_training import batches, refused


def test_entries_are_compiled_when_they_are_needed(tmp_path: Path, adapter: str) -> None:
    bundle = line_bundle.write_bundle(tmp_path / "line")
    (batch,) = batches(1)
    with wgcc_runtime.load(bundle, device=adapter) as model:
        assert model.compile_ms == 0
        model.predict(x=batch["x"])
        once = model.compile_ms
        assert once > 0
        model.predict(x=batch["x"])
        assert model.compile_ms == once
        model.train(**batch)
        assert model.compile_ms > once
    with wgcc_runtime.load(bundle, device=adapter, entries=["train"]) as model:
        early = model.compile_ms
        model.train(**batch)
        assert model.compile_ms == early > 0
    with refused("name", "has no entry `predicts`"):
        wgcc_runtime.load(bundle, device=adapter, entries=["predicts"])
