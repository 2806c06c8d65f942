"""Checks the expressions of a function, and rewrites them so that machines agree.

Numbers known beforehand are computed, functions of WGSL whose results differ among machines are
replaced by wgcc's, shifts are by at most 31 bits, and names of functions get a prefix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from wgcc.kernel.own import fold
from wgcc.kernel.own.words import EXTREMES, FUNCTIONS, KINDS, REPLACED, RESERVED
from wgcc.kernel.tree import (
    Binary,
    Call,
    Expr,
    FunctionDef,
    Literal,
    Name,
    Unary,
    parts_of,
)
from wgcc.kernel.types import (
    FLOATS,
    WHOLE,
    TypeMismatch,
    binary_kind,
    common_kind,
    default_kind,
    fits,
    unary_kind,
)

DEEPEST = 100


class WrongFunction(Exception):
    """Says what is wrong with a function; `nodes` are the parts that are, the smallest first."""

    def __init__(self, message: str, *nodes: object, help: str = "") -> None:
        super().__init__(message)
        self.message, self.nodes, self.help = message, list(nodes), help


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression and its type; "int" and "float" are numbers whose type is still open."""

    expr: Expr
    kind: str


@dataclass(frozen=True, slots=True)
class LocalName:
    """`number`: of a `let`, if it is known beforehand."""

    kind: str
    is_mutable: bool
    number: fold.Number | None = None


