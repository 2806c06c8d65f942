"""A whole model: its parameters, its state and one graph per entry, which share them.

`port_keys` gives inputs and outputs of entries their keys in a plan; only this file creates them.
Callers use the name of a port; the key is the name of its tensor in the plan, beside those of
parameters and state, and the name of its buffer. No two tensors of a program have the same key.

Captures are values that an entry stores beside its own outputs, for people to look at. In a graph
a capture is an output called `capture:NAME`; the language has no names with colons. Statistics are
two such outputs: `capture:NAME` has four floats, `capture:NAME:counts` the counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wgcc.errors import Span
from wgcc.ir.graph import Graph, TensorType
from wgcc.ir.places import Place
from wgcc.tokens.token_file import TokenFile

PREFIX, COUNTS = "capture:", ":counts"
# The word in front of a pattern that is for one entry alone ends with this.
OF_ENTRY = ":"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A glob over names of values; `entry` is "" if it is for all entries."""

    glob: str
    stats: bool = False
    entry: str = ""

    @property
    def text(self) -> str:
        return f"{self.entry}{OF_ENTRY}{self.glob}" if self.entry else self.glob


def patterns_of(values: Iterable[str], stats: Iterable[str] = ()) -> tuple[Wanted, ...]:
    """`train:d.*.w` is the glob `d.*.w` for the entry `train`."""
    patterns = []
    for texts, is_stats in ((values, False), (stats, True)):
        for text in texts:
            entry, colon, glob = text.strip().rpartition(OF_ENTRY)
            patterns.append(Wanted(glob, is_stats, entry if colon else ""))
    return tuple(dict.fromkeys(patterns))


def capture_key(name: str) -> str:
    return PREFIX + name


def counts_key(name: str) -> str:
    return PREFIX + name + COUNTS


def is_capture(output: str) -> bool:
    return output.startswith(PREFIX)


@dataclass(frozen=True, slots=True)
class Init:
    """The initial values of a parameter or state.

    `kind` is a distribution of the language (`normal` with `mean`, `std`; `kaiming_uniform` with
    `fan`; …) or `value`: then `values` holds either one number (repeated) or all of them, flat;
    or `copy`: the initial values of the parameter named `of`.
    """

    kind: str
    args: Mapping[str, float] = field(default_factory=dict)
    values: tuple[float, ...] = ()
    of: str = ""


@dataclass(frozen=True, slots=True)
class ModelTensor:
    """A parameter (`trainable` or frozen) or state; `span` is where the user declared it."""

    name: str
    type: TensorType
    init: Init
    trainable: bool = False
    span: Span | None = None


# How many characters of an entry's `///` text a plan holds.
LONGEST_DOC = 65_536


@dataclass(frozen=True, slots=True)
class Program:
    """`seed` determines initial values and random draws; `vocab` has the character of each
    id, or is a file of tokens.

    `precision` is the dtype that large intermediate values are stored in: `f32`, or `f16` for half
    the memory. `doc` maps entry names to their `///` text; `optimizers` maps names of optimizers
    that are used to their kinds; `averaged` maps entries that read moving averages of parameters to
    the optimizer that keeps them; `places` are those of parameters and state, after `lay_out`;
    `capture` are the patterns of what to store beside outputs.
    """

    name: str
    seed: int = 0
    params: Mapping[str, ModelTensor] = field(default_factory=dict)
    state: Mapping[str, ModelTensor] = field(default_factory=dict)
    entries: Mapping[str, Graph] = field(default_factory=dict)
    doc: Mapping[str, str] = field(default_factory=dict)
    optimizers: Mapping[str, str] = field(default_factory=dict)
    precision: str = "f32"
    vocab: str | TokenFile = ""
    averaged: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)
    capture: tuple[Wanted, ...] = ()


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
        # A capture is `ENTRY/capture/NAME`.
        plain = f"{entry}/{name.replace(':', '/')}"
        free_key = f"{plain}.{side}" if plain in taken else plain
        taken.add(free_key)
        return free_key

    return {
        entry: Ports(
            {value.name: key(entry, value.name, "in") for value in graph.inputs},
            {name: key(entry, name, "out") for name in graph.outputs},
            f"{entry}/guard.flag",
            f"{entry}/guard.range",
        )
        for entry, graph in program.entries.items()
    }
