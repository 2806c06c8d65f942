"""`wgcc run`: calls one entry of a bundle with arrays from files, or lets it write text."""

from __future__ import annotations

import csv
import io
import json
import shlex
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli import shell_completion
from wgcc.cli.data import DataOptions, say_reading, unknown_option
from wgcc.cli.failures import failures
from wgcc.cli.options import SEED, captured_option, device_option, fast_option, json_option
from wgcc.cli.printing import plural, say, show, show_json, table
from wgcc.cli.sampling import sampling_options
from wgcc.lazy_numpy import Array, np

if TYPE_CHECKING:
    from wgcc_runtime.model import Model
    from wgcc_runtime.plan import Entry

# How many characters a language model writes by default.
CHARACTERS = 200


@click.command("run")
@click.argument("bundle", type=click.Path(exists=True, path_type=Path))
@click.argument("entry", shell_complete=shell_completion.entries)
@click.option("-i", "--input", "inputs", multiple=True, help="FILE, NAME=FILE or NAME=NUMBER.")
@click.option("-o", "--output", "outputs", multiple=True, help="FILE or NAME=FILE.")
@click.option("--columns", metavar="A,B,C", help="The columns of a table to use.")
@click.option("--decimal", type=click.Choice([",", "."]), help="The mark in a table's numbers.")
@unknown_option
@click.option("--prompt", help="Text that a language model continues.")
@click.option(
    "-n",
    "--count",
    type=click.IntRange(min=1),
    help="With --prompt: characters, or tokens, to write [200].",
)
@click.option(
    "--stop",
    "stops",
    multiple=True,
    metavar="TEXT",
    help="With --prompt: end before this text or special token; may be repeated.",
)
@sampling_options
@click.option(
    "--weights",
    type=click.Path(exists=True, path_type=Path),
    help="Use these weights, such as a checkpoint of `wgcc train`, or an adapter of PEFT or "
    "llama.cpp.",
)
@click.option("--seed", type=SEED, help="Seed of initial values and random draws.")
@captured_option
@device_option
@fast_option
@json_option
def command(
    bundle: Path,
    entry: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    columns: str | None,
    decimal: str | None,
    unknown: str | None,
    prompt: str | None,
    count: int | None,
    stops: tuple[str, ...],
    sampling: dict[str, Any],
    weights: Path | None,
    seed: int | None,
    captured: Path | None,
    device: str | None,
    fast: bool,
    as_json: bool,
) -> None:
    """Run ENTRY of BUNDLE and show or save its outputs.

    Inputs are .npy files with the name of an input (-i x.npy), NAME=FILE, NAME=NUMBER, .npz and
    .safetensors files that hold several, or a table, pictures or a text (-i rows.csv), read as what
    the model was trained with: by column names, with its scaling. An entry that computes each row
    alone takes any number of rows. Outputs go to .csv (with the names of classes), .npy (one
    output), .npz or .safetensors files; without -o they are printed.

    With --prompt, ENTRY must take the id of a character, or of a token, and return that of the
    next one, as `decode` in examples/chargpt does. It runs once for each; the prompt and the text
    that the model adds are printed as they are produced, up to a text or token of --stop.
    """
    from wgcc.cli.adapters import load_with

    _check_prompt(prompt, count, stops, sampling, outputs)
    reading = DataOptions(columns=columns, decimal=decimal, unknown=unknown)
    with failures():
        model = load_with(bundle, weights, device=device, seed=seed, fast=fast)
        given = read_inputs(inputs, model, model.entry(entry), reading)
        if prompt is not None:
            prompt = _known_letters(model, prompt) if unknown == "drop" else prompt
            options = {"steps": count or CHARACTERS, "stop": stops, "inputs": given} | sampling
            return _stream(model, entry, prompt, options, as_json)
        results = model.map(entry, **given)
        if captured:
            model.captured.of(entry).save(captured)
    _give(Outputs(model.entry(entry), results, class_names(model)), outputs, as_json)


def _give(outputs: Outputs, targets: tuple[str, ...], as_json: bool) -> None:
    """Writes the outputs to files, or shows them."""
    for target in targets:
        _write(target, outputs)
    if as_json:
        _show_json(outputs)
    elif not targets:
        outputs.show()


def _show_json(outputs: Outputs) -> None:
    classes = outputs.row_classes()
    lists = {name: array.tolist() for name, array in outputs.arrays.items()}
    show_json({**({"classes": classes} if classes else {}), **lists})


