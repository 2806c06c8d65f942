"""The form of a model, as reading data needs it: the inputs and outputs of its entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from wgcc_runtime.errors import WgccError, did_you_mean
from wgcc_runtime.plan import FLOATS, Entry, Plan, Range

if TYPE_CHECKING:
    from wgcc_runtime.tokens.tokens import Tokens


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output. `allowed`: the integers that an input may hold, if they are known."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    allowed: Range | None = None

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self.shape[1:]

    @property
    def row_size(self) -> int:
        return prod(self.row_shape)

    @property
    def takes_classes(self) -> bool:
        return not self.is_float and self.row_size == 1

    @property
    def class_count(self) -> int | None:
        """How many classes it distinguishes, if it counts them from 0."""
        return self.allowed.high + 1 if self.allowed and self.allowed.low == 0 else None

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]" if self.shape else self.dtype


@dataclass(frozen=True, slots=True)
class EntryForm:
    """`rows` are the inputs with one row per example, `batch` their number of rows."""

    name: str
    training: bool
    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]
    rows: tuple[str, ...]
    batch: int
    dim: str
    any_rows: bool


@dataclass(frozen=True, slots=True)
class ModelForm:
    """`tokens` gives the encoder of a model whose vocabulary is a file of tokens.

    `classes` are the names of classes that the model knows, by input and id.
    """

    vocab: str
    entries: Mapping[str, EntryForm]
    tokens: Callable[[], Tokens] | None = None
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def entry(self, name: str) -> EntryForm:
        if name not in self.entries:
            near = did_you_mean(name, self.entries)
            raise WgccError("name", f"the model has no entry `{name}`{near}", name)
        return self.entries[name]

    def target(self, entry: EntryForm) -> str | None:
        """The input that the model learns to predict: the one that predicting entries lack."""
        rows = set(entry.rows)
        if not entry.training:
            training = [e for e in self.entries.values() if e.training and rows == set(e.rows)]
            return self.target(training[0]) if training else None
        known = [rows & set(e.rows) for e in self.entries.values() if not e.training]
        predicting = [inputs for inputs in known if inputs and inputs != rows]
        if not predicting:
            return entry.rows[-1] if len(entry.rows) > 1 else None
        wanted = [name for name in entry.rows if all(name not in inputs for inputs in predicting)]
        return wanted[0] if len(wanted) == 1 else None


def form_of(model: Any) -> ModelForm:
    """The form of a model, of its plan, or of a description as in `tests/data_cases/models`."""
    if isinstance(model, ModelForm):
        return model
    if isinstance(model, Mapping):
        entries = {name: _form_of_spec(name, spec) for name, spec in model["entries"].items()}
        classes = model.get("classes", {})
        return ModelForm(model.get("vocab", ""), entries, model.get("tokens"), classes)
    plan: Plan = model if isinstance(model, Plan) else model.plan
    entries = {name: _form_of_entry(entry) for name, entry in plan.entries.items()}
    return ModelForm(plan.vocab, entries, plan.tokens.open if plan.tokens else None)


def _form_of_entry(entry: Entry) -> EntryForm:
    inputs = {
        name: Port(name, tensor.dtype, tensor.shape, entry.ranges.get(name))
        for name, tensor in entry.inputs.items()
    }
    outputs = {name: Port(name, t.dtype, t.shape) for name, t in entry.outputs.items()}
    rows = entry.rows
    if rows is None:
        # Bundles of earlier versions do not say it: inputs with the leading axis of the first.
        heads = {name: port.shape[0] for name, port in inputs.items() if port.shape}
        names = tuple(name for name in heads if heads[name] == next(iter(heads.values())))
        return _form(entry.name, entry.training, inputs, outputs, names, "", False)
    any_rows = bool(rows.outputs)
    return _form(entry.name, entry.training, inputs, outputs, rows.inputs, rows.dim, any_rows)


def _form_of_spec(name: str, spec: Mapping[str, Any]) -> EntryForm:
    inputs = {key: _port(key, port) for key, port in spec["inputs"].items()}
    outputs = {key: _port(key, port) for key, port in spec["outputs"].items()}
    rows = spec["rows"]
    return _form(
        name,
        spec["training"],
        inputs,
        outputs,
        tuple(rows["inputs"]),
        rows["dim"],
        bool(rows["outputs"]),
    )


def _port(name: str, spec: Mapping[str, Any]) -> Port:
    limits = spec.get("range")
    allowed = Range(limits["low"], limits["high"], limits.get("ignore")) if limits else None
    return Port(name, spec["dtype"], tuple(spec["shape"]), allowed)


def _form(
    name: str,
    training: bool,
    inputs: Mapping[str, Port],
    outputs: Mapping[str, Port],
    rows: tuple[str, ...],
    dim: str,
    any_rows: bool,
) -> EntryForm:
    bools = {
        key: Port(key, port.dtype, port.shape, Range(0, 1, None))
        for key, port in inputs.items()
        if port.dtype == "bool"
    }
    # A plan names the rows in the order of the entry's inputs.
    batch = inputs[rows[0]].shape[0] if rows else 1
    return EntryForm(name, training, {**inputs, **bools}, outputs, rows, batch, dim, any_rows)
