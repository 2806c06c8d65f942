"""Whether there are enough rows, and numbers for the inputs that are no rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wgcc_runtime.arrays import Array
from wgcc_runtime.data.form import EntryForm
from wgcc_runtime.data.problems import quantity
from wgcc_runtime.data.source import Source


def check_rows(
    source: Source,
    entry: EntryForm,
    rows: int,
    dropped: Sequence[Mapping[str, Any]] = (),
    may_repeat: bool = True,
) -> None:
    """`may_repeat`: whether `fit` repeats rows where there are fewer than a batch."""
    if not rows:
        reasons = [
            f"{quantity(group['count'], 'has', 'have')} {group['reason']}" for group in dropped
        ]
        raise source.refuse("no-row-left", reasons=reasons) if reasons else source.refuse("no-rows")
    if rows >= entry.batch or entry.any_rows:
        return
    if entry.training and may_repeat:
        source.note("rows-repeated", count=rows, batch=entry.batch)
        return
    remedy = {"dim": entry.dim} if entry.dim else {"fixed": True}
    raise source.refuse("few-rows", count=rows, batch=entry.batch, **remedy)


def other_inputs(entry: EntryForm, values: Mapping[str, Any], source: Source) -> dict[str, Array]:
    """Arrays for the inputs that a table has no columns for."""
    arrays: dict[str, Array] = {}
    for name in values:
        if name not in entry.inputs:
            raise source.refuse("no-input", entry=entry.name, input=name)
    for name, port in entry.inputs.items():
        if name in values:
            arrays[name] = np.asarray(values[name], np.float32 if port.is_float else np.int32)
        elif name not in entry.rows:
            what = "a single number" if not port.shape else str(port)
            raise source.refuse("no-value", input=name, type=what)
    return arrays
