"""Text as windows of ids, of characters or tokens, for models with a `vocab`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from wgcc_runtime.arrays import CALLER_TYPES, Array
from wgcc_runtime.data.form import EntryForm, ModelForm
from wgcc_runtime.data.options import Options
from wgcc_runtime.data.preparation import Data
from wgcc_runtime.data.rows_left import check_rows, other_inputs
from wgcc_runtime.data.source import Source, quote

if TYPE_CHECKING:
    from wgcc_runtime.tokens.tokens import Tokens


def reads_text(form: ModelForm, entry: EntryForm) -> bool:
    """Whether the entry's rows are ids of characters, in one input or two of equal shape."""
    ports = [entry.inputs[name] for name in entry.rows]
    if not (form.vocab or form.tokens) or not 1 <= len(ports) <= 2:
        return False
    return all(not p.is_float and len(p.shape) == 2 and p.shape == ports[0].shape for p in ports)


def read_text(
    text: str, source: Source, form: ModelForm, entry: EntryForm, options: Options
) -> Data:
    others = other_inputs(entry, options.values, source)
    lines = re.sub(r"\r\n?", "\n", text)
    ids = _token_ids(lines, form.tokens) if form.tokens else _ids(lines, form, source, options)
    first, *second = entry.rows
    length = entry.inputs[first].row_size + len(second)
    if len(ids) < length:
        problem = "short-tokens" if form.tokens else "short-text"
        raise source.refuse(problem, count=len(ids), length=length)
    windows = _windows(ids, length)
    check_rows(source, entry, len(windows))
    arrays = {first: windows[:, :-1] if second else windows}
    if second:
        arrays[second[0]] = windows[:, 1:]
    preparation = {
        "version": 1,
        "inputs": {name: {"kind": "text"} for name in entry.rows},
        "target": second[0] if second else None,
        "missing": options.missing,
    }
    # As the model stores them: ids of less than 256 characters take a byte each.
    inputs: dict[str, Array] = {
        n: a.astype(CALLER_TYPES[entry.inputs[n].dtype]) for n, a in arrays.items()
    }
    return Data({**inputs, **others}, preparation, len(windows), entry.rows, source.notes)


def _token_ids(text: str, tokens: Callable[[], Tokens]) -> Array:
    # A text for training is a part of all texts: nothing marks its beginning.
    return np.array(tokens().encode(text, special=False), np.int32)


def _ids(text: str, form: ModelForm, source: Source, options: Options) -> Array:
    known = {letter: number for number, letter in enumerate(form.vocab)}
    unknown = [at for at, letter in enumerate(text) if letter not in known]
    if unknown and options.unknown != "drop":
        before = text[: unknown[0]].split("\n")
        place = len(before), len(before[-1]) + 1
        cell = quote(text[unknown[0]])
        raise source.refuse("unknown-character", *place, cell=cell, count=len(unknown))
    if unknown:
        source.note("letters-unknown", count=len(unknown))
    return np.array([known[letter] for letter in text if letter in known], np.int32)


def _windows(ids: Array, length: int) -> Array:
    """Each starts with the last id of the one before; the last one ends with the text."""
    last = len(ids) - length
    starts = list(range(0, last + 1, length - 1))
    if starts[-1] != last:
        starts.append(last)
    return np.stack([ids[start : start + length] for start in starts])
