"""What of a model is saved and comes back: parameters, state, optimizer moments, progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wgcc_runtime.arrays import Array
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import Plan
from wgcc_runtime.replace_file import previous
from wgcc_runtime.values import Words, words_of
from wgcc_runtime.weights import load_weights, save_weights

OPTIMIZER = "opt/"


@dataclass(slots=True)
class Progress:
    """How far training has come: calls per training entry, batches taken, the shuffle's seed."""

    steps: dict[str, int] = field(default_factory=dict)
    position: int = 0
    seed: int = 0

    def step(self, entry: str) -> int:
        return self.steps.get(entry, 0)

    def copy(self) -> Progress:
        return Progress(dict(self.steps), self.position, self.seed)


def save_checkpoint(
    path: str | Path,
    plan: Plan,
    arrays: Mapping[str, Array],
    progress: Progress,
    keep_previous: bool = False,
) -> None:
    """Without the `opt/` tensors in `arrays` it is a file of weights, and no step is recorded."""
    facts: dict[str, Any] = {"model": plan.model}
    if any(name.startswith(OPTIMIZER) for name in arrays) or not plan.optimizer:
        facts["steps"] = progress.steps
        facts["data"] = {"position": progress.position, "seed": progress.seed}
    save_weights(path, arrays, facts, keep_previous)


def load_checkpoint(path: str | Path, plan: Plan, start: Words) -> tuple[Words, Progress]:
    """Words of all persistent tensors. Moments that the file lacks come from `start`."""
    arrays, facts = load_weights(path)
    words = words_of(arrays, plan, str(path))
    missing = [name for name in start if name not in words and not name.startswith(OPTIMIZER)]
    if missing:
        text = f"{path} lacks `{missing[0]}`" + (
            f" and {len(missing) - 1} more" * (len(missing) > 1)
        )
        raise WgccError("weights", text, missing[0])
    return {**start, **words}, _progress(facts)


def resume_checkpoint(path: str | Path, plan: Plan, start: Words) -> tuple[Words, Progress]:
    """As `load_checkpoint`; a damaged file gives way to the one before it, where there is one."""
    try:
        return load_checkpoint(path, plan, start)
    except WgccError:
        older = previous(Path(path))
        if not older.exists():
            raise
        return load_checkpoint(older, plan, start)


def _progress(facts: Mapping[str, Any]) -> Progress:
    data = facts.get("data", {})
    return Progress(dict(facts.get("steps", {})), data.get("position", 0), data.get("seed", 0))
