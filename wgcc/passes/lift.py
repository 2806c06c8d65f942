"""One node for all rounds of a loop: what a node of the body computes in every round, computed at
once on operands whose leading axis is the rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from wgcc.ir.graph import Builder, Node, Value
from wgcc.ops import OPS
from wgcc.ops.formula import Term
from wgcc.ops.registry import Marker, Pointwise, Reduce


@dataclass(frozen=True, slots=True)
class Lifted:
    """A value outside the loop: the same in all rounds, or `stacked`: one of each round."""

    value: Value
    stacked: bool


def can_lift(node: Node, stacked: Sequence[bool]) -> bool:
    """Whether `node` can be computed outside; `stacked` says which operands differ by round."""
    lower = OPS[node.op].lower
    if isinstance(lower, Marker) or "body" in node.attrs:
        return False
    if not any(stacked) or isinstance(lower, Pointwise | Reduce):
        return True
    only = ONLY_STACKED.get(node.op)
    differ = {at for at, one in enumerate(stacked) if one}
    return node.op in RULES and (only is None or differ == {only})


def lift(b: Builder, node: Node, operands: Sequence[Lifted], rounds: int) -> list[Lifted]:
    """Append to `b` what `node` (that can be lifted) computes of these operands."""
    if not any(operand.stacked for operand in operands):
        values = [operand.value for operand in operands]
        names = tuple(value.name for value in node.outputs)
        with b.at(node.span, ""):
            made = b.apply_many(node.op, *values, names=names, **node.attrs)
        return [Lifted(value, stacked=False) for value in made]
    rule = RULES.get(node.op) or _by_kind(node)
    with b.at(node.span, node.output.name):
        stack = rule(b, node, operands, rounds).value
    return [Lifted(_rename_last(b, stack, f"{node.output.name}.all"), stacked=True)]


def _rename_last(b: Builder, value: Value, name: str) -> Value:
    """`value` under a better name, if the last node makes it."""
    if not b.nodes or b.nodes[-1].outputs != (value,):
        return value
    better = Value(b.fresh(name), value.type)
    b.nodes[-1] = replace(b.nodes[-1], outputs=(better,))
    return better


Rule = Callable[[Builder, Node, Sequence[Lifted], int], Term]


def _by_kind(node: Node) -> Rule:
    return _pointwise if isinstance(OPS[node.op].lower, Pointwise) else _along_axes


def spread(b: Builder, operand: Lifted, rounds: int) -> Term:
    """The operand with the rounds as its leading axis."""
    value = operand.value
    if operand.stacked:
        return Term(b, value)
    made = b.nodes[-1] if b.nodes else None
    if made and made.op == "broadcast" and made.outputs == (value,):
        # One view instead of two, so that its gradient is one sum.
        return Term(b, made.inputs[0]).broadcast((rounds, *value.shape))
    return Term(b, value).broadcast((rounds, *value.shape))


def _all(b: Builder, operands: Sequence[Lifted], rounds: int) -> list[Term]:
    return [spread(b, operand, rounds) for operand in operands]


def _pointwise(b: Builder, node: Node, operands: Sequence[Lifted], rounds: int) -> Term:
    first, *others = _all(b, operands, rounds)
    return first.apply(node.op, *others, **node.attrs)


def _along_axes(b: Builder, node: Node, operands: Sequence[Lifted], rounds: int) -> Term:
    """Axes are counted from one behind the rounds."""
    first, *others = _all(b, operands, rounds)
    attrs = dict(node.attrs)
    if "axis" in attrs:
        attrs["axis"] += 1
    if "axes" in attrs:
        attrs["axes"] = tuple(axis + 1 for axis in attrs["axes"])
    return first.apply(node.op, *others, **attrs)


def _reshape(b: Builder, node: Node, operands: Sequence[Lifted], rounds: int) -> Term:
    return Term(b, operands[0].value).reshape((rounds, *node.output.shape))


def _transpose(b: Builder, node: Node, operands: Sequence[Lifted], rounds: int) -> Term:
    perm = (0, *(axis + 1 for axis in node.attrs["perm"]))
    return Term(b, operands[0].value).apply("transpose", perm=perm)


def _broadcast(b: Builder, node: Node, operands: Sequence[Lifted], rounds: int) -> Term:
    """Axes align from the last, so those that are added go between the rounds and the others."""
    source, target = node.inputs[0].shape, node.output.shape
    wide = (rounds, *(1,) * (len(target) - len(source)), *source)
    return Term(b, operands[0].value).reshape(wide).broadcast((rounds, *target))


def _slice(b: Builder, node: Node, operands: Sequence[Lifted], rounds: int) -> Term:
    attrs = {
        name: (start, *node.attrs[name])
        for name, start in (("starts", 0), ("sizes", rounds), ("steps", 1), ("shape", rounds))
        if name in node.attrs
    }
    return Term(b, operands[0].value).apply(node.op, **attrs)


def _gather(b: Builder, node: Node, operands: Sequence[Lifted], rounds: int) -> Term:
    table, ids = operands
    return Term(b, table.value).apply("gather", Term(b, ids.value))


def _rows(b: Builder, node: Node, operands: Sequence[Lifted], rounds: int) -> Term:
    """Ops on the last axis, whatever axes are in front of it."""
    first, *others = (Term(b, operand.value) for operand in operands)
    return first.apply(node.op, *others, **node.attrs)


def _images(b: Builder, node: Node, operands: Sequence[Lifted], rounds: int) -> Term:
    """Rounds are more images."""
    images, *others = (Term(b, operand.value) for operand in operands)
    _, count, *sizes = images.shape
    outputs = images.reshape((rounds * count, *sizes)).apply(node.op, *others, **node.attrs)
    return outputs.reshape((rounds, *node.output.shape))


def _matmul(b: Builder, node: Node, operands: Sequence[Lifted], rounds: int) -> Term:
    """Rounds are more rows of the left matrix, or more columns of the right one; a batch only where
    both differ by round."""
    left, right = (Term(b, operand.value) for operand in operands)
    shape = node.output.shape
    if len(shape) == 2 and not operands[1].stacked:
        rows = left.reshape((rounds * shape[0], left.shape[-1]))
        return rows.apply("matmul", right).reshape((rounds, *shape))
    if len(shape) == 2 and not operands[0].stacked:
        inner, columns = right.shape[1:]
        wide = right.apply("transpose", perm=(1, 0, 2)).reshape((inner, rounds * columns))
        product = left.apply("matmul", wide).reshape((shape[0], rounds, columns))
        return product.apply("transpose", perm=(1, 0, 2))
    left, right = _all(b, operands, rounds)
    return _batch(left).apply("matmul", _batch(right)).reshape((rounds, *shape))


def _batch(term: Term) -> Term:
    """Rounds of matrices, or of batches of them, as one batch."""
    *lead, rows, columns = term.shape
    return term.reshape((prod(lead), rows, columns))


RULES: dict[str, Rule] = {
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "slice": _slice,
    "unslice": _slice,
    "gather": _gather,
    "matmul": _matmul,
    "concat": _along_axes,
    "softmax": _along_axes,
    "log_softmax": _along_axes,
    "logsumexp": _along_axes,
    "var": _along_axes,
    "cumsum": _along_axes,
    "layer_norm": _rows,
    "rms_norm": _rows,
    "conv": _images,
    "patches": _images,
    "unpatches": _images,
    "flip": _along_axes,
}
# The only operand that may differ by round.
ONLY_STACKED = {"gather": 1, "layer_norm": 0, "rms_norm": 0, "conv": 0}
