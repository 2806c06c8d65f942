"""The work of a kernel as a loop over threads, with the functions and constants that it sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wgcc.backends.wasm.kernels.scopes import Held
from wgcc.backends.wasm.panels.by_threads import by_threads
from wgcc.ir.index import constant
from wgcc.kernel.rewrite.transform import fill, substitute_body
from wgcc.kernel.tree import Binary, Expr, FunctionDef, Literal, Name, Statement, Unary
from wgcc.schedule.kernel import DispatchWork, ThreadTask

# WebAssembly's own min and max keep NaN; one element is computed where a GPU takes four.
PLAIN = {"wg_max": "max", "wg_min": "min", "Values": "f32"}


@dataclass(frozen=True, slots=True)
class Program:
    """The work of a kernel: `body` runs for each `variable` below `count`, in any order."""

    variable: str
    count: int
    body: tuple[Statement, ...]
    functions: Mapping[str, FunctionDef]
    constants: Mapping[str, Held]


def program_of(work: DispatchWork) -> Program:
    work = by_threads(work)
    assert isinstance(work.task, ThreadTask)
    constants = {name: Held("u32", index=constant(n)) for name, n in work.constants}
    own = fill(work.functions, PLAIN)
    for name, value in own.constants.items():
        constants[name] = _number(value, constants)
    body = substitute_body(work.task.body, PLAIN)
    return Program(work.task.index, work.task.count, body, own.functions, constants)


def _number(expr: Expr, known: Mapping[str, Held]) -> Held:
    sign = 1
    if isinstance(expr, Unary) and expr.op == "-":
        expr, sign = expr.operand, -1
    if isinstance(expr, Literal) and expr.kind == "f32":
        return Held("f32", number=sign * expr.value)
    return Held("u32", index=constant(_whole(expr, known)))


def _whole(expr: Expr, known: Mapping[str, Held]) -> int:
    """A whole number that is known when the kernel is written."""
    if isinstance(expr, Literal):
        return int(expr.value)
    if isinstance(expr, Name):
        index = known[expr.name].index
        assert index is not None
        return index.offset
    assert isinstance(expr, Binary) and expr.op == "*"
    return _whole(expr.left, known) * _whole(expr.right, known)
