"""Moving averages in a checkpoint, taken as its parameters: `weights="ema"` of `load`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wgcc_runtime.arrays import Array
from wgcc_runtime.errors import WgccError

EMA = "ema"


def names_averages(weights: Any) -> bool:
    """Whether it is no file of weights, but a name of averages: `ema` or `NAME.ema`."""
    if not isinstance(weights, str) or "/" in weights:
        return False
    return weights.rpartition(".")[2] == EMA and not Path(weights).exists()


def with_averages(arrays: Mapping[str, Array], weights: str, path: Path | str) -> dict[str, Array]:
    """`arrays`, but with averages where parameters have one.

    `weights` is `ema`, or `NAME.ema` for the averages of the optimizer of that name.
    """
    optimizer, _, word = weights.rpartition(".") if isinstance(weights, str) else ("", "", "")
    if word != EMA:
        text = f'weights={weights!r}: there are "ema" and "NAME.ema", of the optimizer NAME'
        raise WgccError("name", text, str(weights))
    found: dict[str, Array] = {}
    for name, array in arrays.items():
        prefix, owner, what, parameter = [*name.split("/", 3), *[""] * 4][:4]
        if prefix != "opt" or what != EMA or (optimizer and owner != optimizer):
            continue
        if parameter in found:
            text = f"{path} has several averages of `{parameter}`"
            raise WgccError("name", f'{text}; choose one: weights="{owner}.ema"', parameter)
        found[parameter] = array
    if not found:
        whose = f" of `{optimizer}`" if optimizer else ""
        text = f"{path} has no averages{whose}: its optimizer needs the setting `ema`, and `save` "
        raise WgccError("weights", f"{text}must not leave the optimizer out", str(path))
    return {**arrays, **found}
