"""The functions that expressions may call, and those of them that a module has as functions.

Their text is in `wgcc/ops/wgsl/` and, where WGSL has a built-in function and WebAssembly has not,
in `functions/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from wgcc.ops.wgsl_functions import FOLDER
from wgcc.wasm.encoder import F32, I32, V128
from wgcc.wasm.evaluate import (
    Compiled,
    Environment,
    Evaluator,
    Functions,
    Thing,
    assigned,
    scalar,
)
from wgcc.wasm.function import Function
from wgcc.wasm.lanes import Stack
from wgcc.wasm.module import Module
from wgcc.wasm.parse import parse_functions
from wgcc.wasm.values import Value
from wgcc.wasm.wgsl_tree import FunctionDef, Loop

BUILT_IN = Path(__file__).parent / "functions"


@cache
def standard_functions() -> Mapping[str, FunctionDef]:
    """Those of the ops and those in place of WGSL's built-in functions, by name."""
    found: dict[str, FunctionDef] = {}
    for folder in (FOLDER, BUILT_IN):
        for path in sorted(folder.glob("*.wgsl")):
            found |= parse_functions(path.read_text(encoding="utf-8"))
    return found


class DivergentError(Exception):
    """Lanes of one vector would leave a loop at different times."""


class Library:
    """One per module. Each function is compiled once for each width of its parameters."""

    def __init__(self, module: Module, own: Mapping[str, FunctionDef] | None = None) -> None:
        self._module = module
        self._definitions = {**standard_functions(), **(own or {})}
        self._compiled: dict[tuple[str, tuple[int, ...]], Compiled | None] = {}

    def lookup(self, name: str) -> FunctionDef | None:
        return self._definitions.get(name)

    def compiled(self, name: str, lanes: tuple[int, ...]) -> Compiled | None:
        key = (name, lanes)
        if key not in self._compiled:
            self._compiled[key] = self._compile(self._definitions[name], lanes)
        return self._compiled[key]

    def _compile(self, definition: FunctionDef, lanes: tuple[int, ...]) -> Compiled | None:
        pairs = list(zip(definition.params, lanes, strict=True))
        params = [(name, _type_code(kind, width)) for (name, kind), width in pairs]
        suffix = "." + "".join(map(str, lanes)) if max(lanes) > 1 else ""
        f = Function(definition.name + suffix, params)
        body = _Body(self, f)
        args = [body.values.local(at, kind, width) for at, ((_, kind), width) in enumerate(pairs)]
        try:
            result = scalar(body.inline(definition, args))
        except DivergentError:
            return None
        body.stack.push(result)
        f.results = (result.type_code(),)
        return Compiled(self._module.add(f), result.kind, result.lanes)


class _Body(Evaluator):
    """The statements of a function that stays one; its loops become loops."""

    def __init__(self, functions: Functions, function: Function) -> None:
        super().__init__(functions, {})
        self.stack = Stack(function)
        self._into = function

    def repeat(self, loop: Loop, env: Environment) -> None:
        for name, thing in env.items():
            env[name] = self._stored(name, thing, None)
        f, wide = self._into, set[str]()
        start = (len(f.code), len(f.local_types))
        while True:
            trial = dict(env)
            wider = self._iterate(loop, trial, wide)
            if not wider:
                env.update(trial)
                return
            # A variable of one lane gets a vector in the loop: it must be one from the start.
            wide |= wider
            del f.code[start[0] :], f.local_types[start[1] :], f.local_names[start[1] :]
            self.stack = Stack(f)

    def _iterate(self, loop: Loop, env: Environment, wide: set[str]) -> set[str]:
        """Write the loop; which variables turned out to have more lanes than they started with."""
        f = self._into
        changed = assigned((*loop.body, *loop.after))
        for name in changed:
            value = scalar(env[name])
            value = self.values.widen(value) if name in wide else value
            env[name] = self._stored(name, value, f.local(name, value.type_code()))
        before = {name: scalar(env[name]) for name in changed}
        done, again = f.block(), f.loop()
        condition = scalar(self.expression(loop.condition, env))
        if condition.lanes > 1:
            raise DivergentError
        self.stack.push(self.values.unary("!", condition))
        f.br_if(done)
        self.run((*loop.body, *loop.after), env)
        after = {name: scalar(env[name]) for name in changed}
        wider = {name for name in changed if after[name].lanes > before[name].lanes}
        widened = [self._like(after[name], before[name]) for name in changed]
        self.stack.push(*widened)
        for name in reversed(changed):
            f.set(before[name].data[0])
        f.br(again).end().end()
        env.update(before)
        return wider

    def _like(self, value: Value, model: Value) -> Value:
        return self.values.widen(value) if model.lanes > value.lanes else value

    def _stored(self, name: str, thing: Thing, index: int | None) -> Thing:
        """A value in a local of its own: loops read it there."""
        if isinstance(thing, tuple):
            return tuple(self._stored(name, item, None) for item in thing)
        if index is None:
            if thing.op in ("const", "local"):
                return thing
            index = self._into.local(name, thing.type_code())
        self.stack.push(thing)
        self._into.set(index)
        return self.values.local(index, thing.kind, thing.lanes)


def _type_code(kind: str, lanes: int) -> int:
    if lanes > 1:
        return V128
    return F32 if kind == "f32" else I32
