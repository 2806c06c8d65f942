"""The functions that expressions may call, and those of them that a module has as functions.

Their text is in `wgcc/ops/wgsl/` and, where WGSL has a built-in function and WebAssembly has not,
in `functions/`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from wgcc.backends.wasm.encoding.instructions import F32, I32, V128
from wgcc.backends.wasm.encoding.module import WasmFunction, WasmModule
from wgcc.backends.wasm.wgsl.arithmetic import WasmValue
from wgcc.backends.wasm.wgsl.evaluate import (
    CompiledFunction,
    Environment,
    Evaluator,
    Functions,
    KnownOperand,
    Local,
    NeedsLoopError,
    Snippet,
    Thing,
    assigned_names,
    scalar,
)
from wgcc.backends.wasm.wgsl.lanes import Recorder, Stack
from wgcc.kernel.parse import parse_functions
from wgcc.kernel.tree import (
    Binary,
    Call,
    Element,
    Expr,
    FunctionDef,
    Loop,
    Member,
    Name,
    Unary,
)
from wgcc.ops.registry import FOLDER

BUILT_IN = Path(__file__).parent / "functions"


@cache
def standard_functions() -> Mapping[str, Path]:
    """The file of each function of the ops and of those in place of WGSL's built-in functions."""
    return {
        name: path
        for folder in (FOLDER, BUILT_IN)
        for path in sorted(folder.glob("*.wgsl"))
        for name in re.findall(r"^fn (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }


@cache
def standard_function(name: str) -> FunctionDef | None:
    path = standard_functions().get(name)
    return None if path is None else parse_functions(path.read_text(encoding="utf-8"))[name]


class DivergentError(Exception):
    """Lanes of one vector would leave a loop at different times."""


class Library:
    """One per module. Each function is compiled once for each width of its parameters."""

    def __init__(self, module: WasmModule, own: Mapping[str, FunctionDef] | None = None) -> None:
        self._module = module
        self._own = dict(own or {})
        self._compiled: dict[tuple[str, tuple[int, ...]], CompiledFunction | None] = {}
        self._snippets: dict[tuple[str, tuple[int, ...]], Snippet | None] = {}
        self._names: dict[Expr, tuple[str, ...]] = {}
        self._expressions: dict[object, Snippet] = {}
        self._shared: dict[str, int] = {}

    def shared_function(self, key: str, write: Callable[[], WasmFunction]) -> int:
        """The index of a function that all kernels of the module share."""
        if key not in self._shared:
            self._shared[key] = self._module.add(write())
        return self._shared[key]

    def add(self, functions: Mapping[str, FunctionDef]) -> None:
        """Functions that users have written; in one program each has a name of its own."""
        self._own.update(functions)

    def lookup(self, name: str) -> FunctionDef | None:
        return self._own.get(name) or standard_function(name)

    def _definition(self, name: str) -> FunctionDef:
        definition = self.lookup(name)
        assert definition is not None, name
        return definition

    def compiled_function(self, name: str, lanes: tuple[int, ...]) -> CompiledFunction | None:
        key = (name, lanes)
        if key not in self._compiled:
            self._compiled[key] = self._compile(self._definition(name), lanes)
        return self._compiled[key]

    def snippet(self, name: str, lanes: tuple[int, ...]) -> Snippet | None:
        key = (name, lanes)
        if key not in self._snippets:
            definition = self._definition(name)
            pairs = zip(definition.params, lanes, strict=True)
            operands = [Local(at, kind, width) for at, ((_, kind), width) in enumerate(pairs)]
            names = [name for name, _ in definition.params]
            evaluator = Evaluator(self, dict(zip(names, operands, strict=True)))
            args = [evaluator.expression(Name(name), {}) for name in names]
            try:
                result = scalar(evaluator.inline(definition, args))
                self._snippets[key] = _record(name, operands, result)
            except NeedsLoopError:
                self._snippets[key] = None
        return self._snippets[key]

    def names_of(self, expr: Expr) -> tuple[str, ...]:
        names = self._names.get(expr)
        if names is None:
            names = self._names[expr] = tuple(dict.fromkeys(_names(expr)))
        return names

    def expression(
        self, expr: Expr, operands: tuple[Local | KnownOperand, ...], lanes: int
    ) -> Snippet:
        """The instructions of an expression; operands that differ only in locals share them."""
        shapes = tuple(
            (item.kind, item.lanes) if isinstance(item, Local) else (item.kind, repr(item.number))
            for item in operands
        )
        key = (expr, shapes, lanes)
        snippet = self._expressions.get(key)
        if snippet is None:
            snippet = self._expressions[key] = self._evaluate(expr, operands, lanes)
        return snippet

    def _evaluate(
        self, expr: Expr, operands: tuple[Local | KnownOperand, ...], lanes: int
    ) -> Snippet:
        names: dict[str, Local | KnownOperand] = {}
        slots: list[Local] = []
        for name, item in zip(self.names_of(expr), operands, strict=True):
            if isinstance(item, Local):
                item = Local(len(slots), item.kind, item.lanes)
                slots.append(item)
            names[name] = item
        evaluator = Evaluator(self, names)
        result = scalar(evaluator.expression(expr, {}))
        if result.kind == "int":
            result = evaluator.values.of_kind(result, "i32")
        if lanes > result.lanes:
            result = evaluator.values.widen(result)
        return _record("expression", slots, result)

    def _compile(self, definition: FunctionDef, lanes: tuple[int, ...]) -> CompiledFunction | None:
        pairs = list(zip(definition.params, lanes, strict=True))
        params = [(name, _type_code(kind, width)) for (name, kind), width in pairs]
        suffix = "." + "".join(map(str, lanes)) if max(lanes) > 1 else ""
        f = WasmFunction(definition.name + suffix, params)
        body = _Body(self, f)
        args = [body.values.local(at, kind, width) for at, ((_, kind), width) in enumerate(pairs)]
        try:
            result = scalar(body.inline(definition, args))
        except DivergentError:
            return None
        body.stack.push(result)
        f.results = (result.type_code(),)
        return CompiledFunction(self._module.add(f), result.kind, result.lanes)


class _Body(Evaluator):
    """The statements of a function that stays one; its loops become loops."""

    def __init__(self, functions: Functions, function: WasmFunction) -> None:
        super().__init__(functions, {})
        self.stack = Stack(function)
        self._into = function

    def repeat(self, loop: Loop, env: Environment) -> None:
        for name, thing in env.items():
            env[name] = self._store(name, thing, None)
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
        """Writes the loop; returns the variables that got more lanes than they started with."""
        f = self._into
        changed = assigned_names((*loop.body, *loop.after))
        for name in changed:
            value = scalar(env[name])
            value = self.values.widen(value) if name in wide else value
            env[name] = self._store(name, value, f.local(name, value.type_code()))
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

    def _like(self, value: WasmValue, model: WasmValue) -> WasmValue:
        return self.values.widen(value) if model.lanes > value.lanes else value

    def _store(self, name: str, thing: Thing, index: int | None) -> Thing:
        """Puts a value into a local of its own: loops read it there."""
        if isinstance(thing, tuple):
            return tuple(self._store(name, item, None) for item in thing)
        if index is None:
            if thing.op in ("const", "local"):
                return thing
            index = self._into.local(name, thing.type_code())
        self.stack.push(thing)
        self._into.set(index)
        return self.values.local(index, thing.kind, thing.lanes)


def _record(name: str, operands: Sequence[Local], result: WasmValue) -> Snippet:
    params = [(name, _type_code(item.kind, item.lanes)) for item in operands]
    recorder = Recorder(name, params)
    Stack(recorder).push(result)
    return recorder.snippet(result)


def _names(expr: Expr) -> Iterator[str]:
    match expr:
        case Name(name):
            yield name
        case Unary(_, inner) | Member(inner, _):
            yield from _names(inner)
        case Binary(_, left, right) | Element(left, right):
            yield from _names(left)
            yield from _names(right)
        case Call(_, args):
            for arg in args:
                yield from _names(arg)


def _type_code(kind: str, lanes: int) -> int:
    if lanes > 1:
        return V128
    return F32 if kind == "f32" else I32
