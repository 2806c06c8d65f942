"""A random model as data: lines that each make one value, and the `.wg` text they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod


@dataclass(frozen=True)
class Type:
    dtype: str
    shape: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]" if self.shape else self.dtype


@dataclass(frozen=True)
class Line:
    """`name = text`, where `{0}` stands for the first value it uses.

    `bound` is about how large its elements get.
    """

    name: str
    type: Type
    text: str
    uses: tuple[str, ...]
    bound: float

    def __str__(self) -> str:
        return f"{self.name} = {self.text.format(*self.uses)}"


@dataclass(frozen=True)
class Write:
    """`target := value`, where the target may contain `{0}` for the position of a window."""

    state: str
    target: str
    uses: tuple[str, ...]
    value: str

    def __str__(self) -> str:
        return f"{self.target.format(*self.uses)} := {self.value}"


@dataclass(frozen=True)
class Model:
    inputs: Mapping[str, Type] = field(default_factory=dict)
    params: Mapping[str, Type] = field(default_factory=dict)
    states: Mapping[str, Type] = field(default_factory=dict)
    layers: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[Line | Write, ...] = ()
    results: tuple[str, ...] = ()
    optimizer: str = ""
    seed: int = 0

    @property
    def lines(self) -> list[Line]:
        return [step for step in self.steps if isinstance(step, Line)]

    @property
    def types(self) -> dict[str, Type]:
        lines = {line.name: line.type for line in self.lines}
        return {**self.inputs, **self.params, **self.states, **lines}

    def reached(self) -> set[str]:
        """All names that a result or a write depends on."""
        wanted = {*self.results}
        for step in reversed(self.steps):
            if isinstance(step, Write):
                wanted |= {step.state, step.value, *step.uses}
            elif step.name in wanted:
                wanted |= {*step.uses, *(name for name in self.layers if f"{name}(" in step.text)}
        return wanted

    def trimmed(self) -> Model:
        """The model without lines that nothing depends on."""
        names = self.reached()
        steps = [s for s in self.steps if isinstance(s, Write) or s.name in names]
        return Model(
            *({k: v for k, v in part.items() if k in names}
              for part in (self.inputs, self.params, self.states, self.layers)),
            tuple(steps), self.results, self.optimizer, self.seed,
        )  # fmt: skip

    @property
    def floats(self) -> list[str]:
        return [name for name in self.results if self.types[name].dtype == "f32"]

    def differentiable(self) -> list[str]:
        """Inputs and parameters that a float result depends on through floats alone."""
        wanted = set(self.floats)
        for line in reversed(self.lines):
            if line.name in wanted and line.type.dtype in ("f32", "f16"):
                wanted |= {name for name in line.uses if self.types[name].dtype == "f32"}
        return [name for name in [*self.inputs, *self.params] if name in wanted]

    def text(self) -> str:
        return "\n".join([*_members(self), *_body(self), *_entries(self), "}", ""])


def _members(model: Model) -> list[str]:
    return [
        "model Random {",
        f"  seed = {model.seed}",
        *(f"  {name}: {layer}" for name, layer in model.layers.items()),
        *(f"  param {name}: {type_} ~ normal(0.0, 0.5)" for name, type_ in model.params.items()),
        *(f"  state {name}: {type_} = {_first(type_)}" for name, type_ in model.states.items()),
        *([f"  optimizer opt: {model.optimizer}"] if model.optimizer else []),
    ]


def _first(type_: Type) -> str:
    return "0.25" if type_.dtype == "f32" else "1"


def _arguments(model: Model) -> str:
    return ", ".join(f"{name}: {type_}" for name, type_ in model.inputs.items())


def _body(model: Model) -> list[str]:
    types = [str(model.types[name]) for name in model.results]
    result = types[0] if len(types) == 1 else f"({', '.join(types)})"
    return [
        f"  fn body({_arguments(model)}) -> {result} {{",
        *(f"    {step}" for step in model.steps),
        f"    return {', '.join(model.results)}",
        "  }",
    ]


def _entries(model: Model) -> list[str]:
    call = f"body({', '.join(model.inputs)})"
    names = [f"r{i}" for i in range(len(model.results))]
    types = [model.types[name] for name in model.results]
    take = f"{', '.join(names)} = {call}"
    lines = _entry(model, "forward", names, types, [take], names)
    if model.states:
        states = [f"{name}_now" for name in model.states]
        lines += _entry(model, "look", states, [*model.states.values()], [], [*model.states], "")
    if not model.floats:
        return lines
    terms = [_term(name, type_) for name, type_ in zip(names, types, strict=True)]
    loss = f"loss = {' + '.join(filter(None, terms))}"
    wrt = model.differentiable()
    if wrt:
        found = ["loss", *(f"d_{name}" for name in wrt)]
        slopes = ["loss", *(f"grad(loss, {name})" for name in wrt)]
        kinds = [Type("f32"), *(model.types[name] for name in wrt)]
        lines += _entry(model, "slopes", found, kinds, [take, loss], slopes)
    if model.optimizer:
        body = [take, loss, "minimize loss with opt"]
        kinds, found = [Type("f32"), Type("f32")], ["loss", "norm"]
        lines += _entry(model, "train", found, kinds, body, ["loss", "opt.grad_norm"])
    return lines


def _entry(
    model: Model, name: str, results: Sequence[str], types: Sequence[Type],
    body: Sequence[str], values: Sequence[str], arguments: str | None = None,
) -> list[str]:  # fmt: skip
    shown = ", ".join(f"{r}: {t}" for r, t in zip(results, types, strict=True))
    given = _arguments(model) if arguments is None else arguments
    return [
        f"  entry {name}({given}) -> ({shown}) {{",
        *(f"    {line}" for line in body),
        f"    return {', '.join(values)}",
        "  }",
    ]


def _term(name: str, type_: Type) -> str:
    """A term of the loss whose gradient differs from element to element."""
    if type_.dtype != "f32":
        return ""
    if not type_.shape:
        return f"sin({name})"
    return f"mean(sin({name} + 0.7 * f32(arange({type_.shape[-1]}))))"
