"""Data of people on the command line: the options of reading, and what is said about a reading."""

from __future__ import annotations

import csv
import functools
import math
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.options import Command, several
from wgcc.cli.printing import plural, say

if TYPE_CHECKING:
    from wgcc_runtime.data.preparation import Data
    from wgcc_runtime.data.problems import DataError

# What messages call the file. Without a suffix it is read as a table, or as text by text models.
NAME = "standard-input"
PIECE = 1 << 20


class DataFile(click.Path):
    """A file or folder of data, or `-`."""

    def __init__(self) -> None:
        super().__init__(exists=True, allow_dash=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if str(value) != "-" or ctx is None:
            return super().convert(value, param, ctx)
        folder = tempfile.TemporaryDirectory(prefix="wgcc-")
        ctx.call_on_close(folder.cleanup)
        path = Path(folder.name) / NAME
        _copy_standard_input(path)
        return path


def _copy_standard_input(path: Path) -> None:
    from wgcc_runtime.regular_files import VARIABLE, most_bytes

    if sys.stdin.isatty():
        raise click.UsageError("`-` reads data from a pipe: wgcc train BUNDLE - < data.csv")
    most, size = most_bytes(), 0
    with open(path, "wb") as file:
        while piece := sys.stdin.buffer.read(PIECE):
            size += len(piece)
            if size > most:
                limit = f"at most {most:,} bytes are read here; {VARIABLE} can allow more"
                raise click.ClickException(f"standard input does not end: {limit}")
            file.write(piece)


# How many class or column names a line shows.
MOST_NAMES = 12


@dataclass(frozen=True, slots=True)
class DataOptions:
    """How a file becomes inputs: see wgcc/DATA.md."""

    target: str | None = None
    columns: str | None = None
    scale: bool = False
    encode: bool = False
    missing: str = "drop"
    decimal: str | None = None
    unknown: str | None = None
    values: Mapping[str, float] = field(default_factory=dict)

    @property
    def chooses(self) -> bool:
        """Whether they say which columns to use, or whether to scale."""
        return self.target is not None or self.columns is not None or self.scale or self.encode

    def words(self) -> list[str]:
        """The same options on a command line."""
        words = [f"--value={name}={number!r}" for name, number in self.values.items()]
        given = {"target": self.target, "columns": self.columns, "decimal": self.decimal}
        given |= {"missing": None if self.missing == "drop" else self.missing}
        given |= {"unknown": self.unknown}
        words += [f"--{name}={value}" for name, value in given.items() if value is not None]
        flags = {"--scale": self.scale, "--encode": self.encode}
        return [*words, *(flag for flag, is_given in flags.items() if is_given)]

    def read(self, path: Path, model: Any, entry: str = "train", **more: Any) -> Data:
        """Reads a file for a model or a plan. Errors advise which options decide."""
        from wgcc_runtime.data.problems import DataError
        from wgcc_runtime.data.read import read_data

        names = None if self.columns is None else _names(self.columns)
        chosen = {"target": self.target, "columns": names, "scale": self.scale}
        chosen["encode"] = self.encode
        cells = {"missing": self.missing, "decimal": self.decimal, "unknown": self.unknown}
        given = {"entry": entry, **chosen, **cells, "values": self.values, **more}
        try:
            return read_data(path, model, **given)
        except DataError as error:
            raise with_advice(error) from None


unknown_option = click.option(
    "--unknown",
    type=click.Choice(["drop"]),
    help="Leave out characters that are not in the model's vocabulary.",
)


def _numbers(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, float]:
    """`("lr=0.1",)` → `{"lr": 0.1}`"""
    numbers: dict[str, float] = {}
    for value in values:
        name, _, text = (part.strip() for part in value.partition("="))
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not name or not math.isfinite(number):
            text = f"'{value}' does not have the form NAME=NUMBER, such as lr=0.1."
            raise click.BadParameter(text, ctx, param)
        numbers[name] = int(number) if number.is_integer() else number
    return numbers


_DECIMAL = ": give --decimal , or --decimal ."
# By problem, as in tables/data_problems.json; for others the runtime's own advice is said.
ADVICE = {
    "mixed-decimals": _DECIMAL,
    "thousands": _DECIMAL,
    "columns-left": ". Choose them with --columns",
    "which-target": " Give --target NAME; there are: {columns}",
    "no-value": ": give --value {input}=NUMBER",
    "names-in-columns": ": turn names into numbers with --encode, or choose its columns with "
    "--columns {words}",
    "names-in-target": ": choose another column with --target NAME",
    "unknown-character": ": leave them out with --unknown drop",
}


def message_of(error: DataError) -> str:
    """The message of an error with advice for the command line."""
    if error.problem not in ADVICE:
        return error.message
    words = shell_word(error.values["numbers"]) if error.values.get("numbers") else "NAMES"
    return error.message_with(ADVICE[error.problem].replace("{words}", words))


def with_advice(error: DataError) -> DataError:
    """The same error with a message for the command line."""
    error.message = message_of(error)
    error.args = (f"{error.code}: {error.message}",)
    return error


def shell_word(names: Sequence[str]) -> str:
    """`a,"b, c"` as one word of a command line, as `--columns` takes it: it can be pasted."""
    return shlex.quote(",".join(map(_field, names)))


def _field(name: str) -> str:
    is_plain = "," not in name and '"' not in name
    return name if is_plain else '"' + name.replace('"', '""') + '"'


_READING = several(
    click.option("--target", metavar="NAME", help="The column to learn."),
    click.option("--columns", metavar="A,B,C", help="The columns to learn it from."),
    click.option(
        "--scale/--no-scale",
        default=False,
        help="Scale number columns to mean 0 and deviation 1, and predictions back.",
    ),
    click.option(
        "--encode/--no-encode",
        default=False,
        help="Turn columns of names, dates and amounts such as $1,200 into numbers.",
    ),
    click.option(
        "--missing",
        type=click.Choice(["drop", "mean"]),
        default="drop",
        show_default=True,
        help="Rows with missing cells: leave them out, or use the mean of the column.",
    ),
    click.option("--decimal", type=click.Choice([",", "."]), help="The mark in numbers."),
    unknown_option,
    click.option(
        "--value",
        "values",
        metavar="NAME=NUMBER",
        multiple=True,
        callback=_numbers,
        help="A number for an input that is no column, such as a learning rate.",
    ),
)


def data_options(command: Command) -> Command:
    """`--target` and the like; the command gets them as `reading`, a `DataOptions`."""
    names = ("target", "columns", "scale", "encode", "missing", "decimal", "unknown", "values")

    @functools.wraps(command)
    def with_reading(**given: Any) -> Any:
        reading = DataOptions(**{name: given.pop(name) for name in names})
        return command(reading=reading, **given)

    return _READING(with_reading)


def reading_of(words: Sequence[str]) -> DataOptions:
    """The options that such words of a command line say; the opposite of `DataOptions.words`."""

    @click.command()
    @data_options
    def parse(reading: DataOptions) -> DataOptions:
        return reading

    result = parse.main(list(words), standalone_mode=False)
    assert isinstance(result, DataOptions)
    return result


def say_reading(path: Path, data: Data, options: DataOptions) -> None:
    """Says what was read, what was left out, and what may be a mistake."""
    if data.preparation is None:
        return
    say(f"{path}: {plural(data.rows, 'row')}{_inputs(data)}")
    for note in data.notes:
        say(f"note: {note}")
    for omission in data.dropped:
        rows = plural(omission["count"], "row")
        say(f"left out: {rows} with {omission['reason']}, the first in line {omission['first']}")
    if data.needs_scaling and not options.scale:
        names = _listing([f"`{name}`" for name in data.needs_scaling])
        say(f"hint: --scale helps training: {names}: far from mean 0 and deviation 1")


def _inputs(data: Data) -> str:
    """`; x: length, width; y: species (setosa, virginica)`"""
    assert data.preparation is not None
    description = ""
    for name, spec in data.preparation["inputs"].items():
        columns = _listing(spec.get("columns", [])) or spec["kind"]
        classes = f" ({_listing(spec['classes'])})" if "classes" in spec else ""
        description += f"; {name}: {columns}{classes}" if name in data.with_rows else ""
    return description


def _listing(names: list[str]) -> str:
    more = ", …" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _names(text: str) -> list[str]:
    """`a,"b, c"` → `["a", "b, c"]`"""
    cells = next(csv.reader([text], skipinitialspace=True), [])
    return [name.strip() for name in cells if name.strip()]
