"""A kernel as a tree: the subset of WGSL that ops and families are written in.

    module      = declaration*
    declaration = enable | constant | alias | struct | variable | function
    statement   = let | assign | if | loop | return | run
    expression  = literal | name | unary | binary | call | member | element

All nodes are frozen; a rewrite gives a new tree (`kernel/rewrite/`). Expressions may hold the
placeholders of an op's pattern (`{0}`, `{i}`): they are names. Types are their text, in the long
form (`vec2<u32>`, never `vec2u`).

A tree also knows how its author wrote it: the comment above a statement or declaration, the
spelling of a number, parentheses that nothing needs, what stands on one line. Printing keeps these
(`backends/wgsl/`); they are no part of what a kernel does, so that trees are equal without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from wgcc.kernel.tokenize import WgslError
from wgcc.kernel.types import FLOATS, SUFFIXES

_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Literal:
    value: float | int | bool
    kind: str  # "int" where the text leaves open whether it is i32, u32 or f32; else a type
    text: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Name:
    name: str


@dataclass(frozen=True, slots=True)
class Unary:
    op: str
    operand: Expr
    parens: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Binary:
    op: str
    left: Expr
    right: Expr
    parens: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function, a built-in, a conversion (`f32`, `vec2<u32>`) or `bitcast<u32>`.

    `tall`: each argument has a line of its own.
    """

    name: str
    args: tuple[Expr, ...]
    tall: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Member:
    whole: Expr
    field: str


@dataclass(frozen=True, slots=True)
class Element:
    whole: Expr
    index: Expr


Expr = Literal | Name | Unary | Binary | Call | Member | Element


