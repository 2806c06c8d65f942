"""`wgcc run`: calls one entry of a bundle with arrays from files, or lets it write text."""

from __future__ import annotations

import io
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.commands.run.values import Outputs, class_names, read_inputs
from wgcc.cli.data import DataOptions, unknown_option
from wgcc.cli.failures import failures
from wgcc.cli.options import SEED, device_option, json_option
from wgcc.cli.printing import plural, say, show_json
from wgcc.cli.progress import Loading
from wgcc.lazy_numpy import Array, np

if TYPE_CHECKING:
    from wgcc_runtime.model import Model


# How many characters a language model writes by default.
CHARACTERS = 200


@click.command("run")
@click.argument("bundle", type=click.Path(exists=True, path_type=Path))
@click.argument("entry")
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
@click.option(
    "--weights",
    type=click.Path(exists=True, path_type=Path),
    help="Use these weights, such as a checkpoint of `wgcc train`.",
)
@click.option("--seed", type=SEED, help="Seed of initial values and random draws.")
@device_option
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
    weights: Path | None,
    seed: int | None,
    device: str | None,
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
    import wgcc_runtime

    _check_prompt(prompt, count, stops, outputs)
    reading = DataOptions(columns=columns, decimal=decimal, unknown=unknown)
    with failures():
        model = wgcc_runtime.load(
            bundle, device=device, weights=weights, seed=seed, on_bytes=Loading()
        )
        given = read_inputs(inputs, model, model.entry(entry), reading)
        if prompt is not None:
            prompt = _known_letters(model, prompt) if unknown == "drop" else prompt
            options = {"steps": count or CHARACTERS, "stop": stops, "inputs": given}
            return _stream(model, entry, prompt, options, as_json)
        results = model.map(entry, **given)
    found = Outputs(model.entry(entry), results, class_names(model))
    for target in outputs:
        _write(target, found)
    if as_json:
        _show_json(found)
    elif not outputs:
        found.show()


def _show_json(found: Outputs) -> None:
    named = found.named()
    lists = {name: array.tolist() for name, array in found.arrays.items()}
    show_json({**({"classes": named} if named else {}), **lists})


def _check_prompt(
    prompt: str | None, count: int | None, stops: tuple[str, ...], outputs: tuple[str, ...]
) -> None:
    for name, is_given in (("-n", count is not None), ("--stop", bool(stops))):
        if prompt is None and is_given:
            raise click.UsageError(f"{name} needs --prompt")
    if "" in stops:
        raise click.UsageError("--stop needs a text that is not empty")
    if prompt is not None and outputs:
        raise click.UsageError("--prompt prints its text on standard output; it cannot use -o")


def _known_letters(model: Model, prompt: str) -> str:
    """Without characters that are not in the vocabulary."""
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


def _write(target: str, found: Outputs) -> None:
    name, has_name, file = target.partition("=")
    results = dict(found.arrays)
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
        _save(path, replace(found, arrays=chosen))
    except OSError as error:
        raise click.FileError(str(path), str(error)) from None
    say(f"wrote {path}")


def _save(path: Path, found: Outputs) -> None:
    from wgcc_runtime.replace_file import replace_file

    arrays = dict(found.arrays)
    if path.suffix == ".npy":
        replace_file(path, _npy(next(iter(arrays.values()))))
    elif path.suffix == ".npz":
        replace_file(path, _npz(arrays))
    elif path.suffix == ".csv":
        replace_file(path, found.csv())
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
    """As numpy.savez writes it, which cannot take an array called `file`."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            archive.writestr(f"{name}.npy", _npy(array))
    return stream.getvalue()
