"""Which carries of a loop have a gradient: those that depend on something differentiated, and that
a result with a gradient depends on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from wgcc.ir.graph import FLOATS, Value
from wgcc.ir.loops import Loop


@dataclass(frozen=True, slots=True)
class Activity:
    """`varying`: names in the body that depend on something differentiated. `live`: the carries
    with a gradient. `seeds`: values of a round with the gradients of their stacks outside."""

    varying: Collection[str]
    live: tuple[Value, ...]
    seeds: tuple[tuple[Value, Value], ...]


def find_activity(
    loop: Loop, incoming: Sequence[Value | None], wanted: Collection[str]
) -> Activity:
    """`incoming` are gradients of the outputs, `wanted` names outside that are differentiated."""
    varying = _varying(loop, wanted)
    finals, stacks = incoming[: len(loop.finals)], incoming[len(loop.finals) :]
    seeds = tuple(
        (value, gradient)
        for value, gradient in zip(loop.body.outputs.values(), stacks, strict=True)
        if gradient is not None and value.name in varying
    )
    pairs = zip(loop.carries, finals, strict=True)
    started = {carry.name for carry, gradient in pairs if gradient is not None}
    targets = {value.name for value, _ in seeds}
    return Activity(varying, _live(loop, varying, started, targets), seeds)


def _varying(loop: Loop, wanted: Collection[str]) -> set[str]:
    read = (*zip(loop.inits, loop.carries, strict=True), *loop.sliced, *loop.captured)
    varying = {inner.name for outer, inner in read if outer.name in wanted and _is_float(inner)}
    while True:
        before = len(varying)
        for node in loop.body.nodes:
            if any(value.name in varying for value in node.inputs):
                varying.update(value.name for value in node.outputs if _is_float(value))
        for carry, after in zip(loop.carries, loop.next_carries, strict=True):
            if after.name in varying and _is_float(carry):
                varying.add(carry.name)
        if len(varying) == before:
            return varying


def _live(loop: Loop, varying: set[str], started: set[str], targets: set[str]) -> tuple[Value, ...]:
    live = {value.name for value in loop.carries if value.name in started & varying}
    while True:
        reaching = {*targets, *(loop.body.writes[name].name for name in live)}
        for node in reversed(loop.body.nodes):
            if any(value.name in reaching and value.name in varying for value in node.outputs):
                reaching.update(value.name for value in node.inputs)
        more = {v.name for v in loop.carries if v.name in reaching and v.name in varying} | live
        if more == live:
            return tuple(value for value in loop.carries if value.name in live)
        live = more


def _is_float(value: Value) -> bool:
    return value.dtype in FLOATS
