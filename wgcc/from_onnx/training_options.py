"""What a user may ask of the training of an imported model."""

from __future__ import annotations

from dataclasses import dataclass

# Cross entropy has a class for each row, the others a target of the output's shape.
LOSSES = ("cross_entropy", "mse", "mae", "huber", "bce_logits", "bce")
RANK = 8
LEARNING_RATE = 1e-3


@dataclass(frozen=True, slots=True)
class Training:
    """`train`: `all`, `head`, or a pattern of parameters. `lora`: patterns of linear layers."""

    train: str | None = None
    loss: str = LOSSES[0]
    output: str | None = None
    lora: tuple[str, ...] = ()
    rank: int = RANK
    lr: float = LEARNING_RATE

    @property
    def is_wanted(self) -> bool:
        return self.train is not None or bool(self.lora)
