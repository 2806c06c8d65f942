"""A syntax tree as source text, in the one form that generated programs have.

The text parses to the same tree. Comments are no part of a tree: `remarks` are written behind the
statements that they belong to, where the line has room for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from wgcc.syntax import ast

WIDTH = 100
INDENT = "  "
# How tightly the forms of expressions bind, the loosest first, as in the grammar.
LOOSEST, PIPE, OR, AND, NOT, COMPARISON, RANGE, SUM, TERM, UNARY, POWER, POSTFIX, ATOM = range(13)
# By operator: its own level, and those that its two operands need.
_BINARY = {
    "or": (OR, OR, AND),
    "and": (AND, AND, NOT),
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), (COMPARISON, RANGE, RANGE)),
    **dict.fromkeys(("+", "-"), (SUM, SUM, TERM)),
    **dict.fromkeys(("*", "/", "%", "@"), (TERM, TERM, UNARY)),
    "**": (POWER, POSTFIX, UNARY),
}
# Members that stand together; others have an empty line before and behind them.
_SHORT = (ast.Param, ast.State, ast.Submodule, ast.Setting, ast.Dims, ast.Const, ast.Replace,
          ast.Assert)  # fmt: skip

Remarks = Mapping[ast.Syntax, str]


def print_source(file: ast.File, remarks: Remarks | None = None) -> str:
    """The whole file, with a newline at its end."""
    lines = [f"/// {line}".rstrip() for line in file.doc.splitlines()]
    before: ast.Syntax | None = None
    for item in file.items:
        together = isinstance(item, ast.Dims) and isinstance(before, ast.Edition | ast.Dims)
        if before is not None and not together:
            lines.append("")
        lines += _item(item, remarks or {})
        before = item
    return "\n".join([*lines, ""])


def expression_text(node: ast.IndexItem | ast.Rest) -> str:
    return _at(node, LOOSEST)


def type_text(node: ast.TypeExpr | ast.TupleType) -> str:
    if isinstance(node, ast.TupleType):
        return f"({', '.join(map(_field, node.fields))})"
    mark = "?" if node.any_float is not None else ""
    dims = f"[{_list(node.dims)}]" if node.dims else ""
    return f"{node.name.text}{mark}{dims}"


def _field(field: ast.TupleField) -> str:
    text = type_text(field.type)
    return f"{field.name.text}: {text}" if field.name is not None else text


# Expressions


def _at(node: Any, level: int) -> str:
    """An expression where at least `level` is needed."""
    text, own = _FORMS[type(node)](node)
    return text if own >= level else f"({text})"


def _list(nodes: Iterable[Any]) -> str:
    return ", ".join(map(expression_text, nodes))


def float_text(value: float) -> str:
    """The shortest text that is this number: `0.5`, `1e-05`, `3.4e38`."""
    text = repr(value).replace("e+", "e")
    return text if "." in text or "e" in text else f"{text}.0"


def _string(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + escaped.replace("\t", "\\t") + '"'


def _binary(node: ast.Binary) -> tuple[str, int]:
    own, left, right = _BINARY[node.op]
    inner = node.left
    if own == TERM and isinstance(inner, ast.Binary) and "@" in {node.op, inner.op} != {"@"}:
        # Nobody should have to know how `a * b @ c` is read.
        left = UNARY
    return f"{_at(inner, left)} {node.op} {_at(node.right, right)}", own


def _unary(node: ast.Unary) -> tuple[str, int]:
    if node.op == "not":
        return f"not {_at(node.operand, NOT)}", NOT
    return f"-{_at(node.operand, UNARY)}", UNARY


def _range(node: ast.Range) -> tuple[str, int]:
    step = f" step {_at(node.step, SUM)}" if node.step is not None else ""
    return f"{_at(node.low, SUM)}..{_at(node.high, SUM)}{step}", RANGE


def _if(node: ast.IfExpr) -> tuple[str, int]:
    parts = map(expression_text, (node.condition, node.then, node.otherwise))
    return "if {} then {} else {}".format(*parts), LOOSEST


def _tuple(node: ast.TupleExpr) -> tuple[str, int]:
    return f"({_list(node.items)}{',' if len(node.items) == 1 else ''})", ATOM


def _call(node: ast.Call) -> tuple[str, int]:
    return f"{_at(node.function, POSTFIX)}({_arguments(node.arguments)})", POSTFIX


def _arguments(arguments: Iterable[ast.Argument]) -> str:
    return ", ".join(
        f"{item.name.text} = {expression_text(item.value)}"
        if item.name is not None
        else expression_text(item.value)
        for item in arguments
    )


def _slice(node: ast.Slice) -> tuple[str, int]:
    """`:`, `2 :`, `: 3`, `2 : 3`, `0 : 6 : 2`, `5 :: -1`."""
    parts = [expression_text(node.start)] if node.start is not None else []
    parts += [":", *([expression_text(node.stop)] if node.stop is not None else [])]
    parts += [":", expression_text(node.step)] if node.step is not None else []
    return " ".join(parts).replace(": :", "::"), LOOSEST


def _window(node: ast.Window) -> tuple[str, int]:
    return f"{expression_text(node.start)} +: {expression_text(node.length)}", LOOSEST


_FORMS: dict[type, Callable[[Any], tuple[str, int]]] = {
    ast.Name: lambda node: (node.text, ATOM),
    ast.Int: lambda node: (str(node.value), ATOM),
    ast.Float: lambda node: (float_text(node.value), ATOM),
    ast.String: lambda node: (_string(node.value), ATOM),
    ast.Bool: lambda node: ("true" if node.value else "false", ATOM),
    ast.Dtype: lambda node: (node.name, ATOM),
    ast.TypeExpr: lambda node: (type_text(node), ATOM),
    ast.TupleExpr: _tuple,
    ast.ListExpr: lambda node: (f"[{_list(node.items)}]", ATOM),
    ast.IfExpr: _if,
    ast.Pipe: lambda node: (f"{_at(node.value, PIPE)} |> {_at(node.target, POSTFIX)}", PIPE),
    ast.Binary: _binary,
    ast.Unary: _unary,
    ast.Range: _range,
    ast.Member: lambda node: (f"{_at(node.value, POSTFIX)}.{node.name.text}", POSTFIX),
    ast.Call: _call,
    ast.Index: lambda node: (f"{_at(node.value, POSTFIX)}[{_list(node.items)}]", POSTFIX),
    ast.Slice: _slice,
    ast.Window: _window,
    ast.Rest: lambda node: ("..", ATOM),
    ast.NewAxis: lambda node: ("new", ATOM),
}


# Statements


def _indent(lines: Iterable[str]) -> list[str]:
    return [f"{INDENT}{line}" if line else line for line in lines]


def _block(block: ast.Block, remarks: Remarks) -> list[str]:
    return _indent(
        line for item in block.statements for line in _with_remarks(item, _statement(item, remarks),
                                                                remarks)
    )  # fmt: skip


def _with_remarks(node: ast.Syntax, lines: list[str], remarks: Remarks) -> list[str]:
    remark = remarks.get(node, "")
    if not remark or len(lines[-1]) + len(remark) + 4 > WIDTH:
        return lines
    return [*lines[:-1], f"{lines[-1]}  // {remark}"]


def _statement(node: Any, remarks: Remarks) -> list[str]:
    if isinstance(node, ast.For):
        names = ", ".join(item.text for item in (node.index, node.item) if item is not None)
        return _in_braces(f"for {names} in {expression_text(node.iterable)}", node.body, remarks)
    if isinstance(node, ast.If):
        return _choice(node, remarks)
    if isinstance(node, ast.Function):
        return _function(node, remarks)
    return [_SIMPLE[type(node)](node)]


def _in_braces(heading: str, block: ast.Block, remarks: Remarks) -> list[str]:
    """One statement may stand on the line of the heading."""
    inner = _block(block, remarks)
    whole = f"{heading} {{ {inner[0].strip()} }}" if len(inner) == 1 else ""
    if whole and "//" not in whole and len(whole) <= WIDTH:
        return [whole]
    return [f"{heading} {{", *inner, "}"]


def _choice(node: ast.If, remarks: Remarks) -> list[str]:
    lines = [f"if {expression_text(node.condition)} {{", *_block(node.then, remarks)]
    if isinstance(node.otherwise, ast.If):
        first, *rest = _choice(node.otherwise, remarks)
        return [*lines, f"}} else {first}", *rest]
    if node.otherwise is not None:
        lines += ["} else {", *_block(node.otherwise, remarks)]
    return [*lines, "}"]


def _bind(node: ast.Bind) -> str:
    kind = f": {type_text(node.type)}" if node.type is not None else ""
    return f"{_list(node.targets)}{kind} = {_list(node.values)}"


def _minimize(node: ast.Minimize) -> str:
    over = f" over {_list(node.selectors)}" if node.selectors else ""
    return f"minimize {expression_text(node.value)} with {_at(node.optimizer, POSTFIX)}{over}"


def _assert(node: ast.Assert) -> str:
    text = f", {expression_text(node.text)}" if node.text is not None else ""
    return f"assert {expression_text(node.condition)}{text}"


_SIMPLE: dict[type, Callable[[Any], str]] = {
    ast.Bind: _bind,
    ast.Write: lambda node: f"{_at(node.target, POSTFIX)} := {expression_text(node.value)}",
    ast.CallStatement: lambda node: _at(node.call, POSTFIX),
    ast.Return: lambda node: f"return {_list(node.values)}",
    ast.Minimize: _minimize,
    ast.Assert: _assert,
}


# Members and items


def _guard(guard: ast.Expr | None) -> str:
    return f" when {expression_text(guard)}" if guard is not None else ""


def _param(node: ast.Param) -> str:
    sign = "" if node.init is None else " ~ " if node.init.drawn else " = "
    value = expression_text(node.init.value) if node.init is not None else ""
    frozen = "frozen " if node.frozen else ""
    return (
        f"{frozen}param {node.name.text}: {type_text(node.type)}{sign}{value}{_guard(node.guard)}"
    )


def _state(node: ast.State) -> str:
    value = expression_text(node.value)
    return f"state {node.name.text}: {type_text(node.type)} = {value}{_guard(node.guard)}"


def constructor_text(node: ast.Constructor) -> str:
    sizes = f"[{_list(node.sizes)}]" if node.sizes is not None else ""
    arguments = f"({_arguments(node.arguments)})" if node.arguments is not None else ""
    return ".".join(part.text for part in node.path) + sizes + arguments


def _submodule(node: ast.Submodule) -> str:
    words = ("frozen " if node.frozen else "") + ("remat " if node.remat else "")
    size = node.list_size
    variable = f"{size.variable.text} in " if size is not None and size.variable else ""
    count = f"[{variable}{expression_text(size.count)}]" if size is not None else ""
    layer = constructor_text(node.constructor)
    return f"{words}{node.name.text}{count}: {layer}{_guard(node.guard)}"


def _dims(node: ast.Dims) -> str:
    return "dim " + ", ".join(
        f"{dim.name.text} = {expression_text(dim.value)}"
        if dim.value is not None
        else dim.name.text
        for dim in node.dims
    )


def _const(node: ast.Const) -> str:
    kind = f": {type_text(node.type)}" if node.type is not None else ""
    return f"const {node.name.text}{kind} = {expression_text(node.value)}"


def _setting(node: ast.Setting) -> str:
    return f"{node.name.text} = {expression_text(node.value)}"


def _replace(node: ast.Replace) -> str:
    return f"replace {_list(node.selectors)} with {constructor_text(node.constructor)}"


def _value_param(node: ast.ValueParam) -> str:
    default = f" = {expression_text(node.default)}" if node.default is not None else ""
    return f"{node.name.text}: {_kind(node.kind)}{default}"


def _kind(kind: ast.Kind) -> str:
    if isinstance(kind, ast.OneOf):
        return " or ".join(map(expression_text, kind.options))
    return kind if isinstance(kind, str) else type_text(kind)


def _names(names: Iterable[ast.Identifier]) -> str:
    return ", ".join(name.text for name in names)


def _parameters(sizes: Sequence[ast.Identifier], values: Sequence[ast.ValueParam]) -> str:
    parameters = f"({', '.join(map(_value_param, values))})" if values else ""
    return (f"[{_names(sizes)}]" if sizes else "") + parameters


def _function(node: ast.Function, remarks: Remarks) -> list[str]:
    word = "entry" if node.is_entry else "fn"
    parameters = _parameters(node.sizes, node.values) + ("" if node.values else "()")
    result = f" -> {type_text(node.result)}" if node.result is not None else ""
    averages = f" with {'.'.join(name.text for name in node.averages)}" if node.averages else ""
    heading = f"{word} {node.name.text}{parameters}{result}{averages}"
    lines = _with_docs(node.doc)
    if not isinstance(node.body, ast.Block):
        lines.append(f"{heading} = {expression_text(node.body)}")
    else:
        lines += [f"{heading} {{", *_block(node.body, remarks), "}"]
    if node.gradient is not None:
        names, body = _names(node.gradient.names), _block(node.gradient.body, remarks)
        lines[-1:] = [f"{lines[-1]} grad {names} {{", *body, "}"]
    return lines


def _optimizer(node: ast.Optimizer) -> list[str]:
    heading = f"optimizer {node.name.text}: {node.kind.text}"
    settings = [_setting(item) for item in node.items if isinstance(item, ast.Setting)]
    whole = f"{heading} {{ {'; '.join(settings)} }}" if settings else f"{heading} {{ }}"
    if len(settings) == len(node.items) and len(whole) <= WIDTH:
        return [whole]
    lines = [
        _setting(item) if isinstance(item, ast.Setting) else _group(item) for item in node.items
    ]
    return [f"{heading} {{", *_indent(lines), "}"]


def _group(node: Any) -> str:
    what = f"if {expression_text(node.condition)}" if node.condition else _list(node.selectors)
    return f"group {what} {{ {'; '.join(map(_setting, node.settings))} }}"


def _layer(node: ast.Layer, remarks: Remarks) -> list[str]:
    word = "model" if node.is_model else "layer"
    lines: list[str] = []
    for number, member in enumerate(node.members):
        if number and not all(isinstance(m, _SHORT) for m in node.members[number - 1 : number + 1]):
            lines.append("")
        lines += _item(member, remarks)
    heading = f"{word} {node.name.text}{_parameters(node.sizes, node.values)} {{"
    return [*_with_docs(node.doc), heading, *_indent(lines), "}"]


def _with_docs(doc: str) -> list[str]:
    return [f"/// {line}".rstrip() for line in doc.splitlines()]


def _item(node: Any, remarks: Remarks) -> list[str]:
    if isinstance(node, ast.Layer):
        return _layer(node, remarks)
    if isinstance(node, ast.Function):
        return _function(node, remarks)
    if isinstance(node, ast.Optimizer):
        return _optimizer(node)
    if isinstance(node, ast.Test):
        return [f"test {expression_text(node.name)} {{", *_block(node.body, remarks), "}"]
    return [_ITEMS[type(node)](node)]


_ITEMS: dict[type, Callable[[Any], str]] = {
    ast.Edition: lambda node: f"wg {node.number}",
    ast.ImportNames: lambda node: f"import {_names(node.names)} from {expression_text(node.path)}",
    ast.ImportModule: lambda node: f"import {expression_text(node.path)} as {node.name.text}",
    ast.DtypeAlias: lambda node: f"dtype {node.name.text} = {node.dtype.text}",
    ast.Dims: _dims,
    ast.Const: _const,
    ast.Param: _param,
    ast.State: _state,
    ast.Submodule: _submodule,
    ast.Setting: _setting,
    ast.Replace: _replace,
    ast.Assert: _assert,
}
