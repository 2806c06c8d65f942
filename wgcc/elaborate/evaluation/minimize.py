"""`minimize loss with optimizer over "…"`: which parameters it trains, and its `minimize` node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wgcc.elaborate.declarations.constructors import gather_arguments
from wgcc.elaborate.declarations.optimizers import (
    WrittenSettings,
    check_nesterov,
    listing,
    put_setting,
    require_setting,
    select,
    settings_of,
)
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.context import Context, Minimized
from wgcc.elaborate.tracing.values import (
    AnyValue,
    Number,
    OptimizerValue,
    ParamRef,
    Tensor,
    describe,
)
from wgcc.errors import Diagnostic
from wgcc.ir.dtypes import F16
from wgcc.ir.graph import FLOATS, Node, Value
from wgcc.ops import OPS
from wgcc.ops.optimizers import OPTIMIZERS
from wgcc.syntax import ast

# f16 ranges from 6e-8 to 65,504; gradients of a mean over a batch are mostly small.
F16_LOSS_SCALE = 1024.0


def minimize(context: Context, node: ast.Minimize) -> None:
    loss = context.value(node.value)
    optimizer = _optimizer(context, node)
    loss = context.read(context.require(loss))
    if context.entry is None or context.functions:
        text = "`minimize` may only be used directly in an entry"
        raise Stop(context.report.error("WG0305", text, node))
    tensor = _one_number(context, node, loss)
    if not optimizer.usable:
        raise Stop
    chosen = _params_to_train(context, node, tensor)
    _refuse_axes(context, node, optimizer, chosen)
    _refuse_second_use(context, node, optimizer)
    settings = _settings(context, node, optimizer)
    context.here = node.span
    with context.within(context.scope, optimizer.name):
        context.here = node.span
        _emit(context, optimizer, settings, tensor, chosen)
    trained = Minimized(optimizer.name, tuple(ref.path for ref in chosen), node)
    context.parts.minimized.setdefault(context.entry.name.text, []).append(trained)


def _optimizer(context: Context, node: ast.Minimize) -> OptimizerValue:
    named = node.optimizer.function if isinstance(node.optimizer, ast.Call) else node.optimizer
    optimizer = context.require(context.value(named))
    if not isinstance(optimizer, OptimizerValue):
        text = f"`minimize ... with` needs an optimizer, but this is {describe(optimizer)}"
        raise Stop(context.report.error("WG0305", text, node.optimizer))
    if context.parts.optimizers.get(optimizer.name) is not optimizer:
        text = f"`{named.span.text}` is declared in a sub-layer, so this model cannot use it"
        problem = context.report.error("WG0305", text, node.optimizer)
        raise Stop(problem.help("declare an optimizer in this model"))
    return optimizer


def _one_number(context: Context, node: ast.Minimize, loss: object) -> Tensor:
    if isinstance(loss, Tensor) and not loss.dims and loss.dtype in FLOATS:
        return loss
    text = f"the value to minimize must be one number, but this is {describe(loss)}"
    label = str(loss) if isinstance(loss, Tensor) else ""
    problem = context.report.error("WG0305", text, node.value, label)
    if isinstance(loss, Tensor) and loss.dims:
        problem.help("reduce it first, e.g. `mean(...)`")
    raise Stop(problem)


def _params_to_train(context: Context, node: ast.Minimize, loss: Tensor) -> list[ParamRef]:
    """Trainable parameters that are selected and that the loss depends on."""
    params = context.parts.params
    wanted = {path for path, ref in params.items() if not ref.frozen}
    if node.selectors:
        wanted &= {path for selector in node.selectors for path in select(context, selector)}
    reached = _ancestors(context.trace.builder.nodes, loss.value)
    _refuse_outdated(
        context, node, {context.trace.old.get(value, "") for value in reached} & wanted
    )
    chosen = [
        params[path]
        for path in params
        if path in wanted and context.trace.read(params[path]).value in reached
    ]
    if not chosen:
        raise Stop(_nothing_to_train(context, node, wanted))
    _refuse_f16(context, node, [ref.path for ref in chosen if ref.dtype != "f32"])
    return chosen


def _refuse_f16(context: Context, node: ast.Minimize, paths: list[str]) -> None:
    """The steps of an optimizer would be lost in the rounding of an f16 parameter."""
    if not paths:
        return
    text = f"an optimizer trains f32 parameters, but this one would change f16 {listing(paths)}"
    problem = context.report.error("WG0314", text, node)
    advice = "declare them f32; `precision = f16` stores activations as f16 beside f32 parameters"
    raise Stop(problem.help(advice))


def _refuse_axes(
    context: Context, node: ast.Minimize, optimizer: OptimizerValue, chosen: list[ParamRef]
) -> None:
    kind = OPTIMIZERS[optimizer.node.kind.text]
    others = [ref.path for ref in chosen if len(ref.dims) != kind.axes]
    if kind.axes is None or not others:
        return
    text = f"{kind.name} trains matrices, but this one would change {listing(others)}"
    problem = context.report.error("WG0314", text, node)
    advice = "declare another optimizer for those: `minimize ... with other over"
    raise Stop(problem.help(f'{advice} "{others[0]}"`, and the matrices with `over`, too'))


def _ancestors(nodes: list[Node], loss: Value) -> set[Value]:
    """Every value that the loss depends on by differentiable ops."""
    producers = {output: node for node in nodes for output in node.outputs}
    reached, waiting = {loss}, [loss]
    while waiting:
        producer = producers.get(waiting.pop())
        if producer is None or OPS[producer.op].stops_gradient:
            continue
        for value in producer.inputs:
            if value not in reached and value.dtype in FLOATS:
                reached.add(value)
                waiting.append(value)
    return reached


def _refuse_outdated(context: Context, node: ast.Minimize, paths: set[str]) -> None:
    if not paths:
        return
    text = f"this loss was computed before {listing(sorted(paths))} changed"
    problem = context.report.error("WG0311", text, node.value)
    raise Stop(
        problem.help("compute it again after the change, or train other parameters with `over`")
    )


def _nothing_to_train(context: Context, node: ast.Minimize, wanted: set[str]) -> Diagnostic:
    text = "there is nothing to train: no trainable parameter reaches this loss"
    problem = context.report.error("WG0310", text, node.value)
    frozen = [path for path, ref in context.parts.params.items() if ref.frozen]
    if frozen:
        problem.note("frozen: " + listing(frozen))
    if wanted:
        problem.note("trainable, but no gradient of this loss reaches " + listing(sorted(wanted)))
    return problem


def _refuse_second_use(context: Context, node: ast.Minimize, optimizer: OptimizerValue) -> None:
    if not optimizer.results:
        return
    text = f"`{optimizer.name}` is already used by a `minimize` of this entry"
    problem = context.report.error("WG0313", text, node.optimizer)
    raise Stop(problem.help("minimize the sum of the losses, or declare a second optimizer"))


def _settings(context: Context, node: ast.Minimize, optimizer: OptimizerValue) -> WrittenSettings:
    settings = settings_of(context, optimizer)
    if not isinstance(node.optimizer, ast.Call):
        return settings
    arguments = gather_arguments(context, node.optimizer.arguments)
    if arguments.positional:
        text = "settings are given by name: `opt(lr = ...)`"
        raise Stop(context.report.error("WG0218", text, arguments.positional[0].span))
    for name, item in arguments.named.items():
        require_setting(context, optimizer, name, item.name_span or item.span)
        value = context.read(context.require(item.value))
        put_setting(context, optimizer, settings, name, value, item.span)
    check_nesterov(context, optimizer, settings, node.optimizer)
    return settings


def _emit(
    context: Context,
    optimizer: OptimizerValue,
    settings: WrittenSettings,
    loss: Tensor,
    chosen: list[ParamRef],
) -> None:
    current = [context.trace.read(ref) for ref in chosen]
    *updated, norm = context.emit_many(
        "minimize",
        context.cast(loss, "f32"),
        *settings.dynamic.values(),
        *current,
        outputs=[*((ref.dims, ref.dtype) for ref in chosen), ((), "f32")],
        optimizer=optimizer.name,
        kind=optimizer.node.kind.text,
        settings=_with_scale(context, settings),
        dynamic=tuple(settings.dynamic),
        groups=_groups(optimizer, chosen),
    )
    for ref, tensor in zip(chosen, updated, strict=True):
        context.trace.write(ref, tensor)
        context.trace.name(tensor.value, f"{ref.path}.new")
    context.name(norm, "grad_norm")
    optimizer.results |= {"grad_norm": norm, "lr": _rate(settings)}


def _with_scale(context: Context, settings: WrittenSettings) -> dict[str, Any]:
    """Gradients that are stored as f16 would underflow without a loss scale."""
    known = dict(settings.known)
    if context.precision == F16 and "loss_scale" not in {*known, *settings.dynamic}:
        known["loss_scale"] = F16_LOSS_SCALE
    return known


def _rate(settings: WrittenSettings) -> AnyValue:
    if "lr" in settings.dynamic:
        return settings.dynamic["lr"]
    known = settings.known["lr"]
    assert isinstance(known, float)
    return Number(known)


def _groups(
    optimizer: OptimizerValue, chosen: list[ParamRef]
) -> tuple[tuple[tuple[int, ...], Mapping[str, Any]], ...]:
    """Every parameter in exactly one group; settings of later groups override earlier ones."""
    members: dict[tuple[tuple[str, float], ...], list[int]] = {}
    for position, ref in enumerate(chosen):
        merged: dict[str, float] = {}
        for paths, settings in optimizer.groups:
            if ref.path in paths:
                merged |= settings
        members.setdefault(tuple(sorted(merged.items())), []).append(position)
    return tuple((tuple(positions), dict(key)) for key, positions in members.items())
