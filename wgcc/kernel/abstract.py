"""Evaluates expressions of a kernel for all its threads at once: types, ranges, uniformity.

A value has a type, says whether all threads of a workgroup have the same, and is an expression of
symbols (`facts.py`) where it is a whole number or a truth value. What an index may be is compared
with the length of what it indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from wgcc.kernel.facts import COMPONENT, Knowledge
from wgcc.kernel.parse import parse_expression
from wgcc.kernel.ranges import Range
from wgcc.kernel.tree import (
    Binary,
    Call,
    Element,
    Expr,
    FunctionDef,
    Literal,
    Member,
    Module,
    ModuleVariable,
    Name,
    Unary,
)
from wgcc.kernel.types import (
    ATOMICS,
    FLOATS,
    SCALARS,
    TypeMismatch,
    array_parts,
    binary_kind,
    built_in_kind,
    constructor_kind,
    default_kind,
    element_of,
    fits,
    is_collective,
    unary_kind,
    vector,
    width_of,
)

_FIELDS = "xyzw"
_TRACKED = ("u32", "i32", "bool", "int")
# Functions whose ranges are known.
_RANGED = ("min", "max", "clamp", "select", "abs", "extractBits")
_BIT_COUNTS = ("countOneBits", "countLeadingZeros", "countTrailingZeros")


@dataclass(frozen=True, slots=True)
class AbstractValue:
    """`parts` are those of a vector or struct, where they are known; `memory`: it is read there."""

    kind: str
    is_uniform: bool
    expr: Expr | None = None
    parts: tuple[AbstractValue, ...] | None = None
    memory: ModuleVariable | None = None


@dataclass(slots=True)
class LocalVariable:
    value: AbstractValue
    is_mutable: bool


@dataclass(frozen=True, slots=True)
class IndexClaim:
    """The range of an index; `reason` says why it is not proven to be within the length."""

    function: str
    array: str
    index: Expr
    length: int
    range: Range
    reason: str = ""

    @property
    def is_proven(self) -> bool:
        return not self.reason


@dataclass(slots=True)
class Findings:
    """`indices`: each place of the text once, with the worst that was found there.

    `endless`: functions with a loop that is not proven to end.
    """

    problems: dict[str, None] = field(default_factory=dict)
    indices: dict[int, IndexClaim] = field(default_factory=dict)
    endless: dict[str, None] = field(default_factory=dict)

    def problem(self, text: str) -> None:
        self.problems[text] = None

    def index(self, expr: Expr, claim: IndexClaim) -> None:
        old = self.indices.get(id(expr))
        if old is None or old.is_proven:
            self.indices[id(expr)] = claim


@dataclass(slots=True)
class Evaluation:
    """The state at one point of a function: innermost scopes last.

    `is_together`: all threads of the workgroup are here. `call` runs a function of the kernel.
    """

    module: Module
    findings: Findings
    counters: Mapping[str, int]
    facts: Knowledge = field(default_factory=Knowledge)
    scopes: list[dict[str, LocalVariable]] = field(default_factory=list)
    is_together: bool = True
    function: str = ""
    call: Callable[[FunctionDef, list[AbstractValue]], AbstractValue] = field(init=False)
    lengths: dict[str, int] = field(default_factory=dict)

    def lookup(self, name: str) -> LocalVariable | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def fail(self, text: str) -> None:
        self.findings.problem(f"{self.function}: {text}" if self.function else text)

    def opaque(
        self, kind: str, origin: str, is_uniform: bool, known: Range | None = None
    ) -> AbstractValue:
        """A value of which only the type is known, and perhaps a range."""
        if kind in _TRACKED:
            return AbstractValue(
                kind, is_uniform, self.facts.unknown(kind, origin, is_uniform, known)
            )
        return AbstractValue(kind, is_uniform)

    def value(self, expr: Expr) -> AbstractValue:
        match expr:
            case Literal():
                return self._literal(expr)
            case Unary(op, operand):
                return self._unary(op, self.value(operand))
            case Binary(op, left, right):
                return self._binary(op, left, right)
            case Call():
                return self._call(expr)
        place = self.place(expr)
        if place.memory is None or place.expr is not None:
            return place
        return self._load(place, place.memory, expr)

    def _literal(self, expr: Literal) -> AbstractValue:
        if expr.kind in FLOATS:
            is_open = expr.kind == "f32" and not expr.text.endswith("f")
            return AbstractValue("float" if is_open else expr.kind, True)
        return AbstractValue(expr.kind, True, Literal(expr.value, expr.kind))

    def _load(self, place: AbstractValue, memory: ModuleVariable, expr: Expr) -> AbstractValue:
        kind = self.long(place.kind)
        is_constant = memory.space == "uniform" or memory.access == "read"
        known = None
        if isinstance(expr, Member) and isinstance(expr.whole, Name):
            rounds = self.counters.get(expr.whole.name)
            known = Range(0, rounds - 1) if rounds and expr.field == "x" else None
        return self.opaque(kind, memory.name, place.is_uniform and is_constant, known)

    def place(self, expr: Expr) -> AbstractValue:
        """A variable or a part of one. What is in memory is not loaded yet."""
        match expr:
            case Name(name):
                return self._name(name)
            case Member(whole, name):
                return self._member(self.place(whole), name)
            case Element(whole, index):
                return self._element(expr, self.place(whole), index)
        return self.value(expr)

    def _name(self, name: str) -> AbstractValue:
        variable = self.lookup(name)
        if variable is not None:
            return variable.value
        if name in self.module.variables:
            memory = self.module.variables[name]
            return AbstractValue(memory.kind, True, memory=memory)
        if name in self.module.constants:
            return self.value(self.module.constants[name])
        self.fail(f"`{name}` is not declared")
        return AbstractValue("u32", False, self.facts.unknown("u32", name, False))

    def _member(self, whole: AbstractValue, name: str) -> AbstractValue:
        kind = self.long(whole.kind)
        if kind in self.module.structs:
            fields = self.module.structs[kind].fields
            at = next((i for i, (field_, _) in enumerate(fields) if field_ == name), None)
            if at is not None:
                return self._part(whole, at, self.long(fields[at][1]), name)
        elif width_of(kind) > 1 and all(letter in _FIELDS[: width_of(kind)] for letter in name):
            if len(name) == 1:
                return self._part(whole, _FIELDS.index(name), element_of(kind), name)
            return replace(whole, kind=vector(len(name), element_of(kind)), parts=None)
        self.fail(f"{kind} has no `{name}`")
        return self.opaque("u32", name, False)

    def _part(self, whole: AbstractValue, at: int, kind: str, name: str) -> AbstractValue:
        if whole.parts is not None:
            return whole.parts[at]
        if whole.memory is not None:
            return replace(whole, kind=kind, expr=None)
        return self.opaque(kind, name, whole.is_uniform)

    def _element(self, expr: Element, whole: AbstractValue, index: Expr) -> AbstractValue:
        position = self.value(index)
        kind = self.long(whole.kind)
        array = array_parts(kind)
        element, length = (
            (self.long(array[0]), self.length_of(kind))
            if array
            else (element_of(kind), width_of(kind))
        )
        if array is None and length == 1:
            self.fail(f"{kind} has no elements")
        if position.kind not in ("u32", "i32", "int") or position.expr is None:
            self.fail(f"an index is {position.kind}")
        else:
            self._compare(expr, whole, position.expr, length)
        is_uniform = whole.is_uniform and position.is_uniform
        if whole.memory is not None:
            return AbstractValue(element, is_uniform, memory=whole.memory)
        if whole.parts is not None and position.expr is not None:
            return self._component(whole.parts, position.expr, element, is_uniform)
        return self.opaque(element, "an element", is_uniform)

    def _component(
        self, parts: tuple[AbstractValue, ...], position: Expr, kind: str, is_uniform: bool
    ) -> AbstractValue:
        if isinstance(position, Literal) and 0 <= position.value < len(parts):
            return parts[int(position.value)]
        exprs = [part.expr for part in parts if part.expr is not None]
        if len(exprs) < len(parts) or kind not in ("u32", "i32"):
            return self.opaque(kind, "an element", is_uniform)
        return AbstractValue(kind, is_uniform, Call(COMPONENT, (*exprs, position)))

    def _compare(self, expr: Element, whole: AbstractValue, position: Expr, length: int) -> None:
        known, reason = self.facts.range(position), ""
        if known.low < 0 or known.high >= length:
            reason = f"{known.low} … {known.high} of {length}"
            if origins := self.facts.unknown_parts(position):
                reason += f", by {', '.join(dict.fromkeys(origins))}"
        name = expr.whole.name if isinstance(expr.whole, Name) else ""
        claim = IndexClaim(self.function, name, expr.index, length, known, reason)
        self.findings.index(expr, claim)

    def length_of(self, kind: str) -> int:
        """The length of an array type, whose text may name constants."""
        if kind not in self.lengths:
            parts = array_parts(kind)
            assert parts is not None
            if not parts[1]:
                raise TypeMismatch(f"{kind} has no length")
            # No name of a function means anything there.
            scopes, self.scopes = self.scopes, []
            length = self.value(parse_expression(parts[1])).expr
            self.scopes = scopes
            self.lengths[kind] = 0 if length is None else self.facts.range(length).low
        return self.lengths[kind]

    def long(self, kind: str) -> str:
        """A type with the names of aliases replaced."""
        return self.module.aliases.get(kind, kind)

    def _unary(self, op: str, inner: AbstractValue) -> AbstractValue:
        kind = self._kind_by(lambda: unary_kind(op, inner.kind), inner.kind)
        if inner.expr is None or op == "~":
            return self.opaque(kind, op, inner.is_uniform)
        if op == "-" and isinstance(inner.expr, Literal):
            return AbstractValue(kind, True, Literal(-inner.expr.value, inner.expr.kind))
        return AbstractValue(kind, inner.is_uniform, Unary(op, inner.expr))

    def _binary(self, op: str, left: Expr, right: Expr) -> AbstractValue:
        a = self.value(left)
        if op in ("&&", "||") and a.expr is not None:
            # The right side is computed only where the left side leaves it open.
            outer, self.facts = self.facts, self.facts.assume(a.expr, op == "&&")
            b = self.value(right)
            self.facts = outer
        else:
            b = self.value(right)
        kind = self._kind_by(lambda: binary_kind(op, a.kind, b.kind), a.kind)
        is_uniform = a.is_uniform and b.is_uniform
        if a.expr is None or b.expr is None or kind not in _TRACKED:
            return self.opaque(kind, op, is_uniform)
        x, y = self._settle(a.expr, b.kind), self._settle(b.expr, a.kind)
        return AbstractValue(kind, is_uniform, Binary(op, x, y))

    def _settle(self, expr: Expr, other: str) -> Expr:
        """A number without a type gets that of the other operand."""
        if isinstance(expr, Literal) and expr.kind == "int" and other in ("u32", "i32"):
            return Literal(expr.value, other)
        return expr

    def _kind_by(self, rule: Callable[[], str], otherwise: str) -> str:
        try:
            return rule()
        except TypeMismatch as error:
            self.fail(str(error))
            return otherwise

    def _call(self, call: Call) -> AbstractValue:
        if is_collective(call.name) and not self.is_together:
            self.fail(f"`{call.name}` is not in uniform control flow")
        if call.name in ATOMICS or call.name == "workgroupUniformLoad":
            return self._dereference(call)
        args = [self.value(arg) for arg in call.args]
        if call.name in self.module.functions:
            function = self.module.functions[call.name]
            self._match(call.name, [kind for _, kind in function.params], args)
            return self.call(function, args)
        name = self.long(call.name)
        is_uniform = all(arg.is_uniform for arg in args)
        if name in self.module.structs:
            fields = self.module.structs[name].fields
            self._match(name, [kind for _, kind in fields], args)
            return AbstractValue(name, is_uniform, parts=tuple(args))
        if name.startswith("array<"):
            self._match(name, [array_parts(name)[0]] * len(args), args)  # type: ignore[index]
            return AbstractValue(name, is_uniform)
        return self._built_in(name, args, is_uniform)

    def _match(self, name: str, kinds: list[str], args: list[AbstractValue]) -> None:
        wanted = [self.long(kind) for kind in kinds]
        is_right = len(wanted) == len(args)
        pairs = zip(wanted, args, strict=False)
        if not is_right or not all(fits(kind, self.long(arg.kind)) for kind, arg in pairs):
            self.fail(f"{name}({', '.join(wanted)}) of {', '.join(arg.kind for arg in args)}")

    def _dereference(self, call: Call) -> AbstractValue:
        """A function that takes a pointer: of an atomic, or of workgroup memory."""
        pointer = call.args[0]
        if not (isinstance(pointer, Unary) and pointer.op == "&"):
            self.fail(f"`{call.name}` takes a pointer")
            return self.opaque("u32", call.name, False)
        place = self.place(pointer.operand)
        for arg in call.args[1:]:
            self.value(arg)
        kind = self.long(place.kind).removeprefix("atomic<").removesuffix(">")
        is_uniform = call.name == "workgroupUniformLoad" and place.is_uniform
        return self.opaque(kind, call.name, is_uniform)

    def _built_in(self, name: str, args: list[AbstractValue], is_uniform: bool) -> AbstractValue:
        kinds = [arg.kind for arg in args]
        if name.startswith("bitcast<"):
            return self._convert(name[8:-1], args[0], name)
        if name in SCALARS or width_of(name) > 1:
            self._kind_by(lambda: constructor_kind(name, kinds), name)
            return self._construct(name, args, is_uniform)
        kind = self._kind_by(lambda: built_in_kind(name, kinds), kinds[0] if kinds else "")
        if is_collective(name):
            is_uniform = False
        exprs = [self._settle(arg.expr, kind) for arg in args if arg.expr is not None]
        if kind in _TRACKED and name in (*_RANGED, *_BIT_COUNTS) and len(exprs) == len(args):
            return AbstractValue(kind, is_uniform, Call(name, tuple(exprs)))
        return self.opaque(kind, name, is_uniform)

    def _construct(self, name: str, args: list[AbstractValue], is_uniform: bool) -> AbstractValue:
        if width_of(name) == 1 and args:
            return self._convert(name, args[0], name)
        zero = Literal(0, name) if name in ("u32", "i32") else None
        if not args:
            return AbstractValue(name, True, zero)
        if len(args) == width_of(name) and element_of(name) in _TRACKED:
            parts = tuple(self._convert(element_of(name), arg, name) for arg in args)
            return AbstractValue(name, is_uniform, parts=parts)
        return AbstractValue(name, is_uniform)

    def _convert(self, kind: str, arg: AbstractValue, name: str) -> AbstractValue:
        """Gives a value another type; the range of whole numbers stays, where it can."""
        if arg.expr is None or kind not in ("u32", "i32") or width_of(arg.kind) > 1:
            return arg if arg.kind == kind else self.opaque(kind, name, arg.is_uniform)
        if isinstance(arg.expr, Literal) and arg.kind == "int" and arg.expr.value >= 0:
            return AbstractValue(kind, True, Literal(arg.expr.value, kind))
        if arg.kind == kind:
            return arg
        return AbstractValue(kind, arg.is_uniform, Call(kind, (arg.expr,)))

    def settle(self, value: AbstractValue, kind: str | None) -> AbstractValue:
        """A value as a variable holds it: `kind` is its declared type."""
        wanted = self.long(kind) if kind else default_kind(value.kind)
        if not fits(wanted, self.long(value.kind)):
            self.fail(f"{value.kind} where {wanted} is wanted")
        if value.expr is not None and wanted in ("u32", "i32"):
            return replace(value, kind=wanted, expr=self._settle(value.expr, wanted))
        return replace(value, kind=wanted)
