"""Runs functions of kernel trees on whole arrays, element by element: the reference of `wgsl`.

Both branches of an `if` are computed, and each element keeps what its own branch assigned. Floats
have the precision of the arrays that are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from wgcc.kernel.tree import (
    Assign,
    Binary,
    Call,
    Expr,
    FunctionDef,
    If,
    Let,
    Literal,
    Loop,
    Name,
    Return,
    Statement,
    Unary,
)
from wgcc.lazy_numpy import Array, np


def interpret(
    function: FunctionDef, functions: Mapping[str, FunctionDef], arrays: Sequence[Array]
) -> Array:
    """The function for each index of `arrays`, which have one shape."""
    wide = any(array.dtype == np.float64 for array in arrays)
    run = _Run(functions, np.dtype(np.float64 if wide else np.float32))
    return run.call(function, [run.of_kind(a, k) for a, (_, k) in _pairs(arrays, function)])


def _pairs(
    arrays: Sequence[Array], function: FunctionDef
) -> Sequence[tuple[Array, tuple[str, str]]]:
    return list(zip(arrays, function.params, strict=True))


class _Frame:
    """One call: its variables, and what was returned for which elements."""

    def __init__(self, kind: str) -> None:
        self.names: dict[str, tuple[Array, str]] = {}
        self.kind = kind
        self.result: Array | None = None


class _Run:
    def __init__(self, functions: Mapping[str, FunctionDef], floats: np.dtype) -> None:
        self._functions = functions
        self._dtypes = {
            "f32": floats,
            "i32": np.dtype(np.int32),
            "u32": np.dtype(np.uint32),
            "bool": np.dtype(np.bool_),
        }

    def of_kind(self, array: Array, kind: str) -> Array:
        return np.asarray(array).astype(self._dtypes[kind])

    def call(self, function: FunctionDef, args: Sequence[Array]) -> Array:
        assert function.result is not None
        frame = _Frame(function.result)
        for (name, kind), array in zip(function.params, args, strict=True):
            frame.names[name] = array, kind
        shape = np.broadcast_shapes(*(array.shape for array in args))
        self._body(function.body, frame, np.ones(shape, np.bool_))
        assert frame.result is not None
        return frame.result

    def _body(self, body: Sequence[Statement], frame: _Frame, active: Array) -> Array:
        """Returns which of the elements are still to be computed after it."""
        for statement in body:
            active = self._statement(statement, frame, active)
        return active

    def _statement(self, statement: Statement, frame: _Frame, active: Array) -> Array:
        match statement:
            case Let(name, kind, value):
                self._declare(frame, name, kind, value)
            case Assign(Name(name), value):
                old, kind = frame.names[name]
                new = self.of_kind(self._value(value, frame, kind)[0], kind)
                frame.names[name] = np.where(active, new, old), kind
            case If(condition, then, other):
                test = self._value(condition, frame, "bool")[0]
                first = self._body(then, frame, active & test)
                return first | self._body(other, frame, active & ~test)
            case Loop(before, condition, after, body):
                self._body(before, frame, active)
                # All elements count alike, also those that are in another branch.
                while np.all(self._value(condition, frame, "bool")[0]):
                    self._body(body, frame, active)
                    self._body(after, frame, np.ones_like(active))
            case Return(value):
                assert value is not None
                self._return(frame, self._value(value, frame, frame.kind)[0], active)
                return np.zeros_like(active)
        return active

    def _declare(self, frame: _Frame, name: str, kind: str | None, value: Expr | None) -> None:
        if value is None:
            assert kind is not None
            frame.names[name] = np.zeros((), self._dtypes[kind]), kind
            return
        array, own = self._value(value, frame, kind or "")
        frame.names[name] = array, own

    def _return(self, frame: _Frame, value: Array, active: Array) -> None:
        value = np.broadcast_to(self.of_kind(value, frame.kind), active.shape)
        done = frame.result
        frame.result = value.copy() if done is None else np.where(active, value, done)

    def _value(self, expr: Expr, frame: _Frame, wanted: str) -> tuple[Array, str]:
        """An array and its type; a number without a type has the one that is `wanted`."""
        match expr:
            case Literal(value, kind):
                own = kind if kind != "int" else wanted or "i32"
                return np.asarray(value, self._dtypes[own]), own
            case Unary("-", Literal(value, "int")):
                return np.asarray(-value, self._dtypes[wanted or "i32"]), wanted or "i32"
            case Name(name):
                return frame.names[name]
            case Unary(op, operand):
                array, kind = self._value(operand, frame, wanted)
                return _UNARY[op](array), kind
            case Binary(op, left, right):
                return self._binary(op, left, right, frame, wanted)
            case Call(name, args):
                return self._call(name, args, frame, wanted)
        raise TypeError(f"{type(expr).__name__} is not for scalars")

    def _binary(
        self, op: str, left: Expr, right: Expr, frame: _Frame, wanted: str
    ) -> tuple[Array, str]:
        if op in ("<<", ">>"):
            x, kind = self._value(left, frame, wanted)
            by = self._value(right, frame, "u32")[0].astype(x.dtype)
            return (np.left_shift(x, by) if op == "<<" else np.right_shift(x, by)), kind
        inside = "" if op in _COMPARED else wanted
        (a, b), kind = self._together((left, right), frame, inside)
        if op in _COMPARED:
            return _COMPARED[op](a, b), "bool"
        return _arithmetic(op, a, b, kind), kind

    def _together(
        self, exprs: Sequence[Expr], frame: _Frame, wanted: str
    ) -> tuple[list[Array], str]:
        """Operands of one type: a number without a type gets that of the others."""
        known = next((e for e in exprs if not _is_open(e)), None)
        kind = self._value(known, frame, wanted)[1] if known is not None else wanted or "i32"
        return [self._value(expr, frame, kind)[0] for expr in exprs], kind

    def _call(
        self, name: str, args: Sequence[Expr], frame: _Frame, wanted: str
    ) -> tuple[Array, str]:
        function = self._functions.get(name)
        if function is not None:
            pairs = zip(args, function.params, strict=True)
            given = [self.of_kind(self._value(a, frame, k)[0], k) for a, (_, k) in pairs]
            return self.call(function, given), function.result or ""
        if name in self._dtypes:
            return self._convert(*self._value(args[0], frame, ""), name), name
        if name.startswith("bitcast<"):
            return self._bitcast(*self._value(args[0], frame, ""), name[8:-1]), name[8:-1]
        if name == "select":
            (no, yes), kind = self._together(args[:2], frame, wanted)
            return np.where(self._value(args[2], frame, "bool")[0], yes, no), kind
        arrays, kind = self._together(args, frame, wanted)
        return np.asarray(_CALLS[name](*arrays)).astype(self._dtypes[kind]), kind

    def _convert(self, array: Array, kind: str, wanted: str) -> Array:
        """Floats lose their fraction, and stay in range; NaN becomes 0."""
        if kind == "f32" and wanted in ("i32", "u32"):
            limits = np.iinfo(self._dtypes[wanted])
            whole = np.nan_to_num(np.trunc(array.astype(np.float64)), posinf=np.inf, neginf=-np.inf)
            return np.asarray(np.clip(whole, limits.min, limits.max), self._dtypes[wanted])
        return np.asarray(array != 0) if wanted == "bool" else array.astype(self._dtypes[wanted])

    def _bitcast(self, array: Array, kind: str, wanted: str) -> Array:
        words = array.astype(np.float32) if kind == "f32" else array
        if wanted != "f32":
            return words.view(self._dtypes[wanted])
        return words.view(np.float32).astype(self._dtypes["f32"])


def _is_open(expr: Expr) -> bool:
    """Whether it is a whole number without a type."""
    if isinstance(expr, Unary) and expr.op == "-":
        return _is_open(expr.operand)
    return isinstance(expr, Literal) and expr.kind == "int"


def _arithmetic(op: str, a: Array, b: Array, kind: str) -> Array:
    if op in ("/", "%"):
        return _divide(op, a, b) if kind == "f32" else _divide_whole(op, a, b)
    return _ARITHMETIC[op](a, b)


def _divide(op: str, a: Array, b: Array) -> Array:
    quotient = np.true_divide(a, b)
    return quotient if op == "/" else a - np.trunc(quotient) * b


def _divide_whole(op: str, a: Array, b: Array) -> Array:
    """Rounded towards zero; dividing by 0 gives x and the remainder 0, as WGSL has it."""
    x, z = np.broadcast_arrays(a.astype(np.int64), b.astype(np.int64))
    safe = np.where(z == 0, 1, z)
    quotient = np.abs(x) // np.abs(safe) * np.sign(x) * np.sign(safe)
    return np.asarray(quotient if op == "/" else x - quotient * safe).astype(a.dtype)


def _smoothstep(low: Array, high: Array, x: Array) -> Array:
    t = np.clip((x - low) / (high - low), 0, 1)
    return np.asarray(t * t * (3 - 2 * t))


_UNARY: dict[str, Callable[[Array], Array]] = {
    "-": lambda x: np.negative(x),
    "!": lambda x: np.logical_not(x),
    "~": lambda x: np.invert(x),
}
_COMPARED: dict[str, Callable[[Array, Array], Array]] = {
    "==": lambda a, b: np.equal(a, b),
    "!=": lambda a, b: np.not_equal(a, b),
    "<": lambda a, b: np.less(a, b),
    ">": lambda a, b: np.greater(a, b),
    "<=": lambda a, b: np.less_equal(a, b),
    ">=": lambda a, b: np.greater_equal(a, b),
}
_ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {
    "+": lambda a, b: np.add(a, b),
    "-": lambda a, b: np.subtract(a, b),
    "*": lambda a, b: np.multiply(a, b),
    "&": lambda a, b: np.bitwise_and(a, b),
    "|": lambda a, b: np.bitwise_or(a, b),
    "^": lambda a, b: np.bitwise_xor(a, b),
    "&&": lambda a, b: np.logical_and(a, b),
    "||": lambda a, b: np.logical_or(a, b),
}
_CALLS: dict[str, Callable[..., Array]] = {
    "abs": lambda x: np.abs(x),
    "ceil": lambda x: np.ceil(x),
    "clamp": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "exp": lambda x: np.exp(x),
    "floor": lambda x: np.floor(x),
    "fma": lambda a, b, c: a * b + c,
    "fract": lambda x: x - np.floor(x),
    "inverseSqrt": lambda x: 1 / np.sqrt(x),
    "max": lambda a, b: np.maximum(a, b),
    "min": lambda a, b: np.minimum(a, b),
    "round": lambda x: np.rint(x),
    "sign": lambda x: np.sign(x),
    "sqrt": lambda x: np.sqrt(x),
    "trunc": lambda x: np.trunc(x),
    "wg_acos": lambda x: np.arccos(x),
    "wg_asin": lambda x: np.arcsin(x),
    "wg_atan": lambda x: np.arctan(x),
    "wg_atan2": lambda y, x: np.arctan2(y, x),
    "wg_cos": lambda x: np.cos(x),
    "wg_cosh": lambda x: np.cosh(x),
    "wg_exp2": lambda x: np.exp2(x),
    "wg_log": lambda x: np.log(x),
    "wg_log2": lambda x: np.log2(x),
    "wg_max": lambda a, b: np.maximum(a, b),
    "wg_min": lambda a, b: np.minimum(a, b),
    "wg_mix": lambda a, b, t: a * (1 - t) + b * t,
    "wg_pow": lambda x, z: np.power(x, z),
    "wg_saturate": lambda x: np.clip(x, 0, 1),
    "wg_sin": lambda x: np.sin(x),
    "wg_sinh": lambda x: np.sinh(x),
    "wg_smoothstep": _smoothstep,
    "wg_step": lambda edge, x: np.where(edge <= x, 1.0, 0.0),
    "wg_tan": lambda x: np.tan(x),
    "wg_tanh": lambda x: np.tanh(x),
}
