"""Makes a failing model small while it keeps failing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from random_models.spec import Line, Model, Write

Fails = Callable[[Model], bool]


def shrink(model: Model, fails: Fails, seconds: float = 60.0) -> Model:
    """The smallest model found in this time for which `fails` is still true."""
    until = time.monotonic() + seconds
    improved = True
    while improved and time.monotonic() < until:
        improved = False
        for smaller in _smaller(model):
            if time.monotonic() > until:
                break
            if _weight(smaller) < _weight(model) and fails(smaller):
                model, improved = smaller, True
                break
    return model


def _weight(model: Model) -> tuple[int, ...]:
    parts = (model.inputs, model.params, model.states, model.layers)
    length = sum(len(str(step)) for step in model.steps)
    return (
        len(model.steps) + len(model.results), sum(map(len, parts)),
        len(model.optimizer), sum(type_.size for type_ in model.types.values()),
        len(model.params) + 2 * len(model.states), length,
    )  # fmt: skip


def _smaller(model: Model) -> Iterator[Model]:
    """Every model that is one change simpler."""
    for name in model.results:
        if len(model.results) > 1:
            rest = tuple(result for result in model.results if result != name)
            yield replace(model, results=rest).trimmed()
    for line in reversed(model.lines):
        yield _without(model, line)
        yield from _bypassed(model, line)
    for step in model.steps:
        if isinstance(step, Write):
            steps = tuple(other for other in model.steps if other is not step)
            yield replace(model, steps=steps).trimmed()
    if model.optimizer:
        yield replace(model, optimizer="")
        yield replace(model, optimizer="sgd { lr = 0.1 }")
    for kind in ("params", "states"):
        for name, type_ in getattr(model, kind).items():
            rest = {k: v for k, v in getattr(model, kind).items() if k != name}
            changes = {kind: rest, "inputs": {**model.inputs, name: type_}}
            if not any(isinstance(s, Write) and s.state == name for s in model.steps):
                yield replace(model, **changes).trimmed()


def _without(model: Model, line: Line) -> Model:
    """The line's value becomes an input."""
    steps = tuple(step for step in model.steps if step is not line)
    inputs = {**model.inputs, line.name: line.type}
    return replace(model, steps=steps, inputs=inputs).trimmed()


def _bypassed(model: Model, line: Line) -> Iterator[Model]:
    """An earlier value of the same type replaces the line's value."""
    types = model.types
    for other in line.uses:
        if types[other] == line.type:
            yield _renamed(model, line, other)


def _renamed(model: Model, line: Line, other: str) -> Model:
    def new(name: str) -> str:
        return other if name == line.name else name

    steps: list[Line | Write] = []
    for step in model.steps:
        if step is line:
            continue
        uses = tuple(map(new, step.uses))
        if isinstance(step, Line):
            steps.append(replace(step, uses=uses))
        else:
            steps.append(replace(step, uses=uses, value=new(step.value)))
    results = tuple(dict.fromkeys(map(new, model.results)))
    return replace(model, steps=tuple(steps), results=results).trimmed()
