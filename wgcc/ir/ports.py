"""Keys of inputs and outputs of entries in a plan; only this file creates them.

Callers use the name of a port; the key is the name of its tensor in the plan, beside those of
parameters and state, and the name of its buffer. No two tensors of a program have the same key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wgcc.ir.program import Program


@dataclass(frozen=True, slots=True)
class Ports:
    """The keys of one entry by the names of its ports.

    `flag` is the word that its guard sets, `range_flag` that of its range guard.
    """

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    flag: str
    range_flag: str


def port_keys(program: Program) -> dict[str, Ports]:
    """`ENTRY/NAME` for each port; one that is taken ends in `.in` or `.out`.

    Names of the language have no dots, so no other key has one. Taken keys are those of inputs, for
    an output of the same name, and `rng/seed`, for an input of an entry called `rng`.
    """
    taken = {*program.params, *program.state}

    def key(entry: str, name: str, side: str) -> str:
        plain = f"{entry}/{name}"
        found = f"{plain}.{side}" if plain in taken else plain
        taken.add(found)
        return found

    return {
        entry: Ports(
            {value.name: key(entry, value.name, "in") for value in graph.inputs},
            {name: key(entry, name, "out") for name in graph.outputs},
            f"{entry}/guard.flag",
            f"{entry}/guard.range",
        )
        for entry, graph in program.entries.items()
    }
