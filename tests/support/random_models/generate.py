"""One valid random model per seed."""

from __future__ import annotations

from random_models import elementwise, images, moves, networks, shapes
from random_models.builder import Builder
from random_models.spec import Line, Model

MAKERS = [
    (elementwise.unary, 10), (elementwise.binary, 12), (elementwise.where, 2),
    (elementwise.logic, 1), (elementwise.integers, 1), (elementwise.casts, 2),
    (elementwise.chance, 1), (elementwise.stop, 1), (elementwise.loop, 1),
    (shapes.reshape, 2), (shapes.transpose, 2), (shapes.rearrange, 2), (shapes.cut, 4),
    (shapes.concat, 2), (shapes.whole_views, 2), (shapes.whole_reduce, 2), (shapes.lookup, 2),
    (shapes.one_hot, 1), (shapes.window, 2),
    (shapes.remember, 2), (shapes.reduce, 7), (shapes.along, 4), (shapes.place_of, 1),
    (networks.matmul, 7), (networks.einsum, 2), (networks.layers, 3), (networks.convolve, 1),
    (networks.attention, 1), (networks.scan, 1), (networks.loss, 2),
    (moves.move, 2), (moves.grow, 2), (moves.order, 1), (moves.look_up, 2), (moves.add_up, 1),
    (images.resample, 1), (images.transpose, 1), (images.convolve, 1), (images.pool, 1),
    (images.unfold, 1), (images.sample, 1),
]  # fmt: skip
# The fraction of operands that are computed from integers and bools.
WHOLE = 0.1
OPTIMIZERS = [
    "sgd {{ lr = {lr}{more} }}", "sgd {{ lr = {lr}; momentum = 0.9{more} }}",
    "sgd {{ lr = {lr}; momentum = 0.8; nesterov = true; weight_decay = 0.01{more} }}",
    "adam {{ lr = {lr}; eps = 1e-3{more} }}",
    "adam {{ lr = {lr} / (1.0 + step); eps = 1e-3{more} }}",
    "adamw {{ lr = {lr}; eps = 1e-3; weight_decay = 0.1; betas = (0.8, 0.95){more} }}",
    "adamw {{ lr = {lr}; eps = 1e-3; group if axes < 2 {{ lr_scale = 0.5 }}{more} }}",
    "rmsprop {{ lr = {lr}; eps = 1e-2; momentum = 0.5{more} }}",
    "adagrad {{ lr = {lr}; eps = 1e-2; initial_accumulator_value = 0.1{more} }}",
    "radam {{ lr = {lr}; eps = 1e-2; weight_decay = 0.1{more} }}",
    "adafactor {{ lr = {lr}; eps = (0.1, 1e-3){more} }}",
]  # fmt: skip
MORE = [
    "", "", "", "; clip_norm = 0.5", "; clip_value = 0.02", "; accumulate = 2", "; ema = 0.9",
    "; clip_param_norm = 0.2", "; maximize = true",
]  # fmt: skip


def generate(seed: int, whole: float = WHOLE) -> Model:
    """The model of a seed, always the same."""
    b = Builder(seed, whole)
    for _ in range(b.whole(1, 14)):
        maker = b.weighted(MAKERS)
        maker(b)
    if not b.types:
        elementwise.unary(b)
    model = b.model(_results(b), "")
    wants_training = b.chance(0.6) and model.floats
    if wants_training and _trained(model):
        text = b.choice(OPTIMIZERS).format(lr=b.choice(["0.1", "0.01"]), more=b.choice(MORE))
        model = b.model(model.results, text)
    return model


def _trained(model: Model) -> bool:
    reached = {*model.differentiable()}
    return bool(reached & {*model.params})


def _results(b: Builder) -> list[str]:
    """Values that nothing else uses, and sometimes one that is used: it must be stored."""
    lines = [step.name for step in b.steps if isinstance(step, Line)]
    if not lines:
        return [next(iter(b.types))]
    found = list(b.unused)[-3:]
    if b.chance(0.3):
        found.append(b.choice(lines))
    return list(dict.fromkeys(found))
