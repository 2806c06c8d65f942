"""What is known about a file of weights besides its arrays: who wrote it decides how it stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wgcc.lazy_numpy import Array


@dataclass(frozen=True, slots=True)
class Origin:
    """`own`: wgcc saved it, so that it stores everything as models use it. `keras`: Keras did.

    `gates`: for tensors of LSTMs and GRUs, the order of their gates. `rope`: for queries and keys
    whose rotary positions turn neighbours, the number of heads. `inputs_first`: matrices that are
    known to be stored [inputs, outputs]. `notes`: what users must know.
    """

    own: bool = False
    keras: bool = False
    gates: Mapping[str, str] = field(default_factory=dict)
    rope: Mapping[str, int] = field(default_factory=dict)
    inputs_first: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Weights:
    """Arrays by name, and their origin."""

    arrays: dict[str, Array]
    origin: Origin = field(default_factory=Origin)


def before_product(name: str, option: str) -> str:
    """What users must know of such a GRU; `option` is how its file says so."""
    return (
        f"{name} is a GRU with {option}, whose reset gate acts before the product: the layer GRU "
        "computes something else"
    )
