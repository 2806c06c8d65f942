"""`wgcc build --data`: reads a file for the model that is built, as its page will hold it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wgcc.cli.data import DataOptions, say_reading
from wgcc.cli.printing import say

if TYPE_CHECKING:
    from wgcc.compiler import Compiled
    from wgcc.lazy_numpy import Array

ENTRY = "train"


def data_file(compiled: Compiled, options: Mapping[str, Any], quiet: bool) -> bytes | None:
    """data.safetensors of the bundle; None if there is nothing to put into it."""
    from wgcc.bundle.data_file import data_bytes, described, labelled
    from wgcc_runtime.fit import kept_preparation

    path, title, labels = options["data"], options["title"], options["labels"]
    vocab, known = compiled.program.vocab, _preparation(options["weights"])
    form = described(compiled.planned.plan, None if isinstance(vocab, str) else vocab.text)
    if path is None and title is None and labels is None and known is None:
        return None
    arrays: Mapping[str, Array] = {}
    if labels is not None:
        target = known["target"] if known else _target(form)
        known = labelled(known, target, [name.strip() for name in labels.split(",")], form)
    if path is not None:
        has_learned = options["weights"] is not None
        data = _read(path, form, options["reading"], known, has_learned, quiet)
        arrays, known = data.arrays, kept_preparation(known, data)
    return data_bytes(arrays, known, title)


def _preparation(weights: Path | None) -> dict[str, Any] | None:
    """How the data was read that given weights were trained with."""
    if weights is None:
        return None
    from wgcc.errors import WgError
    from wgcc_runtime.errors import WgccError
    from wgcc_runtime.weights import load_weights

    try:
        found: dict[str, Any] | None = load_weights(weights)[1].get("preparation")
    except WgccError as error:
        raise WgError(error.message) from None
    return found


def _read(
    path: Path,
    form: Mapping[str, Any],
    reading: DataOptions,
    known: dict[str, Any] | None,
    has_learned: bool,
    quiet: bool,
) -> Any:
    from wgcc.errors import WgError
    from wgcc_runtime.data.known_classes import known_form

    if ENTRY not in form["entries"]:
        raise WgError(f"--data needs an entry `{ENTRY}`, which this model does not have")
    model = known_form(form, known, has_learned)
    data = reading.read(path, model, preparation=None if reading.chooses else known)
    if not quiet:
        say_reading(path, data, reading)
        if data.preparation is None:
            say(f"{path}: {data.rows} rows")
    return data


def _target(form: Mapping[str, Any]) -> str | None:
    from wgcc_runtime.data.form import form_of

    found = form_of(form)
    return found.target(found.entries[ENTRY]) if ENTRY in found.entries else None
