"""The output that a loss is of: where its classes are, and which function it ends in.

The loss of a model that ends in a softmax or a sigmoid is computed of what that is of: the
logarithm of a probability that was rounded to 0 has no gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wgcc.errors import WgError
from wgcc.from_onnx.context import leaf
from wgcc.from_onnx.training_options import Training
from wgcc.from_onnx.values import Computed, Leaf, Shape, Statement, Traced
from wgcc.syntax import ast
from wgcc.syntax.templates import call, rewrite
from wgcc.syntax.tree_text import walk

ENDINGS = ("softmax", "sigmoid")
# So many statements between the last product and an output are followed.
MOST_STEPS = 200


@dataclass(frozen=True, slots=True)
class Trained:
    """`traced` gives what the loss is of; `function` makes the model's output of that.

    `axis` has the classes.
    """

    traced: Traced
    place: int
    axis: int
    loss: str
    function: str = ""

    @property
    def output(self) -> Computed:
        output = list(self.traced.outputs.values())[self.place]
        assert isinstance(output, Computed)
        return output

    def prediction(self, tree: ast.Expr) -> ast.Expr:
        """The model's own output, computed from the tensor that the loss reads."""
        is_last = self.axis == len(self.output.shape) - 1
        axis = None if is_last or self.function != "softmax" else self.axis
        return call(self.function, tree, axis=axis) if self.function else tree


@dataclass(frozen=True, slots=True)
class Ending:
    """A function, the value that it makes, and the moves of elements that follow."""

    function: str
    statement: Statement | None
    moves: tuple[Statement, ...]
    axis: int | None


def trained_output(traced: Traced, training: Training) -> Trained:
    place, output = _chosen(traced, training)
    ending = _ending(traced, output)
    axis, name = len(output.shape) - 1, list(traced.outputs)[place]
    if training.loss == "cross_entropy":
        axis = _class_axis(ending, output, name)
        wanted = "softmax"
    else:
        wanted = "sigmoid" if training.loss in ("bce", "bce_logits") else ""
    if ending.statement is None or ending.function != wanted:
        return Trained(traced, place, axis, training.loss)
    before = _before(ending, ending.statement)
    outputs = {
        **traced.outputs,
        name: before[-1].outputs[0] if before else _inner(ending.statement),
    }
    without = replace(traced, outputs=outputs, statements=[*traced.statements, *before])
    loss = "bce_logits" if wanted == "sigmoid" else training.loss
    return Trained(without, place, axis, loss, wanted)


def _chosen(traced: Traced, training: Training) -> tuple[int, Computed]:
    """The output that is named, or the first of floats."""
    for place, (key, value) in enumerate(traced.outputs.items()):
        if training.output not in (None, key) or not isinstance(value, Computed):
            continue
        if value.dtype == "f32" and value.shape:
            return place, value
    names = ", ".join(traced.outputs)
    wanted = (
        f"no output `{training.output}` of floats" if training.output else "no output of floats"
    )
    raise WgError(f"--train: there is {wanted}: the model has {names}")


def _class_axis(ending: Ending, output: Computed, name: str) -> int:
    """Cross entropy needs classes along an axis that is not that of the examples."""
    lead = f"--loss cross_entropy: `{name}`"
    if ending.function == "sigmoid":
        raise WgError(f"{lead} ends in a sigmoid, and has no classes of which one is right: give "
                      "--loss bce")  # fmt: skip
    rank = len(output.shape)
    if ending.axis is None and (ending.function or rank > 2):
        raise WgError(f"{lead} is {list(output.shape)}, and it is not known which of its axes has "
                      "the classes: give another --loss")  # fmt: skip
    if ending.axis == 0 and rank > 1:
        raise WgError(f"{lead} {list(output.shape)} has its classes along axis 0, where examples "
                      "should be: give another --loss")  # fmt: skip
    return rank - 1 if ending.axis is None else ending.axis


def _ending(traced: Traced, output: Computed) -> Ending:
    made = {value: item for item in traced.statements for value in item.outputs}
    moves: list[Statement] = []
    statement = made.get(output)
    while statement is not None and _is_move(statement):
        moves.insert(0, statement)
        statement = made.get(_inner(statement))
    if statement is None or not _is_ending(statement):
        return Ending("", None, (), _axis_of_product(made, output))
    axis: int | None = None
    if statement.function == "softmax":
        order = statement.outputs[0].order
        axis = _after(moves, order[_option(statement, "axis", -1)])
    return Ending(statement.function, statement, tuple(moves), axis)