def _check_prompt(
    prompt: str | None,
    count: int | None,
    stops: tuple[str, ...],
    sampling: dict[str, Any],
    outputs: tuple[str, ...],
) -> None:
    chosen = [(f"--{name.replace('_', '-')}", True) for name in sampling]
    for name, is_given in (("-n", count is not None), ("--stop", bool(stops)), *chosen):
        if prompt is None and is_given:
            raise click.UsageError(f"{name} needs --prompt")
    if "" in stops:
        raise click.UsageError("--stop needs a text that is not empty")
    if prompt is not None and outputs:
        raise click.UsageError("--prompt prints its text on standard output; it cannot use -o")


def _known_letters(model: Model, prompt: str) -> str:
    """The prompt without the characters that the vocabulary lacks."""
    vocab = model.plan.vocab
    known = "".join(letter for letter in prompt if not vocab or letter in vocab)
    if known != prompt:
        number = plural(len(prompt) - len(known), "character")
        say(f"note: {number} of the prompt not in the model's vocabulary left out.")
    return known


def _stream(model: Model, entry: str, prompt: str, options: dict[str, Any], as_json: bool) -> None:
    """The prompt and the text after it, each character printed as soon as it is known."""
    import wgcc_runtime

    start, written = time.perf_counter(), []
    letters = wgcc_runtime.generate(model, prompt, entry=entry, **options)
    if as_json:
        show_json({"prompt": prompt, "text": "".join(letters)})
        return
    click.echo(prompt, nl=False)
    for letter in letters:
        click.echo(letter, nl=False)
        written.append(letter)
    click.echo()
    text, is_tokens = prompt + "".join(written), model.plan.tokens is not None
    length = len(model.tokens.encode(text) if is_tokens else text)
    rate = length / (time.perf_counter() - start)
    what = "tokens" if is_tokens else "characters"
    say(f"({rate:.0f} {what} a second on {model.device_name})")


def _write(target: str, outputs: Outputs) -> None:
    name, has_name, file = target.partition("=")
    results = dict(outputs.arrays)
    path = Path(file if has_name else target)
    chosen = {name: results[name]} if has_name and name in results else results
    if has_name and name not in results:
        raise click.UsageError(f"there is no output `{name}`; there are: {', '.join(results)}")
    if path.suffix == ".npy" and len(chosen) != 1:
        raise click.UsageError(
            f"{path} can hold only one output: choose one of {', '.join(results)} with "
            f"-o NAME={path}, or write a .npz"
        )
    try:
        _save(path, replace(outputs, arrays=chosen))
    except OSError as error:
        raise click.FileError(str(path), str(error)) from None
    say(f"wrote {path}")


def _save(path: Path, outputs: Outputs) -> None:
    from wgcc_runtime.replace_file import replace_file

    arrays = dict(outputs.arrays)
    if path.suffix == ".npy":
        replace_file(path, _npy(next(iter(arrays.values()))))
    elif path.suffix == ".npz":
        replace_file(path, _npz(arrays))
    elif path.suffix == ".csv":
        replace_file(path, outputs.csv())
    elif path.suffix == ".safetensors":
        from wgcc_runtime.weights import save_arrays

        save_arrays(path, arrays)
    else:
        raise click.UsageError(f"{path} is not .csv, .npy, .npz or .safetensors")


