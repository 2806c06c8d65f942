"""Calls as PyTorch has them: what is known of their arguments, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Mapping

from wgcc.elaborate.from_pytorch import LAYERS, PREFIXES, SCHEDULES, counterpart
from wgcc.elaborate.from_pytorch.calls import IGNORED, PytorchArgument, PytorchCall, is_atom
from wgcc.elaborate.from_pytorch.names import SAME_NAMES
from wgcc.elaborate.report import SYNONYMS
from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.dims import Dim
from wgcc.elaborate.tracing.values import (
    AnyValue,
    Builtin,
    LayerType,
    ListValue,
    Number,
    OptimizerValue,
    Tensor,
    TupleValue,
)
from wgcc.errors import Diagnostic, Span
from wgcc.syntax import ast

_NAME = re.compile(r"[A-Za-z_]\w*")
PYTHON_WORDS = {"True": "true", "False": "false", "None": ""}


def root_of(node: ast.Expr) -> ast.Expr:
    """`torch` in `torch.nn.functional.relu`."""
    while isinstance(node, ast.Member):
        node = node.value
    return node


def is_prefixed(context: Context, node: ast.Expr) -> bool:
    """Whether this is a name after a prefix of Python: `torch.cat`."""
    root = root_of(node)
    is_prefix = isinstance(root, ast.Name) and root.text in PREFIXES
    return root is not node and is_prefix and context.scope.find(root.text) is None  # type: ignore[union-attr]


def is_written(context: Context, name: str) -> bool:
    """Whether the arguments of a call decide what to write instead."""
    known = counterpart(name)
    return isinstance(context.scope.find(name), Builtin) or bool(known and known.form)


def foreign_call(
    context: Context, arguments: tuple[ast.Argument, ...], first: ast.Expr | None = None
) -> PytorchCall:
    """The facts known of the arguments; errors in them are reported."""
    positional = [argument.value for argument in arguments if argument.name is None]
    named = {
        argument.name.text: _fact(context, argument.value)
        for argument in arguments
        if argument.name is not None
    }
    nodes = positional if first is None else [first, *positional]
    return PytorchCall(tuple(_fact(context, node) for node in nodes), named)


def layer_counterpart(context: Context, node: ast.Expr) -> str | None:
    """The layer to declare for `nn.Linear(3, 4)`; `Linear[3, 4]` is one as it is."""
    function = node.function if isinstance(node, ast.Call) else node
    if isinstance(function, ast.Index):
        is_layer = isinstance(function.value, ast.Name) and isinstance(
            context.scope.find(function.value.text), LayerType
        )
        return node.span.text if is_layer else None
    assert isinstance(node, ast.Call)
    if not is_prefixed(context, function) and not isinstance(function, ast.Name):
        return None
    name = function.name if isinstance(function, ast.Member) else function
    known = LAYERS.get(name.text) if isinstance(name, (ast.Identifier, ast.Name)) else None
    return known.code(foreign_call(context, node.arguments)) if known is not None else None


def explain_unknown(
    context: Context, problem: Diagnostic, name: str, call: PytorchCall, at: Span
) -> None:
    """Add to an error of a call that is not known here what to write instead of it."""
    function, known = context.scope.find(name), counterpart(name)
    if isinstance(function, Builtin):
        written = same_name_code(function, call)
        _help(problem, f"write `{written}`", written, at)
    elif known is not None:
        code = known.code(call)
        if code is not None and name == "backward":
            code = code.replace(" with opt", f" with {optimizer_name(context)}")
        # A schedule is a setting, which belongs elsewhere.
        _help(problem, known.advice(code), None if name in SCHEDULES else code, at)


def explain_layer(problem: Diagnostic, name: str, call: PytorchCall) -> None:
    """The same for a layer that is created inside an expression."""
    code = LAYERS[name].code(call) or LAYERS[name].general
    advice = f"declare it as a member, `f: {code}`" if code else LAYERS[name].advice()
    _help(problem, advice, None, problem.span)


def _help(problem: Diagnostic, advice: str, code: str | None, at: Span) -> None:
    problem.helps.clear()
    edits = () if code is None else ((at, _fitting(code, at)),)
    problem.help(f"coming from PyTorch: {advice}", *edits)


def _fitting(code: str, at: Span) -> str:
    """`code` in place of `at`: in parentheses if it is an operand, `(a + b).sum()`."""
    before, after = at.source.text[: at.start].rstrip(" "), at.source.text[at.end :].lstrip(" ")
    alone = before[-1:] in "=(,[{:;\n" or before.endswith(("return", " in"))
    if is_atom(code) or (alone and (after[:1] in "),]{};\n" or after.startswith("//"))):
        return code
    return f"({code})"


def explain_misuse(
    context: Context, problem: Diagnostic, function: Builtin, call: PytorchCall, at: Span
) -> None:
    """The same for a built-in whose arguments are those of PyTorch; other advice is better."""
    if problem.helps and problem.code not in ("WG0201", "WG0207"):
        return
    code = same_name_code(function, call)
    if code != _plain(function.name, call):
        _help(problem, f"write `{code}`", code, at)


def same_name_code(function: Builtin, call: PytorchCall) -> str:
    rule = SAME_NAMES.get(function.name)
    code = rule.code(call) if rule is not None else None
    if code is not None:
        return code
    own = {part.partition("=")[0].strip(" *") for part in function.function.parameters.split(",")}
    kept = {key: value for key, value in call.named.items() if key in own or key not in IGNORED}
    renamed = {key: SYNONYMS[key] for key in kept if key not in own and SYNONYMS.get(key) in own}
    return _plain(function.name, PytorchCall(call.positional, kept), renamed)


def _plain(name: str, call: PytorchCall, renamed: Mapping[str, str] | None = None) -> str:
    """The call as it is written, but for the names of arguments."""
    new = {} if renamed is None else renamed
    texts = [argument.text for argument in call.positional]
    texts += [
        f"{new.get(key, key)} = {_word(value.text, renamed is not None)}"
        for key, value in call.named.items()
    ]
    return f"{name}({', '.join(texts)})"


def _word(text: str, translated: bool) -> str:
    return PYTHON_WORDS.get(text, text) if translated else text


def _fact(context: Context, node: ast.Expr) -> PytorchArgument:
    text = " ".join(node.span.text.split())
    python_word = isinstance(node, ast.Name) and node.text in PYTHON_WORDS
    if python_word or is_prefixed(context, node):
        return PytorchArgument(text)
    if isinstance(node, (ast.ListExpr, ast.TupleExpr)):
        return PytorchArgument(text, items=tuple(_fact(context, item) for item in node.items))
    return pytorch_argument(context, text, context.read(context.value(node)))


def pytorch_argument(context: Context, text: str, value: AnyValue) -> PytorchArgument:
    if isinstance(value, Tensor):
        sizes = tuple(_size(context, dim) for dim in value.dims)
        lengths = tuple(dim.size for dim in value.dims)
        return PytorchArgument(text, sizes, lengths, value.dtype)
    if isinstance(value, Dim):
        return PytorchArgument(text, number=value.size)
    if isinstance(value, Number):
        return PytorchArgument(text, number=value.value)
    if isinstance(value, (ListValue, TupleValue)):
        parts = enumerate(value.items)
        return PytorchArgument(
            text, items=tuple(pytorch_argument(context, f"{text}[{i}]", v) for i, v in parts)
        )
    if isinstance(value, OptimizerValue):
        return PytorchArgument(text, rate=_rate(value))
    return PytorchArgument(text)


def _size(context: Context, dim: Dim) -> str:
    """The size as the user may write it here."""
    text = str(dim)
    known = (context.scope.find(name) for name in _NAME.findall(text))
    return text if dim.generic or all(isinstance(value, Dim) for value in known) else str(dim.size)


def _rate(optimizer: OptimizerValue) -> str:
    settings = (item for item in optimizer.node.items if isinstance(item, ast.Setting))
    rates = (item.value.span.text for item in settings if item.name.text == "lr")
    # `lr = StepLR(opt, 30)` has no rate to multiply.
    return next((rate for rate in rates if not any(name in rate for name in SCHEDULES)), "")


def optimizer_name(context: Context) -> str:
    scope = context.scope
    names = [name for name in scope.visible() if isinstance(scope.find(name), OptimizerValue)]
    return names[0] if len(names) == 1 else "opt"
