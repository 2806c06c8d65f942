"""Sums, means and extremes along axes."""

from __future__ import annotations

from wgcc.from_onnx.context import Op
from wgcc.from_onnx.rules.rule import Rule, axes_text, axis_of
from wgcc.from_onnx.values import Operand, Shape, Value, plain_order


def reduction(text: str) -> Rule:
    """`text` has `{0}` for the operand and `{axes}` for `axis = …`."""

    def rule(op: Op) -> Operand:
        x = op.operand(0)
        axes = _axes(op, len(x.shape))
        if axes is None:
            return x
        return reduced(op, text, x, axes, bool(op.attribute("keepdims", 1)))

    return rule


def reduced(op: Op, text: str, x: Operand, axes: Shape, keep: bool) -> Value:
    order = x.order if isinstance(x, Value) else plain_order(x.shape)
    places = sorted(order.index(axis) for axis in axes)
    if not keep and order != plain_order(x.shape):
        x, places = op.ordered(x, None), sorted(axes)
    options = f"axis = {axes_text(places)}"
    if len(axes) == len(x.shape) and not keep:
        options = ""
    elif keep:
        options += ", keep = true"
    filled = text.replace("({axes})", f"({options})" if options else "()")
    filled = filled.replace(", {axes}", f", {options}" if options else "")
    return op.result(filled, x, order=order if keep else None)


def _axes(op: Op, rank: int) -> Shape | None:
    """None: nothing is reduced."""
    found = op.numbers(1, "axes") if op.has(1) else list(op.attribute("axes", ()))
    if found:
        return tuple(axis_of(axis, rank) for axis in found)
    return None if op.attribute("noop_with_empty_axes", 0) else tuple(range(rank))


def _extreme(function: str) -> Rule:
    plain = reduction(f"{function}({{0}}, {{axes}})")
    bools = reduction(f"{'any' if function == 'max' else 'all'}({{0}}, {{axes}})")
    return lambda op: (bools if op.type.dtype == "bool" else plain)(op)


def arg(function: str) -> Rule:
    def rule(op: Op) -> Operand:
        x = op.operand(0)
        axis = axis_of(op.attribute("axis", 0), len(x.shape))
        keep = bool(op.attribute("keepdims", 1))
        if not op.attribute("select_last_index", 0):
            return reduced(op, f"{function}({{0}}, {{axes}})", x, (axis,), keep)
        last = x.shape[axis] - 1
        plain = op.ordered(x, None)
        text = f"{last} - {function}(flip({{0}}, axis = {axis}), {{axes}})"
        return reduced(op, text, plain, (axis,), keep)

    return rule


RULES: dict[str, Rule] = {
    "ReduceSum": reduction("sum({0}, {axes})"),
    "ReduceMean": reduction("mean({0}, {axes})"),
    "ReduceProd": reduction("prod({0}, {axes})"),
    "ReduceMax": _extreme("max"),
    "ReduceMin": _extreme("min"),
    "ReduceL1": reduction("sum(abs({0}), {axes})"),
    "ReduceL2": reduction("norm({0}, {axes})"),
    "ReduceLogSum": reduction("log(sum({0}, {axes}))"),
    "ReduceLogSumExp": reduction("logsumexp({0}, {axes})"),
    "ReduceSumSquare": reduction("sum(square({0}), {axes})"),
    "ArgMax": arg("argmax"),
    "ArgMin": arg("argmin"),
}