def children_of(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Unary(_, operand):
            return (operand,)
        case Binary(_, left, right):
            return left, right
        case Call(_, args):
            return args
        case Member(whole, _):
            return (whole,)
        case Element(whole, index):
            return whole, index
    return ()


def names_of(expr: Expr) -> dict[str, None]:
    """Each name in an expression once, in the order of first use."""
    return dict.fromkeys(part.name for part in parts_of(expr) if isinstance(part, Name))


def root_of(place: Expr) -> Expr:
    """The variable that a place is a part of: `x` of `x[i].y`."""
    while isinstance(place, Member | Element):
        place = place.whole
    return place


def parts_of(expr: Expr) -> Iterator[Expr]:
    """An expression and all inside it."""
    yield expr
    for child in children_of(expr):
        yield from parts_of(child)


@dataclass(frozen=True, slots=True)
class Let:
    """`let`, or `var` if it is `mutable`; a `var` may come with its type alone."""

    name: str
    kind: str | None
    value: Expr | None
    mutable: bool
    comment: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Assign:
    """`x += 1` is assigned as `x = x + 1`; it is `compound`."""

    target: Expr
    value: Expr
    comment: str = field(default="", compare=False)
    compound: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class If:
    condition: Expr
    then: tuple[Statement, ...]
    other: tuple[Statement, ...] = ()
    comment: str = field(default="", compare=False)
    one_line: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Loop:
    """`for` and `while`: `before` runs once, `after` at the end of each iteration."""

    before: tuple[Statement, ...]
    condition: Expr
    after: tuple[Statement, ...]
    body: tuple[Statement, ...]
    comment: str = field(default="", compare=False)
    one_line: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Return:
    value: Expr | None
    comment: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Run:
    """A call whose result is not used."""

    call: Expr
    comment: str = field(default="", compare=False)


Statement = Let | Assign | If | Loop | Return | Run


def statements_of(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Statements and all inside them, in the order of the text."""
    for statement in body:
        yield statement
        match statement:
            case If(_, then, other):
                yield from statements_of(then)
                yield from statements_of(other)
            case Loop(before, _, after, inner):
                yield from statements_of(before)
                yield from statements_of(after)
                yield from statements_of(inner)


def expressions_of(statement: Statement) -> tuple[Expr, ...]:
    """The expressions of a statement itself, not of those inside it."""
    match statement:
        case Let(_, _, value) | Return(value):
            return () if value is None else (value,)
        case Assign(target, value):
            return target, value
        case If(condition) | Loop(_, condition):
            return (condition,)
        case Run(call):
            return (call,)


def counting_head(loop: Loop) -> tuple[str, Expr, Expr, Expr] | None:
    """(variable, first, end, step) of `for (var v = first; v < end; v += step)`."""
    match loop:
        case Loop(
            (Let(name, _, first, True),),
            Binary("<", Name(tested), end),
            (Assign(Name(changed), Binary("+", Name(old), step)),),
        ) if name == tested == changed == old and first is not None:
            return name, first, end, step
    return None


@dataclass(frozen=True, slots=True)
class Enable:
    name: str
    comment: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ConstantDef:
    name: str
    value: Expr
    comment: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Alias:
    name: str
    kind: str
    comment: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Struct:
    name: str
    fields: tuple[tuple[str, str], ...]
    comment: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ModuleVariable:
    """A binding (`storage`, `uniform`) or a variable in workgroup memory (`workgroup`)."""

    name: str
    space: str
    kind: str
    access: str = ""
    slot: tuple[int, int] | None = None
    comment: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class FunctionDef:
    """A parameter of `main` has its built-in as its type: `@workgroup_id`."""

    name: str
    params: tuple[tuple[str, str], ...]
    result: str | None
    body: tuple[Statement, ...]
    workgroup: tuple[Expr, ...] = ()
    comment: str = field(default="", compare=False)


Declaration = Enable | ConstantDef | Alias | Struct | ModuleVariable | FunctionDef


@dataclass(frozen=True)
class Module:
    """A kernel, or a part of one: what it declares, in order."""

    declarations: tuple[Declaration, ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Kernels are looked up by what they are, and a tree has thousands of nodes."""
        return hash(self.declarations)

    @cached_property
    def constants(self) -> dict[str, Expr]:
        return {d.name: d.value for d in self.declarations if isinstance(d, ConstantDef)}

    def whole(self, name: str) -> int:
        """The number that a constant stands for; 0 if it is no plain number."""
        value = self.constants.get(name)
        return int(value.value) if isinstance(value, Literal) else 0

    @cached_property
    def variables(self) -> dict[str, ModuleVariable]:
        return {d.name: d for d in self.declarations if isinstance(d, ModuleVariable)}

    @cached_property
    def structs(self) -> dict[str, Struct]:
        return {d.name: d for d in self.declarations if isinstance(d, Struct)}

    @cached_property
    def aliases(self) -> dict[str, str]:
        return {d.name: d.kind for d in self.declarations if isinstance(d, Alias)}

    @cached_property
    def functions(self) -> dict[str, FunctionDef]:
        return {d.name: d for d in self.declarations if isinstance(d, FunctionDef)}

    @property
    def workgroup(self) -> tuple[Expr, ...]:
        return self.functions["main"].workgroup


def words_of(declared: Declaration) -> set[str]:
    """All names that a declaration mentions, in types and comments too."""
    words = _words(declared.comment)
    match declared:
        case ConstantDef(_, value):
            words |= _names((value,))
        case Alias(_, kind) | ModuleVariable(_, _, kind):
            words |= _words(kind)
        case FunctionDef(body=body, workgroup=workgroup):
            words |= _names(workgroup)
            for statement in statements_of(body):
                words |= _names(expressions_of(statement)) | _words(statement.comment)
                if isinstance(statement, Let) and statement.kind:
                    words |= _words(statement.kind)
    return words


def _names(exprs: tuple[Expr, ...]) -> set[str]:
    """Calls have types as names: `array<f32, ROWS>()`."""
    words: set[str] = set()
    pending = list(exprs)
    while pending:
        part = pending.pop()
        if isinstance(part, Name):
            words.add(part.name)
        elif isinstance(part, Call):
            words |= _words(part.name)
        pending += children_of(part)
    return words


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text)) if text else set()


def number(text: str) -> Literal:
    if text[:2].lower() == "0x":
        digits, suffix = (text[:-1], text[-1]) if text[-1] in "iu" else (text, "")
        return Literal(int(digits, 16), SUFFIXES.get(suffix, "int"), text)
    digits, suffix = (text[:-1], text[-1]) if text[-1] in SUFFIXES else (text, "")
    kind = SUFFIXES.get(suffix, "f32" if re.search(r"[.eE]", digits) else "int")
    return Literal(float(digits) if kind in FLOATS else int(digits), kind, text)


def name_argument(args: tuple[Expr, ...]) -> str:
    """The only argument of an attribute, which is a name."""
    if len(args) != 1 or not isinstance(args[0], Name):
        raise WgslError("the argument of an attribute is not a name")
    return args[0].name


def whole_argument(args: tuple[Expr, ...]) -> int:
    if len(args) != 1 or not isinstance(args[0], Literal):
        raise WgslError("the argument of an attribute is not a number")
    return int(args[0].value)
