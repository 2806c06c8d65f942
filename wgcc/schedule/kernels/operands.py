"""The functions that load one element of a matrix operand, whatever it is computed from."""

from __future__ import annotations

from dataclasses import dataclass

from wgcc.ir.graph import Value
from wgcc.schedule.codegen.emitter import Emitter, Scope, nothing_hoisted, unchanged
from wgcc.schedule.codegen.hoist import Hoist
from wgcc.schedule.codegen.index import variable
from wgcc.schedule.kernels.context import Context

INNER = "k"


@dataclass(frozen=True, slots=True)
class Operand:
    """`name(arguments)` gives its element; `side` is what its own axis counts, a row or a column.

    Arguments are (letter, extent), with `k` for the inner axis.
    """

    name: str
    side: str
    value: Value
    arguments: tuple[tuple[str, int], ...]


def write_loader(operand: Operand, context: Context, emitter: Emitter) -> tuple[str, bool]:
    """The loading function, and whether its arguments are `NAME_side(…)` and `NAME_step(k)`."""
    own = tuple(letter for letter, _ in operand.arguments if letter != INNER)
    sides = {operand.side: own, "step": (INNER,)}
    if not _tried(operand, context, Hoist(sides)).saves:
        return write_plain_loader(operand, context, emitter)
    hoist = Hoist(sides)
    emitter.hoist, emitter.loaded = hoist, hoist.loaded
    body = _element(operand, emitter)
    emitter.hoist, emitter.loaded = unchanged, nothing_hoisted
    parameters = ", ".join(f"{side}: {hoist.struct(operand.name, side)}" for side in sides)
    return f"{hoist.functions(operand.name)}\n\nfn {operand.name}({parameters}) {body}", True


def write_plain_loader(operand: Operand, context: Context, emitter: Emitter) -> tuple[str, bool]:
    """The loading function, of plain coordinates."""
    parameters = ", ".join(f"{letter}: u32" for letter, _ in operand.arguments)
    return f"fn {operand.name}({parameters}) {_element(operand, emitter)}", False


def _tried(operand: Operand, context: Context, hoist: Hoist) -> Hoist:
    """What could be hoisted; good for no code, because buffers have other names here."""
    trial = Emitter(context.inlined, context.bindings())
    trial.hoist, trial.loaded = hoist, hoist.loaded
    _element(operand, trial)
    return hoist


def _element(operand: Operand, emitter: Emitter) -> str:
    letters = operand.arguments[-len(operand.value.shape) :]
    emitter.outer = Scope()
    result = emitter.at(operand.value, tuple(variable(*letter) for letter in letters))
    lines = "".join(f"  {line}\n" for line in emitter.outer.lines)
    return f"-> f32 {{\n{lines}  return {result};\n}}"
