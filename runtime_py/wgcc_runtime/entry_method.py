"""An entry as a method of its model, with a name, a signature and a documentation of its own."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from keyword import iskeyword
from typing import Any

from wgcc_runtime.arrays import Array
from wgcc_runtime.errors import WgccError, without_own_frames
from wgcc_runtime.plan import Entry, Tensor


class EntryMethod:
    # `model.predict`: takes inputs by name, or in the order of the entry.

    def __init__(self, entry: Entry, call: Callable[..., dict[str, Array]]) -> None:
        self._entry, self._call = entry, call
        self.__name__ = self.__qualname__ = entry.name

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return entry_doc(self._entry)

    @property
    def __signature__(self) -> Signature:
        """Inputs are arguments, unless one of them has the name of a keyword: `class`."""
        inputs = self._entry.inputs
        if any(map(iskeyword, inputs)):
            arguments = [Parameter("inputs", Parameter.VAR_KEYWORD)]
        else:
            either = Parameter.POSITIONAL_OR_KEYWORD
            arguments = [Parameter(name, either, annotation=str(t)) for name, t in inputs.items()]
        return Signature(arguments, return_annotation=dict[str, Array])

    def __call__(self, /, *arrays: Any, **inputs: Any) -> dict[str, Array]:
        if arrays:
            self._add_names(arrays, inputs)
        try:
            return self._call(self._entry.name, **inputs)
        except WgccError as error:
            raise without_own_frames(error) from error.__cause__

    def _add_names(self, arrays: tuple[Any, ...], inputs: dict[str, Any]) -> None:
        names = list(self._entry.inputs)
        if len(arrays) > len(names):
            takes = ", ".join(names) or "none"
            text = f"`{self._entry.name}` was given {len(arrays)} inputs; it takes {takes}"
            raise WgccError("name", text, self._entry.name)
        for name, array in zip(names, arrays, strict=False):
            if name in inputs:
                text = f"`{self._entry.name}` was given the input `{name}` twice"
                raise WgccError("name", text, name)
            inputs[name] = array

    def __repr__(self) -> str:
        return f"<{signature_text(self._entry)}>"


def entry_doc(entry: Entry) -> str:
    training = "Makes one training step." if entry.training else ""
    parts = [entry.doc, training, signature_text(entry)]
    return "\n\n".join(part for part in parts if part)


def signature_text(entry: Entry) -> str:
    """`predict(x: f32[B=100, 1]) -> (y: f32[B=100, 1])`"""
    takes = ", ".join(f"{name}: {named_shape(t, entry)}" for name, t in entry.inputs.items())
    gives = ", ".join(f"{name}: {named_shape(t, entry)}" for name, t in entry.outputs.items())
    return f"{entry.name}({takes}) -> ({gives})"


def named_shape(tensor: Tensor, entry: Entry) -> str:
    """A tensor's type; its rows have the name that they have in the source."""
    rows = entry.rows
    if not (rows and rows.dim and tensor.shape and tensor.shape[0] == rows.count):
        return str(tensor)
    rest = "".join(f", {size}" for size in tensor.shape[1:])
    return f"{tensor.dtype}[{rows.dim}={rows.count}{rest}]"
