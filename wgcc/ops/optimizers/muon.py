"""PyTorch's Muon: the momentum of a matrix, orthogonalised by a Newton-Schulz iteration.

Its update needs products, so it is a graph: see `TensorRule`. PyTorch iterates in bfloat16; here
it is f32.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from wgcc.ops.formula import Term
from wgcc.ops.optimizers.kind import Direction, OptimizerKind, TensorStep

# Small matrices of one shape are orthogonalised together, up to so many elements.
MOST_TOGETHER = 2**22


def rule(steps: Sequence[TensorStep]) -> list[Direction]:
    buffers = [_buffer(step) for step in steps]
    mixed = [_mix(step, buffer) for step, buffer in zip(steps, buffers, strict=True)]
    changes = _all_orthogonal(mixed, steps[0]) if steps else []
    return [
        Direction(_scale(step, change), {"momentum_buffer": buffer})
        for step, buffer, change in zip(steps, buffers, changes, strict=True)
    ]


def _buffer(inputs: TensorStep) -> Term:
    before = inputs.read("momentum_buffer", inputs.g.shape)
    rest: float = 1 - inputs.fixed["momentum"]
    return before + (inputs.g - before) * rest


def _mix(inputs: TensorStep, buffer: Term) -> Term:
    """A wide matrix: one with more rows than columns is transposed."""
    momentum, g = inputs.fixed["momentum"], inputs.g
    mixed = g + (buffer - g) * momentum if inputs.fixed["nesterov"] else buffer
    return _transpose(mixed) if _is_tall(g) else mixed


def _all_orthogonal(mixed: Sequence[Term], settings: TensorStep) -> list[Term]:
    orthogonal: dict[int, Term] = {}
    for members in _stacks(mixed):
        stack = _stack([mixed[i] for i in members])
        result = _orthogonal(stack, settings)
        for place, i in enumerate(members):
            orthogonal[i] = _part(result, place)
    return [orthogonal[i] for i in range(len(mixed))]


def _stacks(mixed: Sequence[Term]) -> list[list[int]]:
    """Positions of matrices of one shape, as many together as fit."""
    open_: dict[tuple[int, ...], list[int]] = {}
    done: list[list[int]] = []
    for i, term in enumerate(mixed):
        members = open_.get(term.shape)
        if members is None or (len(members) + 1) * term.shape[0] * term.shape[1] > MOST_TOGETHER:
            members = open_[term.shape] = []
            done.append(members)
        members.append(i)
    return done


def _stack(terms: Sequence[Term]) -> Term:
    first, *rest = (term.reshape((1, *term.shape)) for term in terms)
    return first.apply("concat", *rest, axis=0) if rest else first


def _part(stack: Term, place: int) -> Term:
    _, rows, columns = stack.shape
    sizes, starts = (1, rows, columns), (place, 0, 0)
    return stack.apply("slice", starts=starts, sizes=sizes, steps=(1, 1, 1)).reshape(sizes[1:])


def _orthogonal(x: Term, settings: TensorStep) -> Term:
    norm = x.square().sum((1, 2)).apply("sqrt")
    safe = norm.apply("maximum", norm.like(settings.fixed["eps"]))
    x = x / safe.spread((1, 2), x.shape)
    a, b, c = settings.fixed["ns_coefficients"]
    for _ in range(settings.fixed["ns_steps"]):
        gram = x.apply("matmul", x.apply("transpose", perm=(0, 2, 1)))
        x = x * a + (gram * b + gram.apply("matmul", gram) * c).apply("matmul", x)
    return x


def _is_tall(x: Term) -> bool:
    return x.shape[0] > x.shape[1]


def _transpose(x: Term) -> Term:
    return x.apply("transpose", perm=(1, 0))


def _scale(inputs: TensorStep, change: Term) -> Term:
    change = _transpose(change) if _is_tall(inputs.g) else change
    rate = inputs.lr * _ratio(inputs.fixed["adjust_lr_fn"], *inputs.g.shape)
    return change * rate.broadcast(change.shape)


def _ratio(adjusted: str, inputs: int, outputs: int) -> float:
    """PyTorch's, for a matrix that it stores the other way round: `x @ w` here, `x @ w.T` there."""
    if adjusted == "match_rms_adamw":
        return 0.2 * sqrt(max(inputs, outputs))
    return sqrt(max(1.0, outputs / inputs))


# PyTorch's defaults.
_DEFAULTS = {
    "lr": 1e-3,
    "weight_decay": 0.1,
    "momentum": 0.95,
    "nesterov": True,
    "ns_coefficients": (3.4445, -4.775, 2.0315),
    "eps": 1e-7,
    "ns_steps": 5,
    "adjust_lr_fn": "original",
}

OPTIMIZERS = (OptimizerKind("muon", _DEFAULTS, "decoupled", tensor_rule=rule, axes=2),)
