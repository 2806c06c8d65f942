"""A part of the determinism trial: new processes build and train to the same bits.

`python tests/reliability determinism` runs all of it.
"""

from __future__ import annotations

import random
from pathlib import Path

from adapters import ROOT
from building import TWIN, build
from trials.determinism import Runs, builds

STEPS = 12


def test_builds_under_any_hash_seed() -> None:
    """With a small model: kernels/test_golden.py builds all examples in another process."""
    source = ROOT / "examples" / "sin" / "model.wg"
    assert len(builds(source, 2, random.Random(1))) == 1


def test_fresh_processes_and_resumed_runs(target: str, tmp_path: Path) -> None:
    bundle = build(ROOT / "examples" / "sin" / "model.wg", tmp_path / "bundle")
    runs = Runs(bundle, tmp_path, target, random.Random(target))
    straight = runs.straight(STEPS)
    assert runs.straight(STEPS) == straight == runs.resumed(STEPS, STEPS // 3)
    # Fingerprints tell trainings apart: where these run makes no difference.
    assert target != TWIN or runs.straight(STEPS - 1) != straight