def _is_ending(item: Statement) -> bool:
    inner, outer = item.operand, item.outputs[0]
    if item.function not in ENDINGS or inner is None:
        return False
    return (inner.shape, inner.order) == (outer.shape, outer.order)


def _option(item: Statement, name: str, default: int) -> int:
    assert isinstance(item.tree, ast.Call)
    for given in item.tree.arguments:
        if given.name is not None and given.name.text == name and isinstance(given.value, ast.Int):
            return given.value.value
    return default


def _is_move(item: Statement) -> bool:
    is_view = item.function in ("rearrange", "reshape") and item.operand is not None
    return is_view or item.alias_of is not None


def _inner(item: Statement) -> Computed:
    """The operand of a move or a function."""
    operand = item.alias_of or item.operand
    assert operand is not None
    return operand


def _before(ending: Ending, last: Statement) -> list[Statement]:
    """The same moves, applied to the operand of the function."""
    value, statements = _inner(last), []
    for move in ending.moves:
        after = replace(move.outputs[0])
        statements.append(_move(move, after, value))
        value = after
    return statements


def _move(move: Statement, after: Computed, of: Computed) -> Statement:
    inner = _inner(move)

    def change(node: ast.Syntax) -> ast.Syntax | None:
        return leaf(of) if isinstance(node, Leaf) and node.part is inner else None

    tree: Any = rewrite(move.tree, change)
    return Statement((after,), tree, move.scope, move.node)


def _axis_of_product(made: Mapping[Computed, Statement], output: Computed) -> int | None:
    """The axis of the outputs of the last product: the second of convolutions, else the last."""
    value, moves = output, list[Statement]()
    for _ in range(MOST_STEPS):
        statement = made.get(value)
        if statement is None or _has_features_last(statement):
            break
        if _is_convolution(statement):
            return _after(moves, 1)
        parts = [part for part in statement.parts if isinstance(part, Computed)]
        same = [part for part in parts if len(part.shape) == len(value.shape)]
        if not _is_move(statement) and not same:
            break
        moves.insert(0, statement)
        value = _inner(statement) if _is_move(statement) else same[0]
    return _after(moves, len(value.shape) - 1)


def _has_features_last(item: Statement) -> bool:
    """Products with matrices, attention, loops, and layers other than norms and convolutions."""
    is_layer = item.layer is not None and not (_is_convolution(item) or "Norm" in item.layer.kind)
    is_other = item.function in ("attention", "einsum") or item.body is not None
    return is_layer or is_other or has_matrix_product(item)


def has_matrix_product(item: Statement) -> bool:
    return any(isinstance(node, ast.Binary) and node.op == "@" for node in walk(item.tree))


def _is_convolution(item: Statement) -> bool:
    is_layer = item.layer is not None and item.layer.kind.startswith("Conv")
    return is_layer or any(is_call(node, "conv") for node in walk(item.tree))


def is_call(node: ast.Syntax, start: str) -> bool:
    """Whether it calls a function whose name begins like this."""
    head = node.function if isinstance(node, ast.Call) else None
    return isinstance(head, ast.Name) and head.text.startswith(start)


def _after(moves: Sequence[Statement], axis: int) -> int | None:
    """The place of an axis after some statements; None if it is not one axis any more."""
    place: int | None = axis
    for item in moves:
        if place is None or not _is_move(item):
            continue
        before, after = _inner(item), item.outputs[0]
        if item.alias_of is not None:
            place = after.order[before.order.index(place)]
        elif item.reshapes is not None:
            place = _axis_after_reshape(place, before.shape, after.shape)
    return place


def _axis_after_reshape(axis: int, before: Shape, after: Shape) -> int | None:
    """Axes of 1 may come and go; others on one side of this axis may be joined or split."""
    long = [[place for place, size in enumerate(shape) if size > 1] for shape in (before, after)]
    sizes = [[shape[place] for place in places] for shape, places in
             zip((before, after), long, strict=True)]  # fmt: skip
    if axis not in long[0]:
        return None
    first = long[0].index(axis)
    last = len(long[0]) - first
    if sizes[0][: first + 1] == sizes[1][: first + 1]:
        return long[1][first]
    return long[1][-last] if sizes[0][-last:] == sizes[1][-last:] else None
