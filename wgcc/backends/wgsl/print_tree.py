"""Prints kernel trees as the WGSL that users read.

What the parser reads is printed as it was written: comments, spelling of numbers, parentheses.
Trees that rewrites make are printed with the parentheses that WGSL needs.
"""

from __future__ import annotations

from collections.abc import Sequence

from wgcc.backends.printer import Printer, comment_lines
from wgcc.kernel.tree import (
    Alias,
    Call,
    ConstantDef,
    Declaration,
    Enable,
    Expr,
    FunctionDef,
    Let,
    Literal,
    Module,
    ModuleVariable,
    Statement,
    Struct,
)
from wgcc.kernel.types import SHORT_VECTORS, SUFFIXES
from wgcc.schedule.kernel import Kernel
from wgcc.schedule.kernels.context import tree_of

# Longer heads of functions have a line for each parameter.
MAX_COLUMNS = 108
_SUFFIXES = {kind: suffix for suffix, kind in SUFFIXES.items()}
_SHORT = {long: short for short, long in SHORT_VECTORS.items()}
# Types of the built-ins that are no vectors.
_SCALARS = ("local_invocation_index", "subgroup_size", "subgroup_invocation_id")


def print_kernel(kernel: Kernel) -> str:
    return print_file(tree_of(kernel), "")


def print_file(module: Module, name: str, notes: Sequence[str] = ()) -> str:
    """A whole file. WGSL does not say what a kernel is called: its entry point is `main`."""
    comment = "".join(f"// {note}\n" for note in notes)
    return f"{comment}{print_module(module)}\n"


def print_module(module: Module) -> str:
    """Declarations of one line each stand together; a blank line is around all others."""
    parts: list[str] = []
    last: Declaration | None = None
    for declared in module.declarations:
        if last is not None and (type(last) is not type(declared) or _is_tall(declared)):
            parts.append("")
        parts += comment_lines(declared.comment)
        parts += _declaration(declared)
        last = declared
    return "\n".join(parts)


def print_statements(body: Sequence[Statement], indent: str = "") -> str:
    return "\n".join(indent + line for line in _PRINTER.block(body))


def print_expression(expr: Expr) -> str:
    return _PRINTER.expr(expr)


def print_type(kind: str) -> str:
    for long, short in _SHORT.items():
        kind = kind.replace(long, short)
    return kind


def _is_tall(declared: Declaration) -> bool:
    return isinstance(declared, FunctionDef | Struct) or bool(declared.comment)


def _declaration(declared: Declaration) -> list[str]:
    match declared:
        case Enable(name):
            return [f"enable {name};"]
        case ConstantDef(name, value):
            return [f"const {name} = {_PRINTER.expr(value)};"]
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
    sizes = ", ".join(map(_PRINTER.expr, function.workgroup))
    stage = [f"@compute @workgroup_size({sizes})"] if function.workgroup else []
    params = [_parameter(*param) for param in function.params]
    result = f" -> {print_type(function.result)}" if function.result else ""
    head = [f"fn {function.name}({', '.join(params)}){result} {{"]
    if len(head[0]) > MAX_COLUMNS:
        lines = [f"  {param}," for param in params]
        head = [f"fn {function.name}(", *lines, f"){result} {{"]
    return [*stage, *head, *_PRINTER.indent(function.body), "}"]


def _parameter(name: str, kind: str) -> str:
    if kind.startswith("@"):
        builtin = kind[1:]
        return f"@builtin({builtin}) {name}: {'u32' if builtin in _SCALARS else 'vec3u'}"
    return f"{name}: {print_type(kind)}"


class _WgslPrinter(Printer):
    def literal(self, literal: Literal) -> str:
        if literal.text:
            return literal.text
        if literal.kind == "bool":
            return "true" if literal.value else "false"
        return f"{literal.value!r}{_SUFFIXES.get(literal.kind, '')}"

    def let(self, let: Let) -> str:
        typed = f"{let.name}: {print_type(let.kind)}" if let.kind else let.name
        word = "var" if let.mutable else "let"
        return f"{word} {typed}" + ("" if let.value is None else f" = {self.expr(let.value)}")

    def call(self, call: Call) -> str:
        return f"{_SHORT.get(call.name, call.name)}{self.args(call)}"


_PRINTER = _WgslPrinter()
