"""`read_data`: a file or folder as data for a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wgcc_runtime.arrays import Array, is_frame
from wgcc_runtime.data import array_files
from wgcc_runtime.data.csv_records import read_records
from wgcc_runtime.data.encoding import decode
from wgcc_runtime.data.form import EntryForm, ModelForm, form_of
from wgcc_runtime.data.frame_tables import frame_records
from wgcc_runtime.data.json_tables import JsonTable, read_json
from wgcc_runtime.data.known_classes import known_form
from wgcc_runtime.data.options import Options
from wgcc_runtime.data.picture_files import is_picture
from wgcc_runtime.data.pictures import read_pictures
from wgcc_runtime.data.preparation import Data, Preparation, is_only_names
from wgcc_runtime.data.problems import quantity
from wgcc_runtime.data.source import Source
from wgcc_runtime.data.tables import read_table
from wgcc_runtime.data.text_windows import read_text, reads_text
from wgcc_runtime.errors import WgccError
from wgcc_runtime.regular_files import read_regular

# Each format's reader makes a table, or arrays, of a text.
ReadTable = Callable[[str, Source], JsonTable | dict[str, Array]]


def read_delimited(text: str, source: Source) -> JsonTable:
    return JsonTable(read_records(text, source), header=None)


# By the end of a file's name; all other files that are no text have delimiters, too.
TABLES: dict[str, ReadTable] = {
    ".csv": read_delimited,
    ".tsv": read_delimited,
    ".tab": read_delimited,
    ".json": read_json,
}


def read_data(
    source: Any,
    model: Any,
    *,
    entry: str = "train",
    target: str | None = None,
    columns: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    scale: bool = False,
    encode: bool = False,
    missing: str = "drop",
    decimal: str | None = None,
    unknown: str | None = None,
    values: Mapping[str, Any] | None = None,
    preparation: Preparation | None = None,
) -> Data:
    """A table, arrays, pictures or text as arrays for the inputs of an entry.

    `source` is a file or folder, a list of picture files, or a frame of pandas or polars; `model`
    a model or its plan. The rules, and what the options mean, are in wgcc/DATA.md. With a
    `preparation`, such as that of a trained model, columns, classes and scaling are as there.
    """
    form = form_of(model)
    if hasattr(model, "has_learned"):
        form = known_form(form, model.preparation, model.has_learned)
    if preparation and is_only_names(preparation):
        form, preparation = known_form(form, preparation, True), None
    numbers = values or {}
    options = Options(
        target, columns, scale, encode, missing, decimal, unknown, numbers, preparation
    )
    if is_frame(source):
        place = Source("the frame")
        records = frame_records(source, place)
        return read_table(records, place, form, form.entry(entry), options, header=True)
    if not isinstance(source, str | Path):
        places = [Path(place) for place in source]
        name = quantity(len(places), "picture", "pictures")
        return read_pictures(places, Source(name), form, form.entry(entry), options)
    return _read(Path(source), Source(str(source)), form, form.entry(entry), options)


def _read(path: Path, source: Source, form: ModelForm, entry: EntryForm, options: Options) -> Data:
    suffix = path.suffix.lower()
    if (path.is_dir() and any(path.glob("*.npy"))) or suffix in array_files.SUFFIXES:
        return array_files.data_of_arrays(array_files.read_arrays(path), source, entry)
    if path.is_dir() or is_picture(path):
        return read_pictures([path], source, form, entry, options)
    text = decode(_bytes(path, source), source)
    if suffix not in TABLES and reads_text(form, entry):
        return read_text(text, source, form, entry, options)
    content = TABLES.get(suffix, read_delimited)(text, source)
    if isinstance(content, JsonTable):
        return read_table(content.table, source, form, entry, options, content.header)
    return array_files.data_of_arrays(content, source, entry)


def _bytes(path: Path, source: Source) -> bytes:
    try:
        return read_regular(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise WgccError("data", f"cannot read {path}: {reason}", source.name) from None
