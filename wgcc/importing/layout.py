"""The order in which the axes of a file's tensor form a parameter; the parameter's use decides it.

PyTorch stores [outputs, inputs, kernel …], transposed convolutions [inputs, outputs, kernel …],
and tables as they are used. Files of wgcc, Flax and Keras store matrices, too, as they are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import permutations

from wgcc.importing.names import last_word, module_word
from wgcc.importing.transforms import (
    AS_IS,
    HWIO,
    TRANSPOSED,
    Origin,
    Shape,
    Transform,
    same_but_ones,
)
from wgcc.importing.uses import (
    CONVOLUTION,
    INPUT,
    KERNEL,
    LOOKUP,
    OUTPUT,
    PLAIN,
    PRODUCT,
    STACK,
    TRANSPOSED_CONVOLUTION,
    WEIGHTED_SUM,
    Use,
)

# The order of the axes that are not of size 1: the axis of the source that comes first, second, …
Order = tuple[int, ...]
# What each axis of the source means.
Roles = tuple[str, ...]

TORCH, OWN = "torch", "own"
# No parameter has more; trying 720 orders is fast.
_MOST_AXES = 6
_TRANSPOSED_CONVOLUTION = re.compile(r"(?i)transpose|deconv|convt|conv_t\b|upconv|up_conv")
AS_PYTORCH = "stored [outputs, inputs, …] as in PyTorch; its shape does not show it"
AS_PYTORCH_TRANSPOSED = "stored [inputs, outputs, …] as in PyTorch; its shape does not show it"
AS_USED = "stored as the model uses it; its shape does not show it"
CONVOLUTIONS = "of a convolution, not of a transposed convolution (ConvTranspose)"
BOTH_WAYS = "the model uses it both as it is and transposed"
ELEMENTWISE = "its shape does not show the order, and it is used element by element"


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """`choices` has one transform if it is decided; `assumed` says what may be wrong about it.

    `stored`: whether only PyTorch's layout fits (TORCH) or only the model's own (OWN).
    """

    choices: tuple[Transform, ...]
    assumed: str = ""
    reason: str = ""
    stored: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """How does `shape`, a tensor of the file named `source`, become `wanted`, used as `use`?

    `stored`: TORCH or OWN if the tensor that this is a part of shows it.
    """

    target: str
    source: str
    shape: Shape
    wanted: Shape
    use: Use
    stored: str = ""


class Layouts:
    """Answers questions about one file, using what its other tensors show."""

    def __init__(self, questions: Iterable[Question], origin: Origin) -> None:
        self._origin = origin
        # By rank, and by rank and the last word of the module.
        self._stored: dict[tuple[int, str], set[str]] = {}
        for question in questions:
            stored = question.stored or self.answer(question).stored
            for word in ("", module_word(question.source)) if stored else ():
                self._stored.setdefault((len(question.shape), word), set()).add(stored)

    def answer(self, question: Question) -> TensorLayout:
        orders, use = _orders(question), question.use
        own = [order for order in orders if list(order) == sorted(order)]
        as_keras = self._origin.keras or question.source in self._origin.inputs_first
        if as_keras and len(keras_orders := _as_keras(question, orders)) == 1:
            return _layout(question, keras_orders)
        if own and (self._origin.own or len(own[0]) < 2 or use.operation in (PLAIN, LOOKUP)):
            return _layout(question, own)
        if use.operation in (PLAIN, LOOKUP) or use.both_ways or STACK in use.axes:
            return _layout(question, orders, reason=BOTH_WAYS if use.both_ways else "")
        torch = _conventional(question, orders)
        if not torch and not own:
            return _unusual(question, orders)
        if own and own[0] in torch and len(torch) > 1:
            return _layout(question, own, AS_USED)
        if not torch or not own or torch == own:
            stored = "" if torch == own else TORCH if torch else OWN
            return _convolution(question, _layout(question, torch or own, stored=stored))
        return self._either(question, torch, own)

    def _either(self, question: Question, torch: list[Order], own: list[Order]) -> TensorLayout:
        """Both fit: other tensors of the file, or the name, may decide."""
        if question.stored:
            return _layout(question, torch if question.stored == TORCH else own)
        if question.use.operation == WEIGHTED_SUM:
            return _layout(question, [*torch, *own], reason=ELEMENTWISE)
        likely = TORCH if "weight" in last_word(question.source).lower() else OWN
        shown = self._layouts_of_others(question)
        if len(shown) == 2:
            reason = "other tensors of the file are stored in both ways"
            return _layout(question, [*torch, *own], reason=reason)
        stored = next(iter(shown), likely)
        is_transposed = question.use.operation == TRANSPOSED_CONVOLUTION
        as_pytorch = AS_PYTORCH_TRANSPOSED if is_transposed else AS_PYTORCH
        assumed = "" if shown == {likely} else as_pytorch if stored == TORCH else AS_USED
        if stored == OWN:
            return _layout(question, own, assumed)
        return _convolution(question, _layout(question, torch, assumed))

    def _layouts_of_others(self, question: Question) -> set[str]:
        """How other tensors of this rank are stored, those with a similar name first."""
        rank, word = len(question.shape), module_word(question.source)
        return self._stored.get((rank, word)) or self._stored.get((rank, ""), set())


def _orders(question: Question) -> list[Order]:
    """All orders of axes that give the wanted shape."""
    shape = question.shape
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    candidates = permutations(axes) if len(axes) <= _MOST_AXES else [tuple(axes)]
    return [o for o in candidates if same_but_ones(tuple(shape[a] for a in o), question.wanted)]


def _conventional(question: Question, orders: list[Order]) -> list[Order]:
    """Orders that map outputs to outputs and inputs to inputs; kernel axes may be inputs, too."""
    if question.use.operation == TRANSPOSED_CONVOLUTION:
        return _matching(question, orders, _torch(question, (INPUT, OUTPUT)), {})
    if question.use.operation == PRODUCT and _wanted_roles(question).count(OUTPUT) > 1:
        # Each input gives a patch of outputs: a transposed convolution.
        stored = _torch(question, (INPUT, OUTPUT))
        return _matching(question, orders, stored, {OUTPUT: {OUTPUT, KERNEL}})
    stored = _torch(question, (OUTPUT, INPUT))
    strict = _matching(question, orders, stored, {})
    return strict or _matching(question, orders, stored, {INPUT: {INPUT, KERNEL}})


def _torch(question: Question, first: tuple[str, str]) -> Roles:
    return (*first, *(KERNEL,) * (len(question.shape) - 2))


def _as_keras(question: Question, orders: list[Order]) -> list[Order]:
    """[kernel …, inputs, outputs], transposed convolutions [kernel …, outputs, inputs]."""
    if question.use.operation in (PLAIN, LOOKUP) or len(question.shape) < 2:
        return []
    is_transposed = question.use.operation == TRANSPOSED_CONVOLUTION
    ends = (OUTPUT, INPUT) if is_transposed else (INPUT, OUTPUT)
    stored = (*(KERNEL,) * (len(question.shape) - 2), *ends)
    strict = _matching(question, orders, stored, {})
    return strict or _matching(question, orders, stored, {INPUT: {INPUT, KERNEL}})


def _matching(
    question: Question, orders: list[Order], stored: Roles, allowed: dict[str, set[str]]
) -> list[Order]:
    """Orders that keep the kernel axes in order and give each axis a role it may have."""
    kernel = {axis for axis, role in enumerate(stored) if role == KERNEL}
    if question.use.operation == CONVOLUTION:
        allowed = {}
    pairs = _wanted_roles(question)
    return [
        order
        for order in orders
        if all(
            role is None or stored[axis] in allowed.get(role, {role})
            for axis, role in zip(order, pairs, strict=True)
        )
        and [axis for axis in order if axis in kernel] == sorted(kernel.intersection(order))
    ]


def _wanted_roles(question: Question) -> list[str | None]:
    roles = question.use.axes
    return [role for role, size in zip(roles, question.wanted, strict=True) if size != 1]


def _convolution(question: Question, layout: TensorLayout) -> TensorLayout:
    """If a transposed convolution fits as well, this is noted, or left undecided if likely."""
    use = question.use
    if use.operation != CONVOLUTION or use.adjoint or len(question.shape) < 3:
        return layout
    other = _transposed_convolution(question, _orders(question))
    if not other or layout.stored == OWN or all(size == 1 for size in question.shape[2:]):
        return layout
    if use.spread or _TRANSPOSED_CONVOLUTION.search(question.source):
        reason = "of a convolution, or of a transposed one, whose kernel is flipped"
        return TensorLayout((*layout.choices, *other), reason=reason)
    return TensorLayout(
        layout.choices, layout.assumed or CONVOLUTIONS, layout.reason, layout.stored
    )


def _transposed_convolution(question: Question, orders: list[Order]) -> tuple[Transform, ...]:
    """[inputs, outputs, kernel …]; the kernel is flipped unless the model reorders it."""
    each_alone = INPUT not in _wanted_roles(question)
    stored = _torch(question, (OUTPUT if each_alone else INPUT, OUTPUT))
    fitting_orders = _matching(question, orders, stored, {})
    flipped = question.use.direct
    return tuple(Transform(_axes(question, order), flipped=flipped) for order in fitting_orders)


def _unusual(question: Question, orders: list[Order]) -> TensorLayout:
    """The shape fits, but neither as PyTorch stores such a tensor nor as the model uses it."""
    ways = _transposed_convolution(question, orders)
    if question.use.operation != CONVOLUTION or not ways:
        return _layout(question, orders, assumed="stored in an order that PyTorch does not use")
    if question.use.direct and len(ways) == 1:
        return TensorLayout(
            ways, assumed="of a transposed convolution (ConvTranspose), to be flipped"
        )
    flipped = tuple(replace(way, flipped=not way.flipped) for way in ways)
    return TensorLayout((*ways, *flipped), reason="of a transposed convolution, flipped or not")


def _layout(
    question: Question, orders: list[Order], assumed: str = "", reason: str = "", stored: str = ""
) -> TensorLayout:
    choices = tuple(Transform(_axes(question, order)) for order in orders)
    if len(choices) == 1:
        return TensorLayout(choices, assumed, "", stored)
    return TensorLayout(choices, "", reason or "any of these orders would fit")


def _axes(question: Question, order: Order) -> Shape:
    """The order with the axes of size 1 added, where the usual orders have them."""
    shape = question.shape
    as_is = tuple(range(len(shape)))
    ones = tuple(axis for axis in as_is if shape[axis] == 1)
    for axes in (as_is, TRANSPOSED, HWIO):
        exact = Transform(axes).shape(shape) == question.wanted
        if exact and tuple(axis for axis in axes if axis not in ones) == order:
            return AS_IS.axes if axes == as_is else axes
    return AS_IS.axes if list(order) == sorted(order) else (*order, *ones)