def _npy(array: Array) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def _npz(arrays: dict[str, Array]) -> bytes:
    """Writes what numpy.savez writes; that function cannot take an array called `file`."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            archive.writestr(f"{name}.npy", _npy(array))
    return stream.getvalue()


def read_inputs(
    items: tuple[str, ...], model: Model, entry: Entry, options: DataOptions
) -> dict[str, Any]:
    """`FILE`, `NAME=FILE` or `NAME=NUMBER`: arrays and numbers by the names of inputs."""
    from wgcc_runtime.data.array_files import SUFFIXES

    inputs: dict[str, Any] = {}
    files = []
    for item in items:
        name, has_name, value = item.partition("=")
        if has_name and not Path(item).exists():
            inputs[name] = _value(value)
        else:
            files.append(Path(item))
    for path in files:
        if path.suffix.lower() in SUFFIXES or not path.exists():
            inputs.update(_arrays(path, entry))
        else:
            inputs.update(_rows(path, model, entry, options, inputs))
    return inputs


def _arrays(path: Path, entry: Entry) -> dict[str, Any]:
    from wgcc_runtime.data.array_files import read_arrays

    arrays = read_arrays(path)
    if path.suffix == ".npy" and path.stem not in entry.inputs and len(entry.inputs) == 1:
        return {next(iter(entry.inputs)): arrays[path.stem]}
    return arrays


def _rows(
    path: Path, model: Model, entry: Entry, options: DataOptions, others: dict[str, Any]
) -> dict[str, Any]:
    """A table is read as the one that the model was trained with."""
    known = model.preparation if options.columns is None else None
    # Gaps are filled as they were for training: the preparation has the means.
    missing = (known or {}).get("missing", options.missing)
    options = replace(options, values=others, missing=missing)
    data = options.read(path, model, entry.name, preparation=known)
    say_reading(path, data, DataOptions(scale=True))
    return data.arrays


def _value(text: str) -> Any:
    from wgcc_runtime.data.array_files import read_arrays

    if Path(text).exists():
        arrays = read_arrays(Path(text))
        if len(arrays) != 1:
            raise click.UsageError(
                f"{text} holds {len(arrays)} arrays; give it without NAME=, as "
                f"-i {shlex.quote(text)}"
            )
        return next(iter(arrays.values()))
    try:
        return json.loads(text)
    except ValueError:
        raise click.UsageError(f"{text} is neither a file nor a number") from None


# A longer table is cut.
MOST_ROWS = 20


def class_names(model: Model) -> list[str] | None:
    """The names of all classes that the model tells apart; those without one have their number."""
    names = model.classes
    if names is None or model.preparation is None:
        return None
    target = model.preparation["target"]
    limits = [
        entry.ranges[target] for entry in model.plan.entries.values() if target in entry.ranges
    ]
    count = max((limit.high + 1 for limit in limits), default=0)
    return [*names, *(str(number) for number in range(len(names), count))]


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs of an entry. `classes` are the names of a model's classes, if it has some."""

    entry: Entry
    arrays: Mapping[str, Array]
    classes: Sequence[str] | None

    def class_of_rows(self, name: str) -> list[str] | None:
        """The likeliest class of each row; None if the output has not one number per class."""
        array = self.arrays[name]
        if not self.classes or array.dtype.kind != "f" or array.shape[-1:] != (len(self.classes),):
            return None
        forms = self.entry.rows.outputs if self.entry.rows else {}
        if array.ndim > 2 or (array.ndim == 1 and forms.get(name) == "rows"):
            return None
        best = np.atleast_2d(array).argmax(axis=1)
        return [self.classes[int(number)] for number in best]

    def row_classes(self) -> dict[str, list[str]]:
        """The class of each row, for every output that has one."""
        classes = {name: self.class_of_rows(name) for name in self.arrays}
        return {name: names for name, names in classes.items() if names is not None}

    def show(self) -> None:
        for name, array in self.arrays.items():
            head = f"{name} {array.dtype}{list(array.shape)}"
            names = self.class_of_rows(name)
            if names is None:
                show(f"{head}\n{array}")
            else:
                show(f"{head}\n{self._table(array, names)}")

    def _table(self, array: Array, names: list[str]) -> str:
        assert self.classes is not None
        rows = [["row", *self.classes, "class"]]
        for number, values in enumerate(np.atleast_2d(array)[:MOST_ROWS]):
            cells = [f"{value:.4g}" for value in values]
            rows.append([str(number + 1), *cells, names[number]])
        text = table(rows, right=range(len(self.classes) + 1))
        more = len(names) - MOST_ROWS
        return f"{text}\n… and {more} more rows; -o FILE writes all" if more > 0 else text

    def csv(self) -> bytes:
        """One line per row, with a header; for outputs that have as many rows as the first."""
        columns = dict(self._columns())
        rows = len(next(iter(columns.values()), []))
        kept = {name: cells for name, cells in columns.items() if len(cells) == rows}
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(kept)
        writer.writerows(zip(*kept.values(), strict=True))
        return stream.getvalue().encode("utf-8")

    def _columns(self) -> Iterator[tuple[str, list[str]]]:
        for name, array in self.arrays.items():
            names = self.class_of_rows(name)
            flat = np.atleast_2d(array) if names else array.reshape(len(np.atleast_1d(array)), -1)
            for number, column in enumerate(flat.T):
                single = f"{name}{number}" if flat.shape[1] > 1 else name
                head = f"{name} {self.classes[number]}" if names and self.classes else single
                yield head, [str(value) for value in column.tolist()]
            if names:
                yield f"{name} class", names
