"""Names of the state that wgcc adds to a model's own, for optimizers and random numbers.

Checkpoints and plans contain these names, so they must not change. They differ from all names of a
program, which contain no `/`.
"""

from __future__ import annotations

from dataclasses import dataclass

# `what` of an optimizer's state beside the moments, which are named by the kind of optimizer.
STEP, CALLS, GRADIENT_SUM, AVERAGE = "step", "micro", "acc", "ema"
SEED_STATE, DRAWS_STATE = "rng/seed", "rng/step"
_OPTIMIZER, _RANDOM = "opt/", "rng/"


@dataclass(frozen=True, slots=True)
class OptimizerState:
    """A counter of an optimizer, or a tensor it stores for a `parameter`: `what` says which."""

    optimizer: str
    what: str
    parameter: str = ""

    @property
    def name(self) -> str:
        end = f"/{self.parameter}" if self.parameter else ""
        return f"{_OPTIMIZER}{self.optimizer}/{self.what}{end}"


def optimizer_state(name: str) -> OptimizerState | None:
    """The inverse of `OptimizerState.name`; None for other state."""
    if not is_optimizer_state(name):
        return None
    parts = name.removeprefix(_OPTIMIZER).split("/", 2)
    return OptimizerState(*parts) if len(parts) > 1 else None


def is_optimizer_state(name: str) -> bool:
    return name.startswith(_OPTIMIZER)


def is_random_state(name: str) -> bool:
    return name.startswith(_RANDOM)


def is_own_state(name: str) -> bool:
    """Whether the program declares it."""
    return not is_optimizer_state(name) and not is_random_state(name)