class ExpressionChecker:
    """`functions` are those of the file, `constants` its numbers, `names` what kernels call them.

    `calls` has the functions of the file that were called, with the place of the first call, and
    `library` the files of wgcc's functions.
    """

    def __init__(
        self,
        functions: Mapping[str, FunctionDef],
        constants: Mapping[str, Typed],
        names: Mapping[str, str],
    ) -> None:
        self.functions, self.constants, self.names = functions, constants, names
        self.calls: dict[str, Expr] = {}
        self.library: set[str] = set()
        self.scopes: list[dict[str, LocalName]] = []

    def lookup(self, name: str) -> LocalName | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def number_of(self, expr: Expr) -> fold.Number | None:
        """The number that an expression is, also by the name of a `let`."""
        if isinstance(expr, Name):
            variable = self.lookup(expr.name)
            return variable.number if variable else None
        return fold.number_in(expr)

    def as_kind(self, expr: Expr, kind: str, what: str) -> Expr:
        return self.convert(self.infer(expr), kind, expr, what)

    def convert(self, typed: Typed, kind: str, at: Expr, what: str) -> Expr:
        """The expression as one of this type; `what` begins the message where it is of another."""
        if not fits(kind, typed.kind):
            shown = default_kind(typed.kind)
            advice = "compare it: `x > 0.0`" if kind == "bool" else f"convert it: `{kind}(...)`"
            raise WrongFunction(f"{what} must be {kind}, but this is {shown}", at, help=advice)
        value = fold.number_in(typed.expr)
        if value is None or typed.kind == kind:
            return typed.expr
        try:
            number = fold.settle(value, kind)
        except fold.NoNumber as error:
            raise WrongFunction(f"this number cannot be {kind}: {error}", at) from None
        is_written_so = typed.kind == "float" or (typed.kind == "int" and kind == "i32")
        return typed.expr if is_written_so else fold.literal(number, kind)

    def infer(self, expr: Expr, depth: int = 0) -> Typed:
        if depth > DEEPEST:
            raise WrongFunction(f"an expression is nested more than {DEEPEST} deep", expr)
        try:
            return self._any_expression(expr, depth)
        except TypeMismatch as error:
            raise WrongFunction(f"these types do not fit: {error}", expr) from None
        except fold.NoNumber as error:
            raise WrongFunction(f"this number does not exist: {error}", expr) from None

    def _any_expression(self, expr: Expr, depth: int) -> Typed:
        match expr:
            case Literal(value, kind, text):
                return self._literal(expr, value, kind, text)
            case Name(name):
                return self._name(name, expr)
            case Unary("&", _):
                raise WrongFunction("pointers are not supported", expr)
            case Unary(op, operand):
                return self._unary(op, self.infer(operand, depth + 1), expr.parens)
            case Binary(op, left, right):
                a, b = self.infer(left, depth + 1), self.infer(right, depth + 1)
                return self._binary(op, a, b, expr.parens)
            case Call(name, args):
                typed = self._call(expr, name, [self.infer(arg, depth + 1) for arg in args])
                return Typed(_apart(typed.expr), typed.kind)
        raise WrongFunction("only scalars are supported: no vectors, arrays and structs", expr)

    def _literal(self, expr: Literal, value: fold.Number, kind: str, text: str) -> Typed:
        if kind in FLOATS and kind != "f32":
            raise WrongFunction("f16 is not supported: values of f16 are computed as f32", expr)
        kind = "float" if kind == "f32" and text[-1:] != "f" else kind
        fold.settle(value, kind)
        return Typed(expr, kind)

    def _name(self, name: str, at: Expr) -> Typed:
        variable = self.lookup(name)
        if variable is not None:
            return Typed(at, variable.kind)
        if name in self.constants:
            return self.constants[name]
        raise WrongFunction(f"nothing is called `{name}`", at)

    def _unary(self, op: str, operand: Typed, parens: bool) -> Typed:
        kind, value = unary_kind(op, operand.kind), fold.number_in(operand.expr)
        is_sign = op == "-" and isinstance(operand.expr, Literal)
        if value is None or is_sign:
            return Typed(Unary(op, operand.expr, parens), kind)
        return Typed(fold.literal(fold.unary(op, value, kind), kind), kind)

    def _binary(self, op: str, a: Typed, b: Typed, parens: bool) -> Typed:
        result = binary_kind(op, a.kind, b.kind)
        if op in ("<<", ">>"):
            return self._shift(op, a, b, parens)
        kind = common_kind((a.kind, b.kind))
        x, z = fold.number_in(a.expr), fold.number_in(b.expr)
        if x is not None and z is not None:
            value = fold.binary(op, x, z, kind)
            return Typed(fold.literal(value, result), result)
        if op in ("/", "%") and kind in WHOLE and z == 0:
            raise fold.NoNumber("it divides by zero")
        left, right = (self.convert(item, kind, item.expr, "this") for item in (a, b))
        return Typed(Binary(op, left, right, parens), result)

    def _shift(self, op: str, a: Typed, b: Typed, parens: bool) -> Typed:
        x, z = fold.number_in(a.expr), fold.number_in(b.expr)
        if z is not None and not 0 <= z <= 31:
            raise fold.NoNumber(f"a shift is by 0 to 31 bits, not by {z}")
        if x is not None and z is not None:
            return Typed(fold.literal(fold.binary(op, x, z, a.kind), a.kind), a.kind)
        kind = default_kind(a.kind)
        left = self.convert(a, kind, a.expr, "this")
        masked = Binary("&", b.expr, Literal(31, "u32"), parens=True)
        by = masked if z is None else fold.literal(z, "u32")
        return Typed(Binary(op, left, by, parens), kind)

    def _call(self, call: Call, name: str, args: list[Typed]) -> Typed:
        if name in KINDS:
            return self._conversion(call, name, args)
        if name.startswith("bitcast<"):
            return self._bitcast(call, name[8:-1], args)
        if name in self.functions:
            return self._own(call, self.functions[name], args)
        if name == "select":
            return self._select(call, args)
        if name not in FUNCTIONS:
            known = ", ".join(sorted([*FUNCTIONS, "select"]))
            text = f"there is no function `{name}` of scalars"
            raise WrongFunction(text, call, help=f"there are {known}, and those of this file")
        return self._built_in(call, name, args)

    def _count(self, call: Call, wanted: int) -> None:
        if len(call.args) != wanted:
            noun = "argument" if wanted == 1 else "arguments"
            text = f"`{call.name}` takes {wanted} {noun}, but this has {len(call.args)}"
            raise WrongFunction(text, call)

    def _conversion(self, call: Call, kind: str, args: list[Typed]) -> Typed:
        self._count(call, 1)
        value = fold.number_in(args[0].expr)
        if value is not None:
            return Typed(fold.literal(fold.convert(value, kind), kind), kind)
        return Typed(replace(call, args=(args[0].expr,)), kind)

    def _bitcast(self, call: Call, kind: str, args: list[Typed]) -> Typed:
        self._count(call, 1)
        if kind not in ("f32", "i32", "u32") or args[0].kind == "bool":
            raise WrongFunction("`bitcast` is for f32, i32 and u32", call)
        if fold.number_in(args[0].expr) is not None:
            raise WrongFunction("write the number itself instead of a `bitcast` of one", call)
        return Typed(replace(call, args=(args[0].expr,)), kind)

    def _own(self, call: Call, function: FunctionDef, args: list[Typed]) -> Typed:
        self._count(call, len(function.params))
        self.calls.setdefault(function.name, call)
        if function.result is None:
            raise WrongFunction(f"`{function.name}` returns nothing", call)
        given = tuple(
            self.convert(arg, kind, at, f"argument `{name}` of `{function.name}`")
            for arg, at, (name, kind) in zip(args, call.args, function.params, strict=True)
        )
        return Typed(replace(call, name=self.names[function.name], args=given), function.result)

    def _select(self, call: Call, args: list[Typed]) -> Typed:
        self._count(call, 3)
        kind = default_kind(common_kind((args[0].kind, args[1].kind)))
        test = self.convert(args[2], "bool", call.args[2], "the condition of `select`")
        no, yes = (self.convert(arg, kind, call, "this") for arg in args[:2])
        return Typed(replace(call, args=(no, yes, test)), kind)

    def _built_in(self, call: Call, name: str, args: list[Typed]) -> Typed:
        count, kinds = FUNCTIONS[name]
        self._count(call, count)
        kind = common_kind([arg.kind for arg in args])
        if kind not in kinds:
            raise WrongFunction(f"`{name}` does not take {default_kind(kind)}", call)
        if "int" in kinds and "i32" not in kinds and kind == "int":
            kind = "float"
        numbers = [fold.number_in(arg.expr) for arg in args]
        if name == "clamp" and numbers[1] is not None and numbers[2] is not None:
            fold.call(name, [numbers[1], numbers[1], numbers[2]], kind)
        if all(number is not None for number in numbers):
            value = fold.call(name, [n for n in numbers if n is not None], kind)
            if value is not None:
                return Typed(fold.literal(value, kind), kind)
        kind = default_kind(kind)
        given = tuple(
            self.convert(arg, kind, at, f"an argument of `{name}`")
            for arg, at in zip(args, call.args, strict=True)
        )
        changed = EXTREMES.get(name) if kind in FLOATS else None
        new_name, files = changed or REPLACED.get(name, (name, ()))
        self.library.update(files)
        return Typed(replace(call, name=new_name, args=given), kind)


def _apart(expr: Expr) -> Expr:
    """Comparisons among the arguments of a call in parentheses: `f(a < b, c > d)` is a template."""
    if not isinstance(expr, Call) or len(expr.args) < 2:
        return expr
    args = tuple(
        replace(arg, parens=True) if isinstance(arg, Binary) and _compares(arg) else arg
        for arg in expr.args
    )
    return replace(expr, args=args)


def _compares(expr: Expr) -> bool:
    signs = ("<", ">", "<=", ">=", "<<", ">>")
    return any(isinstance(part, Binary) and part.op in signs for part in parts_of(expr))


def check_name(name: str, at: object) -> None:
    if name in RESERVED or name in FUNCTIONS or name.startswith(("__", "wg_", "{")) or name == "_":
        raise WrongFunction(f"`{name}` cannot be a name here", at, help="choose another one")


def check_kind(kind: str, at: object) -> None:
    if kind not in KINDS:
        text = f"only scalars are supported: {', '.join(KINDS)}, not {kind}"
        advice = "values of f16 tensors are computed as f32" if kind in FLOATS else ""
        raise WrongFunction(text, at, help=advice)
