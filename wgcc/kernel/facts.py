"""Knowledge of the whole numbers and truth values of a kernel: an interval for each.

Every value that a statement makes is a symbol, which never changes; a variable that is assigned
stands for another symbol afterwards. So what a test says of a symbol holds wherever control flow
is behind that test. Expressions here have symbols as their names, and no loads and calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wgcc.kernel.ranges import Range, arithmetic, compare, extreme, single, whole_range
from wgcc.kernel.tree import Binary, Call, Expr, Literal, Name, Unary, names_of

# Longer chains of definitions are not looked through.
MAX_DEPTH = 48
COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")
_NEGATIONS = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
_MIRRORED = {">": "<", ">=": "<="}
_WHOLE = ("u32", "i32")
# Stands for one of several values, by the number that is the last argument.
COMPONENT = "component"
# Functions that count bits.
_BIT_COUNTS = ("countOneBits", "countLeadingZeros", "countTrailingZeros")


@dataclass(frozen=True, slots=True)
class KnownSymbol:
    """`definition` says it in older symbols; `origin` is where an unknown number comes from."""

    kind: str
    is_uniform: bool
    known: Range | None = None
    definition: Expr | None = None
    origin: str = ""
    depth: int = 0


@dataclass(slots=True)
class Knowledge:
    """`symbols` are those of the whole kernel; `bounds` holds what tests say of expressions."""

    symbols: dict[str, KnownSymbol] = field(default_factory=dict)
    bounds: dict[Expr, Range] = field(default_factory=dict)
    _ranges: dict[Expr, Range] = field(default_factory=dict)

    def unknown(self, kind: str, origin: str, is_uniform: bool, known: Range | None = None) -> Name:
        return self._add(KnownSymbol(kind, is_uniform, known, origin=origin), origin)

    def define(self, name: str, kind: str, definition: Expr) -> Expr:
        """A symbol for an expression, if that has no name yet."""
        if isinstance(definition, Name | Literal):
            return definition
        is_uniform = self.is_uniform(definition)
        depth = 1 + max((self.symbols[n].depth for n in names_of(definition)), default=0)
        if depth > MAX_DEPTH:
            return self.unknown(kind, name, is_uniform, self.range(definition))
        return self._add(KnownSymbol(kind, is_uniform, None, definition, name, depth), name)

    def _add(self, symbol: KnownSymbol, name: str) -> Name:
        unique = f"{name}#{len(self.symbols)}"
        self.symbols[unique] = symbol
        return Name(unique)

    def is_uniform(self, expr: Expr) -> bool:
        """Is it the same for all threads of a workgroup?"""
        return all(self.symbols[name].is_uniform for name in names_of(expr))

    def kind_of(self, expr: Expr) -> str:
        match expr:
            case Literal(_, kind):
                return kind
            case Name(name):
                return self.symbols[name].kind
            case Unary(op, operand):
                return "bool" if op == "!" else self.kind_of(operand)
            case Binary(op, left, right):
                if op in (*COMPARISONS, "&&", "||"):
                    return "bool"
                kind = self.kind_of(left)
                return self.kind_of(right) if kind == "int" else kind
            case Call("u32" | "i32" as kind, _):
                return kind
            case Call(name, args):
                kinds = (self.kind_of(arg) for arg in args[: 2 if name == "select" else None])
                return next((kind for kind in kinds if kind != "int"), "int")
        raise TypeError(expr)

    def unknown_parts(self, expr: Expr) -> list[str]:
        """The origins of the numbers that make an expression unknown."""
        origins: list[str] = []
        waiting, seen = list(names_of(expr)), set[str]()
        while waiting:
            name = waiting.pop(0)
            if name in seen:
                continue
            seen.add(name)
            symbol = self.symbols[name]
            if symbol.definition is not None:
                waiting += names_of(symbol.definition)
            elif symbol.kind in _WHOLE and self.range(Name(name)) == whole_range(symbol.kind):
                origins.append(symbol.origin)
        return origins

    def range(self, expr: Expr) -> Range:
        """The range of a whole number."""
        known = self._ranges.get(expr)
        if known is None:
            kind = self.kind_of(expr)
            known = self._structural(expr, kind) or whole_range(kind)
            known = _intersection(known, self.bounds.get(expr)) or known
            self._ranges[expr] = known
        return known

    def _structural(self, expr: Expr, kind: str) -> Range | None:
        match expr:
            case Literal(value, _):
                return single(int(value))
            case Name(name):
                symbol = self.symbols[name]
                if symbol.definition is None:
                    return symbol.known
                return self.range(symbol.definition)
            case Unary("-", operand):
                return arithmetic("-", single(0), self.range(operand), kind)
            case Binary(op, left, right):
                return arithmetic(op, self.range(left), self.range(right), kind)
            case Call(name, args):
                return self._call(name, args, kind)
        return None

    def _call(self, name: str, args: tuple[Expr, ...], kind: str) -> Range | None:
        if name in _WHOLE:
            return self._convert(args[0], kind)
        if name in _BIT_COUNTS:
            return Range(0, 32)
        if name == "select":
            return self._select(*args)
        if name == "extractBits" and kind == "u32":
            count = self.range(args[2]).high
            return Range(0, (1 << count) - 1) if count < 32 else None
        if name == "abs" and kind == "i32":
            inner = self.range(args[0])
            return None if inner.low < 0 else inner
        if name in ("min", "max"):
            return extreme(name, self.range(args[0]), self.range(args[1]))
        if name == COMPONENT:
            parts = [self.range(arg) for arg in args[:-1]]
            return Range(min(part.low for part in parts), max(part.high for part in parts))
        if name == "clamp":
            value, low, high = map(self.range, args)
            return extreme("min", extreme("max", value, low), high)
        return None

    def _convert(self, operand: Expr, kind: str) -> Range | None:
        source = self.kind_of(operand)
        if source == "bool":
            return Range(0, 1)
        if source not in (*_WHOLE, "int"):
            return None
        known = self.range(operand)
        return known if _intersection(known, whole_range(kind)) == known else None

    def _select(self, no: Expr, yes: Expr, condition: Expr) -> Range:
        truth = self.truth(condition)
        if truth is not None:
            return self.range(yes if truth else no)
        # Each side counts only where the condition chooses it.
        a = self.assume(condition, False).range(no)
        b = self.assume(condition, True).range(yes)
        return Range(min(a.low, b.low), max(a.high, b.high))

    def truth(self, condition: Expr) -> bool | None:
        match condition:
            case Literal(value, "bool"):
                return bool(value)
            case Name(name):
                definition = self.symbols[name].definition
                return None if definition is None else self.truth(definition)
            case Unary("!", operand):
                inner = self.truth(operand)
                return None if inner is None else not inner
            case Binary("&&" | "&" | "||" | "|" as op, left, right):
                decisive = op[0] == "|"
                sides = self.truth(left), self.truth(right)
                return decisive if decisive in sides else None if None in sides else not decisive
            case Binary(op, left, right) if op in COMPARISONS:
                if self.kind_of(left) == "bool":
                    return None
                return compare(op, self.range(left), self.range(right))
        return None

    def assume(self, condition: Expr, truth: bool) -> Knowledge:
        """The knowledge where a condition has this truth value."""
        facts = Knowledge(self.symbols, dict(self.bounds))
        facts._assume(condition, truth)
        return facts

    def _assume(self, condition: Expr, truth: bool) -> None:
        match condition:
            case Name(name):
                definition = self.symbols[name].definition
                if definition is not None:
                    self._assume(definition, truth)
            case Unary("!", operand):
                self._assume(operand, not truth)
            case Binary("&&" | "&" | "||" | "|" as op, left, right):
                if truth == (op[0] == "&"):
                    self._assume(left, truth)
                    self._assume(right, truth)
            case Binary(op, left, right) if op in COMPARISONS:
                if self.kind_of(left) in (*_WHOLE, "int"):
                    self._compare(op if truth else _NEGATIONS[op], left, right)

    def _compare(self, op: str, left: Expr, right: Expr) -> None:
        if op in _MIRRORED:
            op, left, right = _MIRRORED[op], right, left
        a, b = self.range(left), self.range(right)
        if op == "==":
            self._limit(left, b)
            self._limit(right, a)
        elif op == "!=":
            self._differ(left, a, b)
            self._differ(right, b, a)
        else:
            gap = int(op == "<")
            self._limit(left, Range(min(a.low, b.high - gap), b.high - gap))
            self._limit(right, Range(a.low + gap, max(b.high, a.low + gap)))

    def _differ(self, expr: Expr, known: Range, other: Range) -> None:
        if other.is_single and known.low == other.low:
            self._limit(expr, Range(known.low + 1, known.high))
        elif other.is_single and known.high == other.low:
            self._limit(expr, Range(known.low, known.high - 1))

    def _limit(self, expr: Expr, limit: Range) -> None:
        """Notes that an expression is within a range, and what follows for its parts."""
        known = self.range(expr)
        new = _intersection(known, limit)
        if isinstance(expr, Literal) or new is None or new == known:
            return
        parts = self._consequences(expr, new)
        self.bounds[expr] = new
        self._ranges.clear()
        for part, range_ in parts:
            self._limit(part, range_)

    def _consequences(self, expr: Expr, new: Range) -> list[tuple[Expr, Range]]:
        match expr:
            case Name(name):
                definition = self.symbols[name].definition
                return [] if definition is None else [(definition, new)]
            case Call("u32" | "i32" as kind, (operand,)):
                preserved = self._convert(operand, kind)
                return [(operand, new)] if preserved and self.kind_of(operand) != "bool" else []
            case Binary(op, left, right):
                a, b = self.range(left), self.range(right)
                if arithmetic(op, a, b, self.kind_of(expr)) is not None:
                    return _operands(op, left, right, a, b, new)
        return []


def _operands(
    op: str, left: Expr, right: Expr, a: Range, b: Range, new: Range
) -> list[tuple[Expr, Range]]:
    """The ranges of the operands of a sum, product or quotient that did not wrap around."""
    match op:
        case "+":
            return [
                (left, _span(new.low - b.high, new.high - b.low)),
                (right, _span(new.low - a.high, new.high - a.low)),
            ]
        case "-":
            return [
                (left, _span(new.low + b.low, new.high + b.high)),
                (right, _span(a.low - new.high, a.high - new.low)),
            ]
        case "*" if a.low >= 0 and b.low >= 0:
            sides = ((left, b), (right, a))
            return [
                (side, _span(-(-max(new.low, 0) // other.high), max(new.high, 0) // other.low))
                for side, other in sides
                if other.low > 0
            ]
        case "/" if a.low >= 0 and b.low > 0:
            return [(left, Range(max(new.low, 0) * b.low, (new.high + 1) * b.high - 1))]
    return []


def _span(low: int, high: int) -> Range:
    return Range(low, max(low, high))


def _intersection(a: Range, b: Range | None) -> Range | None:
    if b is None:
        return a
    low, high = max(a.low, b.low), min(a.high, b.high)
    return Range(low, high) if low <= high else None
