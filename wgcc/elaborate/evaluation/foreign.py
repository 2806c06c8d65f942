"""Expressions as they are in Python and PyTorch: what is wrong with them, and what to write."""

from __future__ import annotations

import re

from wgcc.elaborate.from_pytorch import LAYERS, PREFIXES, counterpart
from wgcc.elaborate.from_pytorch.calls import PytorchCall
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.foreign_calls import (
    PYTHON_WORDS,
    explain_layer,
    explain_misuse,
    explain_unknown,
    foreign_call,
    is_prefixed,
    is_written,
    optimizer_name,
    same_name_code,
)
from wgcc.elaborate.tracing.values import (
    AnyValue,
    Builtin,
    FunctionValue,
    LayerType,
    OptimizerValue,
    Tensor,
)
from wgcc.errors import Diagnostic, Span
from wgcc.syntax import ast

NAMES_OF_OTHER_LANGUAGES = {
    "self": "members are named directly: write `w`, not `self.w`",
    **dict.fromkeys(PREFIXES, "built-in functions need no prefix: write `relu(x)`"),
    **dict.fromkeys(("True", "False"), "write `true` and `false`"),
    "None": "there is no such value: leave the argument out",
    **dict.fromkeys(
        ("opt", "optimizer"),
        "declare one in the model, `optimizer opt: adam { lr = 1e-3 }`; then "
        "`minimize loss with opt` computes the gradients and makes the step",
    ),
}
# Members of tensors in PyTorch, with what to write for the tensor `{}`.
TENSOR_MEMBERS = {
    "shape": "shape({})", "T": "transpose({})", "mT": "transpose({})", "size": "size({})",
    "ndim": "axes({})",
}  # fmt: skip
_MEMBER_REMARKS = {
    "dtype": "the type is in the declaration",
    "device": "devices are chosen when a bundle is loaded",
    "data": "`stop_grad(x)` is x without its gradient",
    "grad": "`grad(loss, w)` is the gradient of a number with respect to a tensor",
    "values": "`max` and `min` give the values alone; `sort` and `top_k` give a tuple",
    "indices": "`argmax` and `argmin` give the positions; `sort` and `top_k` give a tuple",
}
# Calls of a training loop, `{}.backward()`, where nothing has that name.
_CALLS_OF_NOTHING = {
    "backward": "compute it, `{0} = mse(forward(x), y)`; then `minimize {0} with {1}` computes "
    "gradients and makes the step",
    "step": "`minimize loss with {1}` makes the step; a schedule is a setting of the optimizer: "
    "`lr = warmup_cosine(step, peak = 1e-3, warmup = 20, total = 1000)`",
    "zero_grad": "leave it out: every call computes fresh gradients",
    "train": "leave it out: an entry with `minimize` trains, all others predict",
    "eval": "leave it out: an entry with `minimize` trains, all others predict",
}
_OPTIMIZER_CALLS = {
    "step": "`minimize loss with {}` computes the gradients and makes the step",
    "zero_grad": "leave it out: every call computes fresh gradients",
}


def report_foreign_call(
    context: Context, node: ast.Call, first: ast.Expr | None = None, whole: Span | None = None
) -> None:
    """Report a call of a function that only PyTorch or Python has; `first |> f(…)` is piped."""
    function = node.function
    if isinstance(function, ast.Name):
        if _is_unknown(context, function.text):
            _report(context, node, function.text, function.span, first, whole)
    elif is_prefixed(context, function):
        assert isinstance(function, ast.Member)
        _report(context, node, function.name.text, function.span, first, whole)
    elif isinstance(function, ast.Member) and isinstance(function.value, ast.Name):
        _report_training_loop(context, function.value, function.name.text)


def _report_training_loop(context: Context, owner: ast.Name, called: str) -> None:
    """Report `loss.backward()` where there is no `loss`."""
    name, scope = owner.text, context.scope
    known = scope.find(name) is not None or scope.awaits(name) or name in NAMES_OF_OTHER_LANGUAGES
    if known or called not in _CALLS_OF_NOTHING:
        return
    problem = context.report.error("WG0201", f"unknown name `{name}`", owner)
    advice = _CALLS_OF_NOTHING[called].format(name, optimizer_name(context))
    raise Stop(problem.help(f"coming from PyTorch: {advice}"))


def report_foreign_method(context: Context, node: ast.Call, value: AnyValue) -> None:
    """Report `x.view(…)` for a tensor x, and `opt.step()`."""
    member = node.function
    assert isinstance(member, ast.Member)
    name = member.name.text
    if isinstance(value, OptimizerValue) and name in _OPTIMIZER_CALLS:
        text = f"an optimizer has no function `{name}`"
        problem = context.report.error("WG0213", text, member.name)
        raise Stop(problem.help(_OPTIMIZER_CALLS[name].format(value.name)))
    if isinstance(context.read(value), Tensor) and _is_unknown(context, name):
        _report(context, node, name, member.name.span, member.value)


