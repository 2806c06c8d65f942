"""`wgcc build --data`: reads a file for the model that is built, as its page will hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wgcc.cli.data import DataOptions, say_reading
from wgcc.cli.printing import say

if TYPE_CHECKING:
    from wgcc.compiler import Compiled
    from wgcc.lazy_numpy import Array
    from wgcc_runtime.data.preparation import Data


ENTRY = "train"


def data_file(
    compiled: Compiled,
    options: Mapping[str, Any],
    known: dict[str, Any] | None,
    quiet: bool,
) -> bytes | None:
    """data.safetensors of the bundle; None if there is nothing to put into it.

    `known` is how the data was read that given weights were trained with.
    """
    from wgcc.bundle.content import data_bytes, described, labelled
    from wgcc_runtime.fit import kept_preparation

    path, title, labels = options["data"], options["title"], options["labels"]
    vocab = compiled.program.vocab
    form = described(compiled.planned.plan, None if isinstance(vocab, str) else vocab.text)
    if path is None and title is None and labels is None and known is None:
        return None
    arrays: Mapping[str, Array] = {}
    has_learned, own = options["weights"] is not None, known
    names = None if labels is None else [name.strip() for name in labels.split(",")]
    if names is not None:
        known = labelled(own, own["target"] if own else _target(form), names, form)
    if path is not None:
        reading = partial(_read, path, form, options["reading"], has_learned=has_learned)
        data = None if has_learned or not names else _renamed(reading(known=None), names, form)
        data = data or reading(known=known)
        if not quiet:
            _say_read(path, data, options["reading"])
        arrays, known = data.arrays, kept_preparation(known, data)
    return data_bytes(arrays, known, title)


def _renamed(data: Data, names: Sequence[str], form: Mapping[str, Any]) -> Data | None:
    """Data whose names of classes are sorted as the labels are, which name its classes anew."""
    from wgcc.bundle.content import labelled
    from wgcc_runtime.data.known_classes import is_alike
    from wgcc_runtime.data.preparation import class_names
    from wgcc_runtime.data.problems import listed

    own = class_names(data.preparation)
    if (
        own is None
        or data.preparation is None
        or any(
            is_alike(name, [*names[:number], *names[number + 1 :]])
            for number, name in enumerate(own)
        )
    ):
        return None
    preparation = labelled(data.preparation, data.preparation["target"], names, form)
    if own != [str(number) for number in range(len(own))]:
        new = listed(f"{old} is {name}" for old, name in zip(own, names, strict=False))
        data.notes.append(f"--labels names the classes of the data anew: {new}.")
    return replace(data, preparation=preparation)


def _read(
    path: Path,
    form: Mapping[str, Any],
    reading: DataOptions,
    known: dict[str, Any] | None,
    has_learned: bool,
) -> Data:
    from wgcc.errors import WgError
    from wgcc_runtime.data.known_classes import known_form

    if ENTRY not in form["entries"]:
        raise WgError(f"--data needs an entry `{ENTRY}`, which this model does not have")
    model = known_form(form, known, has_learned)
    return reading.read(path, model, preparation=None if reading.chooses else known)


def _say_read(path: Path, data: Data, reading: DataOptions) -> None:
    say_reading(path, data, reading)
    if data.preparation is None:
        say(f"{path}: {data.rows} rows")


def _target(form: Mapping[str, Any]) -> str | None:
    from wgcc_runtime.data.form import form_of

    found = form_of(form)
    return found.target(found.entries[ENTRY]) if ENTRY in found.entries else None
