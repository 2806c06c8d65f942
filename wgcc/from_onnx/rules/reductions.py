"""Sums, means and extremes along axes."""

from __future__ import annotations

from wgcc.from_onnx.context import Op
from wgcc.from_onnx.rules.rule import Rule, axes_of, axis_of
from wgcc.from_onnx.values import Operand, Shape, Value, plain_order

ALONG = "{0}, axis = {1}, keep = {2}"


def reduction(text: str) -> Rule:
    """`text` has `{0}` for the operand, `{1}` for its axes and `{2}` for whether they are kept."""

    def rule(op: Op) -> Operand:
        x = op.operand(0)
        axes = _axes(op, len(x.shape))
        if axes is None:
            return x
        return reduced(op, text, x, axes, bool(op.attribute("keepdims", 1)))

    return rule


def reduced(op: Op, text: str, x: Operand, axes: Shape, keep: bool, *others: int) -> Value:
    order = x.order if isinstance(x, Value) else plain_order(x.shape)
    places = sorted(order.index(axis) for axis in axes)
    if not keep and order != plain_order(x.shape):
        x, places = op.ordered(x, None), sorted(axes)
    is_whole = len(axes) == len(x.shape) and not keep
    along = None if is_whole else axes_of(places)
    return op.result(text, x, along, keep or None, *others, order=order if keep else None)


def _axes(op: Op, rank: int) -> Shape | None:
    """None: nothing is reduced."""
    found = op.numbers(1, "axes") if op.has(1) else list(op.attribute("axes", ()))
    if found:
        return tuple(axis_of(axis, rank) for axis in found)
    return None if op.attribute("noop_with_empty_axes", 0) else tuple(range(rank))


def _extreme(function: str) -> Rule:
    plain = reduction(f"{function}({ALONG})")
    bools = reduction(f"{'any' if function == 'max' else 'all'}({ALONG})")
    return lambda op: (bools if op.type.dtype == "bool" else plain)(op)


def arg(function: str) -> Rule:
    def rule(op: Op) -> Operand:
        x = op.operand(0)
        axis = axis_of(op.attribute("axis", 0), len(x.shape))
        keep = bool(op.attribute("keepdims", 1))
        if not op.attribute("select_last_index", 0):
            return reduced(op, f"{function}({ALONG})", x, (axis,), keep)
        last = x.shape[axis] - 1
        plain = op.ordered(x, None)
        text = f"{{3}} - {function}(flip({{0}}, axis = {{4}}), axis = {{1}}, keep = {{2}})"
        return reduced(op, text, plain, (axis,), keep, last, axis)

    return rule


RULES: dict[str, Rule] = {
    "ReduceSum": reduction(f"sum({ALONG})"),
    "ReduceMean": reduction(f"mean({ALONG})"),
    "ReduceProd": reduction(f"prod({ALONG})"),
    "ReduceMax": _extreme("max"),
    "ReduceMin": _extreme("min"),
    "ReduceL1": reduction("sum(abs({0}), axis = {1}, keep = {2})"),
    "ReduceL2": reduction(f"norm({ALONG})"),
    "ReduceLogSum": reduction(f"log(sum({ALONG}))"),
    "ReduceLogSumExp": reduction(f"logsumexp({ALONG})"),
    "ReduceSumSquare": reduction("sum(square({0}), axis = {1}, keep = {2})"),
    "ArgMax": arg("argmax"),
    "ArgMin": arg("argmin"),
}
