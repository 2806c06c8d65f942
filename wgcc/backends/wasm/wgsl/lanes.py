"""Expressions of WGSL as instructions, for one element or for four at a time.

    code = Code(function, Library(module))
    kind = code.expression(parse_expression("exp({0}) * {1}"), {"{0}": Local(2, "f32", 4), ...})

pushes the result. It has four lanes if an operand has; operands of one lane (and what is computed
from them alone) are splatted where they meet a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from wgcc.backends.wasm.encoding.instructions import F32, I32, PLAIN_CODES, V128, leb128
from wgcc.backends.wasm.encoding.module import WasmFunction
from wgcc.backends.wasm.wgsl.arithmetic import WasmValue
from wgcc.backends.wasm.wgsl.evaluate import (
    Environment,
    Evaluator,
    Functions,
    KnownOperand,
    Local,
    Names,
    Snippet,
    UnsupportedError,
    scalar,
)
from wgcc.kernel.tree import Expr, Statement


class Type(NamedTuple):
    kind: str
    lanes: int


class Code:
    """Writes into one function. An expression that the module has seen before is copied."""

    def __init__(self, function: WasmFunction, functions: LaneExpressions) -> None:
        self.function = function
        self.functions = functions
        self._stack = Stack(function)

    def expression(self, expr: Expr, names: Names, lanes: int = 1) -> Type:
        """Pushes the value of an expression, in at least this many lanes."""
        used = self.functions.names_of(expr)
        try:
            operands = tuple(names[name] for name in used)
        except KeyError as missing:
            raise UnsupportedError(f"nothing is called {missing.args[0]}") from None
        snippet = self.functions.expression(expr, operands, lanes)
        self._stack.copy(snippet, [item.index for item in operands if isinstance(item, Local)])
        return Type(snippet.kind, snippet.lanes)

    def statements(self, body: Sequence[Statement], names: Names, lanes: int = 1) -> list[str]:
        """Pushes the final values of assigned variables; returns their names, topmost last."""
        evaluator = Evaluator(self.functions, names)
        env: Environment = {}
        evaluator.run(body, env)
        changed = [name for name in env if name in names]
        values = [scalar(env[name]) for name in changed]
        self._stack.push(*(evaluator.values.widen(v) if lanes > v.lanes else v for v in values))
        return changed


class LaneExpressions(Functions, Protocol):
    def names_of(self, expr: Expr) -> tuple[str, ...]: ...

    def expression(
        self, expr: Expr, operands: tuple[Local | KnownOperand, ...], lanes: int
    ) -> Snippet: ...


class Recorder(WasmFunction):
    """A function whose instructions become a snippet; its parameters are the operands."""

    def __init__(self, name: str, params: Sequence[tuple[str, int]]) -> None:
        super().__init__(name, params)
        self._pieces: list[tuple[bytes, int]] = []

    def get(self, index: int) -> WasmFunction:
        return self.record(b"\x20", index)

    def set(self, index: int) -> WasmFunction:
        return self.record(b"\x21", index)

    def tee(self, index: int) -> WasmFunction:
        return self.record(b"\x22", index)

    def record(self, opcode: bytes, index: int) -> WasmFunction:
        self._pieces.append((bytes(self.code) + opcode, index))
        self.code.clear()
        return self

    def snippet(self, result: WasmValue) -> Snippet:
        count = len(self.params)
        own = tuple(self.local_types[count:])
        pieces = tuple(self._pieces)
        return Snippet(pieces, bytes(self.code), count, own, result.kind, result.lanes)


class Stack:
    """Writes the instructions that push values. What is used twice is kept in a local meanwhile."""

    def __init__(self, function: WasmFunction) -> None:
        self.function = function
        self._uses: dict[WasmValue, int] = {}
        self._held: dict[WasmValue, int] = {}
        self._free: dict[int, list[int]] = {}

    def push(self, *values: WasmValue) -> None:
        self._uses.clear()
        for value in values:
            self._count(value)
        for value in values:
            self._push(value)
        assert not self._held

    def copy(self, snippet: Snippet, operands: Sequence[int]) -> None:
        """The instructions of a snippet, on these locals."""
        own = [self._take_local(kind) for kind in snippet.own]
        indices = [*operands, *own]
        function = self.function
        if isinstance(function, Recorder):
            for piece, slot in snippet.pieces:
                function.code += piece[:-1]
                function.record(piece[-1:], indices[slot])
        else:
            encoded = [leb128(index) for index in indices]
            for piece, slot in snippet.pieces:
                function.code += piece + encoded[slot]
        function.code += snippet.tail
        for kind, index in zip(snippet.own, own, strict=True):
            self._free[kind].append(index)

    def _count(self, value: WasmValue) -> None:
        while value.op == "retype":
            value = value.args[0]
        seen = self._uses.get(value, 0)
        self._uses[value] = seen + 1
        if not seen:
            for arg in value.args:
                self._count(arg)

    def _push(self, value: WasmValue) -> None:
        while value.op == "retype":
            value = value.args[0]
        if value.op in ("local", "const"):
            self._push_known(value)
        elif value in self._held:
            self.function.get(self._held[value])
            self._release(value)
        else:
            self._compute(value)
            if self._uses[value] > 1:
                self.function.tee(self._take(value))
                self._release(value)

    def _push_known(self, value: WasmValue) -> None:
        if value.op == "local":
            self.function.get(value.data[0])
        elif value.kind == "f32":
            self.function.code += b"\x43" + value.data.to_bytes(4, "little")
        else:
            self.function.i32(value.data)

    def _compute(self, value: WasmValue) -> None:
        op = value.op
        if op in ("each lane", "call each lane"):
            self._each_lane(value)
            return
        if op == "copy":
            self._copy(value)
            return
        for arg in value.args:
            self._push(arg)
        plain = PLAIN_CODES.get(op)
        if plain is not None:
            self.function.code += plain
        elif op == "call":
            self.function.call(value.data)
        else:
            assert op == "i8x16.shuffle", op
            self.function.shuffle(*value.data)

    def _copy(self, value: WasmValue) -> None:
        operands, constants = [], []
        for arg in value.args:
            index = self._keep(arg)
            if index is None:
                index = self._take_local(arg.type_code())
                constants.append((arg.type_code(), index))
                self._push_known(arg)
                self.function.set(index)
            operands.append(index)
        self.copy(value.data, operands)
        for kind, index in constants:
            self._free[kind].append(index)
        for arg in value.args:
            self._drop(arg)

    def _each_lane(self, value: WasmValue) -> None:
        """The same scalar instruction or call for each lane by itself."""
        f = self.function
        kept = [self._keep(arg) for arg in value.args]
        for lane in range(4):
            for arg, index in zip(value.args, kept, strict=True):
                self._push_lane(arg, index, lane)
            f.emit(value.data) if value.op == "each lane" else f.call(value.data)
            if value.kind == "bool":
                f.i32(-1).emit("i32.mul")
            family = "f32x4" if value.kind == "f32" else "i32x4"
            f.emit(f"{family}.splat") if lane == 0 else f.emit(f"{family}.replace_lane", lane)
        for arg in value.args:
            self._drop(arg)

    def _push_lane(self, arg: WasmValue, index: int | None, lane: int) -> None:
        if index is None:
            self._push_known(arg)
            return
        self.function.get(index)
        if arg.lanes > 1:
            family = "f32x4" if arg.kind == "f32" else "i32x4"
            self.function.emit(f"{family}.extract_lane", lane)
            if arg.kind == "bool":
                self.function.i32(1).emit("i32.and")

    def _keep(self, value: WasmValue) -> int | None:
        """The local that holds a value until `_drop`; None for constants."""
        while value.op == "retype":
            value = value.args[0]
        if value.op == "const":
            return None
        if value.op == "local":
            return int(value.data[0])
        if value not in self._held:
            self._compute(value)
            self.function.set(self._take(value))
        return self._held[value]

    def _drop(self, value: WasmValue) -> None:
        while value.op == "retype":
            value = value.args[0]
        if value in self._held:
            self._release(value)

    def _take(self, value: WasmValue) -> int:
        self._held[value] = index = self._take_local(value.type_code())
        return index

    def _take_local(self, kind: int) -> int:
        free = self._free.setdefault(kind, [])
        name = {V128: "v", F32: "f", I32: "i"}[kind]
        return free.pop() if free else self.function.local(name, kind)

    def _release(self, value: WasmValue) -> None:
        """One use fewer; after the last, the local is free for others."""
        self._uses[value] -= 1
        if not self._uses[value]:
            self._free[value.type_code()].append(self._held.pop(value))
