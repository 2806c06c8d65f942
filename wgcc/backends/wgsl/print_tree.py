"""Prints kernel trees as the WGSL that users read.

What the parser reads is printed as it was written: comments, spelling of numbers, parentheses.
Trees that rewrites make are printed with the parentheses that WGSL needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from wgcc.kernel.parse import PRECEDENCE
from wgcc.kernel.tree import (
    Alias,
    Assign,
    Binary,
    Call,
    Constant,
    Declaration,
    Element,
    Enable,
    Expr,
    FunctionDef,
    If,
    Let,
    Literal,
    Loop,
    Member,
    Module,
    ModuleVariable,
    Name,
    Return,
    Run,
    Statement,
    Struct,
    Unary,
)
from wgcc.kernel.types import FLOATS, SHORT_VECTORS, SUFFIXES
from wgcc.schedule.kernel import Kernel
from wgcc.schedule.kernels.render import tree_of

# Longer heads of functions have a line for each parameter.
MAX_COLUMNS = 108
_SUFFIXES = {kind: suffix for suffix, kind in SUFFIXES.items()}
_SHORT = {long: short for short, long in SHORT_VECTORS.items()}
# Types of the built-ins that are no vectors.
_SCALARS = ("local_invocation_index", "subgroup_size", "subgroup_invocation_id")
# WGSL wants parentheses around a different operator inside these.
_ALONE = ("&", "|", "^", "<<", ">>")
_LOGICAL = ("&&", "||")
_COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")


def print_kernel(kernel: Kernel, notes: tuple[str, ...] = ()) -> str:
    """The WGSL of a kernel; `notes` are the lines of the comment at its top."""
    return print_noted(tree_of(kernel), notes)


def print_noted(module: Module, notes: tuple[str, ...]) -> str:
    comment = "".join(f"// {note}\n" for note in notes)
    return f"{comment}{print_module(module)}\n"


def print_module(module: Module) -> str:
    """Declarations of one line each stand together; a blank line is around all others."""
    parts: list[str] = []
    last: Declaration | None = None
    for declared in module.declarations:
        if last is not None and (type(last) is not type(declared) or _is_tall(declared)):
            parts.append("")
        parts += _comment(declared.comment)
        parts += _declaration(declared)
        last = declared
    return "\n".join(parts)


def print_statements(body: Sequence[Statement], indent: str = "") -> str:
    return "\n".join(indent + line for line in _block(body))


def print_expression(expr: Expr) -> str:
    return _expr(expr)


def print_type(kind: str) -> str:
    for long, short in _SHORT.items():
        kind = kind.replace(long, short)
    return kind


def _is_tall(declared: Declaration) -> bool:
    return isinstance(declared, FunctionDef | Struct) or bool(declared.comment)


def _comment(text: str) -> list[str]:
    return [f"// {line}".rstrip() for line in text.split("\n")] if text else []


def _declaration(declared: Declaration) -> list[str]:
    match declared:
        case Enable(name):
            return [f"enable {name};"]
        case Constant(name, value):
            return [f"const {name} = {_expr(value)};"]
        case Alias(name, kind):
            return [f"alias {name} = {print_type(kind)};"]
        case Struct(name, fields):
            inside = ", ".join(f"{field}: {print_type(kind)}" for field, kind in fields)
            return [f"struct {name} {{ {inside} }}"]
        case ModuleVariable(name, space, kind, access, slot):
            at = f"@group({slot[0]}) @binding({slot[1]}) " if slot else ""
            access = f", {access}" if access else ""
            return [f"{at}var<{space}{access}> {name}: {print_type(kind)};"]
        case FunctionDef():
            return _function(declared)


def _function(function: FunctionDef) -> list[str]:
    sizes = ", ".join(map(_expr, function.workgroup))
    stage = [f"@compute @workgroup_size({sizes})"] if function.workgroup else []
    params = [_parameter(*param) for param in function.params]
    result = f" -> {print_type(function.result)}" if function.result else ""
    head = [f"fn {function.name}({', '.join(params)}){result} {{"]
    if len(head[0]) > MAX_COLUMNS:
        lines = [f"  {param}," for param in params]
        head = [f"fn {function.name}(", *lines, f"){result} {{"]
    return [*stage, *head, *_indented(function.body), "}"]


def _parameter(name: str, kind: str) -> str:
    if kind.startswith("@"):
        builtin = kind[1:]
        return f"@builtin({builtin}) {name}: {'u32' if builtin in _SCALARS else 'vec3u'}"
    return f"{name}: {print_type(kind)}"


def _block(body: Sequence[Statement]) -> list[str]:
    statements = (text for s in body for text in (*_comment(s.comment), *_statement(s)))
    return [line for text in statements for line in text.split("\n")]


def _statement(statement: Statement) -> Iterator[str]:
    match statement:
        case If(one_line=True, other=()) | Loop(one_line=True):
            inside = statement.then if isinstance(statement, If) else statement.body
            yield f"{_head(statement)} {{ {' '.join(_block(inside))} }}"
        case If(_, then, other):
            yield f"{_head(statement)} {{"
            yield from _indented(then)
            yield from _else(other)
        case Loop(body=body):
            yield f"{_head(statement)} {{"
            yield from _indented(body)
            yield "}"
        case Return(value):
            yield "return;" if value is None else f"return {_expr(value)};"
        case _:
            yield f"{_simple(statement)};"


def _else(other: Sequence[Statement]) -> Iterator[str]:
    match other:
        case ():
            yield "}"
        case (If() as inner,):
            first, *rest = _statement(replace(inner, one_line=False))
            yield f"}} else {first}"
            yield from rest
        case _:
            yield "} else {"
            yield from _indented(other)
            yield "}"


def _indented(body: Sequence[Statement]) -> Iterator[str]:
    return (f"  {line}" for line in _block(body))


def _head(statement: If | Loop) -> str:
    if isinstance(statement, If):
        return f"if ({_bare(statement.condition)})"
    if not statement.before and not statement.after:
        return f"while ({_bare(statement.condition)})"
    before, after = (" ".join(map(_simple, s)) for s in (statement.before, statement.after))
    return f"for ({before}; {_expr(statement.condition)}; {after})"


def _simple(statement: Statement) -> str:
    """Without the semicolon, as in the head of a `for`."""
    match statement:
        case Let(name, kind, value, mutable):
            typed = f"{name}: {print_type(kind)}" if kind else name
            word = "var" if mutable else "let"
            return f"{word} {typed}" if value is None else f"{word} {typed} = {_expr(value)}"
        case Assign(target, Binary(op, _, value), compound=True):
            if value == Literal(1, "int"):
                return f"{_expr(target)}{op}{op}"
            return f"{_expr(target)} {op}= {_expr(value)}"
        case Assign(target, value):
            return f"{_expr(target)} = {_expr(value)}"
        case Run(call):
            return _expr(call)
    raise TypeError(f"{type(statement).__name__} is no simple statement")


def _bare(expr: Expr) -> str:
    """An expression that stands in parentheses of its statement."""
    return _expr(replace(expr, parens=False) if isinstance(expr, Unary | Binary) else expr)


def _expr(expr: Expr) -> str:
    match expr:
        case Literal():
            return expr.text or _literal(expr)
        case Name(name):
            return name
        case Unary(op, operand):
            text = f"{op}{_operand(operand, is_tight=True)}"
            return f"({text})" if expr.parens else text
        case Binary():
            text = _binary(expr)
            return f"({text})" if expr.parens else text
        case Call(name, args, tall):
            if tall:
                return f"{_SHORT.get(name, name)}(\n{_tall(args)})"
            return f"{_SHORT.get(name, name)}({', '.join(map(_expr, args))})"
        case Member(whole, field):
            return f"{_operand(whole, is_tight=True)}.{field}"
        case Element(whole, index):
            return f"{_operand(whole, is_tight=True)}[{_expr(index)}]"


def _tall(args: Sequence[Expr]) -> str:
    return "".join(f"  {_expr(arg)},\n" for arg in args)


def _operand(expr: Expr, is_tight: bool) -> str:
    needs = is_tight and isinstance(expr, Binary) and not expr.parens
    return f"({_expr(expr)})" if needs else _expr(expr)


def _binary(expr: Binary) -> str:
    return f"{_side(expr, expr.left, 0)} {expr.op} {_side(expr, expr.right, 1)}"


def _side(outer: Binary, inner: Expr, bump: int) -> str:
    if not isinstance(inner, Binary) or inner.parens:
        return _expr(inner)
    needs = PRECEDENCE[inner.op] < PRECEDENCE[outer.op] + bump
    needs = needs or ((_is_apart(outer.op) or _is_apart(inner.op)) and inner.op != outer.op)
    needs = needs or {outer.op, inner.op} == {"&&", "||"}
    needs = needs or (inner.op in _COMPARISONS and outer.op in _COMPARISONS)
    return f"({_expr(inner)})" if needs else _expr(inner)


def _is_apart(op: str) -> bool:
    return op in _ALONE


def _literal(expr: Literal) -> str:
    if expr.kind == "bool":
        return "true" if expr.value else "false"
    if expr.kind in FLOATS:
        return f"{expr.value!r}{_SUFFIXES[expr.kind]}"
    return f"{expr.value}{_SUFFIXES.get(expr.kind, '')}"
