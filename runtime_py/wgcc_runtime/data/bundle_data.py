"""The data that a bundle was built with: prepared arrays, and their preparation."""

from __future__ import annotations

from wgcc_runtime.arrays import Array
from wgcc_runtime.bundle_files import Read
from wgcc_runtime.data.form import EntryForm
from wgcc_runtime.data.preparation import KEY, Preparation
from wgcc_runtime.data.result import Data
from wgcc_runtime.weights import load_weights

FILE = "data.safetensors"
MAX_BYTES = 256 << 20


def bundle_preparation(read: Read) -> Preparation | None:
    stored = _stored(read)
    return stored[1] if stored else None


def bundle_data(read: Read, entry: EntryForm) -> Data | None:
    """The data for an entry; None if the bundle was built without."""
    stored = _stored(read)
    if stored is None or not set(entry.inputs) <= set(stored[0]):
        return None
    arrays, preparation = stored
    found = {name: arrays[name] for name in entry.inputs}
    rows = len(found[entry.rows[0]]) if entry.rows else 1
    return Data(found, preparation, rows, entry.rows, own_scaling=preparation is not None)


def _stored(read: Read) -> tuple[dict[str, Array], Preparation | None] | None:
    data = read(FILE, MAX_BYTES)
    if data is None:
        return None
    arrays, facts = load_weights(data)
    return arrays, facts.get(KEY)
