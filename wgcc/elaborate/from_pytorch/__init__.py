"""PyTorch names and what to write in `.wg` instead: for hints in diagnostics and for the docs.

A rule turns a call with PyTorch's arguments into code with the user's own names and sizes.
"""

from __future__ import annotations

from wgcc.elaborate.from_pytorch.calls import Counterpart
from wgcc.elaborate.from_pytorch.names import FUNCTIONS, LAYERS, OPTIMIZERS, SCHEDULES

# Prefixes of names in Python: `torch.cat`, `nn.functional.relu`, `F.relu`, `np.exp`.
PREFIXES = (
    "torch", "nn", "F", "np", "numpy", "jnp", "optim", "lr_scheduler", "functional", "math",
)  # fmt: skip


def counterpart(name: str) -> Counterpart | None:
    """The counterpart of a function, layer, optimizer or schedule, if it is listed."""
    for table in (FUNCTIONS, LAYERS, OPTIMIZERS, SCHEDULES):
        if name in table:
            return table[name]
    return None


__all__ = [
    "FUNCTIONS",
    "LAYERS",
    "OPTIMIZERS",
    "PREFIXES",
    "SCHEDULES",
    "Counterpart",
    "counterpart",
]