def _is_unknown(context: Context, name: str) -> bool:
    return not context.scope.is_bound(name) and counterpart(name) is not None


def _report(
    context: Context, node: ast.Call, name: str, at: Span, first: ast.Expr | None,
    whole: Span | None = None,
) -> None:  # fmt: skip
    is_known = is_written(context, name)
    call = foreign_call(context, node.arguments, first) if is_known else PytorchCall()
    known = context.scope.find(name)
    if isinstance(known, (Builtin, FunctionValue, LayerType)):
        problem = context.report.error("WG0201", f"`{at.text}`: names have no prefix here", at)
        problem.help(f"write `{name}`", (at, name))
        if isinstance(known, FunctionValue):
            raise Stop(problem)
    else:
        visible = context.scope.visible()
        problem = context.report.unknown("WG0201", "function", name, visible, at)
    if name in LAYERS:
        explain_layer(problem, name, call)
    else:
        explain_unknown(context, problem, name, call, whole or node.span)
    raise Stop(problem)


def explain_failed_call(
    context: Context, node: ast.Call, function: AnyValue, before: int, first: ast.Expr | None = None
) -> None:
    """Add to the error of a built-in what to write, if its arguments are those of PyTorch."""
    items = context.report.diagnostics.items
    if not isinstance(function, Builtin) or len(items) == before:
        return
    if items[before].code == "WG0201" and items[before].span.text not in PYTHON_WORDS:
        return
    call = foreign_call(context, node.arguments, first)
    explain_misuse(context, items[before], function, call, node.span)


def explain_member(context: Context, node: ast.Member, value: AnyValue) -> None:
    """Report `x.shape` and `x.T` of a tensor."""
    name = node.name.text
    if not isinstance(context.read(value), Tensor):
        return
    problem = context.report.error("WG0213", f"a tensor has no member `{name}`", node.name)
    if name in TENSOR_MEMBERS:
        code = TENSOR_MEMBERS[name].format(node.value.span.text)
        problem.help(f"write `{code}`", (node.span, code))
    elif name in _MEMBER_REMARKS:
        problem.help(_MEMBER_REMARKS[name])
    elif counterpart(name) is not None:
        call = foreign_call(context, (), node.value)
        explain_unknown(context, problem, name, call, node.span)
    raise Stop(problem)


def report_prefixed(context: Context, node: ast.Member) -> None:
    """Report `math.pi` and `torch.float32`."""
    if not is_prefixed(context, node):
        return
    name = node.name.text
    problem = context.report.error("WG0201", f"`{node.span.text}`: names have no prefix here", node)
    known = counterpart(name)
    if context.scope.find(name) is not None:
        problem.help(f"write `{name}`", (node.span, name))
    elif known is not None:
        problem.help(f"coming from PyTorch: {known.advice()}")
    else:
        problem.help("built-in functions and constants need no prefix: write `relu(x)`, `pi`")
    raise Stop(problem)


def explain_name(problem: Diagnostic, node: ast.Name) -> None:
    """Say what to write in place of `True`, or of `self.` before a member."""
    span = node.span
    member = re.match(r"\.(\w+)", span.source.text[span.end :])
    if node.text == "self" and member:
        edit = Span(span.source, span.start, span.end + 1), ""
        problem.help(f"members are named directly: write `{member[1]}`", edit)
    else:
        problem.help(NAMES_OF_OTHER_LANGUAGES[node.text])


def report_none_in_index(context: Context, node: ast.Index) -> None:
    """Report `x[:, None]`."""
    nones = [item for item in node.items if isinstance(item, ast.Name) and item.text == "None"]
    if not nones or context.scope.find("None") is not None:
        return
    problem = context.report.error("WG0201", "a new axis is not written `None`", nones[0])
    inside = ", ".join("new" if item in nones else item.span.text for item in node.items)
    edits = [(item.span, "new") for item in nones]
    raise Stop(problem.help(f"write `{node.value.span.text}[{inside}]`", *edits))


def explain_extremes(context: Context, problem: Diagnostic, node: ast.Expr, count: int) -> None:
    """Add to `values, ids = max(x, 1)` that the positions are a function of their own."""
    if not isinstance(node, ast.Call) or count != 2:
        return
    function = node.function
    method = function if isinstance(function, ast.Member) else None
    name = method.name.text if method is not None else function.span.text
    builtin, first = context.scope.find(name), method.value if method is not None else None
    if name not in ("max", "min") or not isinstance(builtin, Builtin):
        return
    code = same_name_code(builtin, foreign_call(context, node.arguments, first))
    both = f"{code}, arg{code}"
    problem.help(f"coming from PyTorch: write `{both}`", (node.span, both))
