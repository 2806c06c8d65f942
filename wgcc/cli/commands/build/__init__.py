"""`wgcc build`: compiles a model file into a bundle."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli import shell_completion
from wgcc.cli.data import DataOptions, data_options, say_reading
from wgcc.cli.options import (
    all_errors_option,
    capture_options,
    json_option,
    limits_option,
    memory_size,
    model_file,
    model_options,
    strict_dims_option,
)
from wgcc.cli.printing import print_error, say, say_diagnostics, show_json
from wgcc.cli.source_files import changes

if TYPE_CHECKING:
    from wgcc.bundle.content import Files
    from wgcc.compiler import Compiled
    from wgcc.lazy_numpy import Array
    from wgcc_runtime.data.preparation import Data
    from wgcc_runtime.data.problems import DataError


@click.command()
@model_file
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder to write the bundle into.",
)
@model_options
@strict_dims_option
@click.option(
    "--weights",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Initial values of parameters, as a safetensors file.",
)
@click.option(
    "--data",
    type=click.Path(exists=True, path_type=Path),
    help="A table, pictures, text or arrays to train with: the page holds them.",
)
@data_options
@click.option("--title", help="What the page is called, instead of the model's name.")
@click.option("--labels", metavar="A,B,C", help="Names of the classes, by their ids from 0.")
@click.option(
    "--entries",
    metavar="NAMES",
    shell_complete=shell_completion.entries,
    help="Build only these entries: --entries train,predict.",
)
@capture_options
@click.option(
    "--candidates",
    is_flag=True,
    help="Include alternative kernels, so that a page can tune the bundle for its GPU.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    callback=memory_size,
    help="Limit of GPU memory, such as 64MB; activations are recomputed where needed to meet it.",
)
@limits_option
@click.option(
    "--no-twin",
    is_flag=True,
    help="Leave out twin.wasm, which runs the model on machines without a GPU.",
)
@click.option(
    "--fast",
    is_flag=True,
    help="Let Python leave large products of the twin to numpy's BLAS: load(..., fast=True).",
)
@click.option(
    "--pairs",
    is_flag=True,
    help="Start small kernels that do not need each other by one dispatch, which GPUs do sooner.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Build into a folder that holds other files; files with a bundle's names are replaced.",
)
@click.option("-v", "--verbose", is_flag=True, help="List the files and all entries.")
@click.option(
    "--keep-kernels",
    is_flag=True,
    help="Keep kernels that were edited by hand in the folder; refused where they no longer fit.",
)
@click.option("--watch", is_flag=True, help="Build again whenever a .wg file is saved.")
@all_errors_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model_file: Path,
    output: Path,
    watch: bool,
    all_errors: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Compile MODEL.wg into a bundle: kernels, plan, initial weights.

    The folder given with -o can be loaded from Python (wgcc_runtime.load) and opened in a browser
    (index.html). A bundle that is already there is replaced completely, or not at all if something
    fails. Other files in the folder stay, and weights trained since the last build are kept as
    weights.trained.safetensors, edited kernels as kernels/NAME.edited.wgsl. With --keep-kernels,
    edited kernels stay part of the bundle, and its plan says so.

    With --data, the page trains with a file of yours, and shows its names: columns, classes, and
    predictions in its units. How files are read, and what the options mean: wgcc/DATA.md.
    """
    _refuse_foreign_folder(output, options["force"])
    if not watch:
        ctx.exit(_try_build(model_file, output, all_errors, as_json, options))
    for _ in changes([model_file.parent]):
        _try_build(model_file, output, all_errors, as_json, options)
        say(f"watching {model_file.parent}; press Ctrl-C to stop", style="dim")


def _refuse_foreign_folder(folder: Path, force: bool) -> None:
    """Called first, so that nothing is compiled for a folder that may not be written."""
    from wgcc.bundle.folder import check_folder
    from wgcc.errors import WgError

    try:
        check_folder(folder, force)
    except WgError as error:
        raise click.UsageError(str(error)) from None


def _build(
    path: Path, output: Path, all_errors: bool, as_json: bool, options: Mapping[str, Any]
) -> None:
    from wgcc.bundle.folder import write_files
    from wgcc.bundle.plan import TWIN
    from wgcc.cli.commands.build.summary import facts, summary

    started = time.perf_counter()
    compiled, files = _compile_with_data(path, as_json, options)
    edited: list[str] = []
    if options["keep_kernels"]:
        from wgcc.bundle.edited import keep_kernels

        files, edited = keep_kernels(files, output)
    kept = write_files(files, output, options["force"])
    report = facts(compiled, output, files, kept, time.perf_counter() - started)
    report["edited"] = edited
    report["tooLargeForTwin"] = not options["no_twin"] and TWIN not in files
    if as_json:
        show_json(report)
    else:
        say_diagnostics(compiled.diagnostics, all_errors)
        say(summary(report, options["verbose"]))
        if edited:
            say(f"kept, edited by hand: {', '.join(edited)}")


def _compile_with_data(
    path: Path, as_json: bool, options: Mapping[str, Any]
) -> tuple[Compiled, Files]:
    """The files of the bundle. The dims `Columns` and `Classes` are as the data has them."""
    from wgcc.errors import WgError
    from wgcc_runtime.data.problems import DataError

    compiled = _compile(path, options)
    while True:
        try:
            weights, stored = _weights(options["weights"], compiled)
            data = data_file(compiled, options, stored.get("preparation"), as_json)
            return compiled, compiled.files(weights, data)
        except DataError as error:
            sizes = _sizes_of(error)
            if not sizes or sizes.keys() & options["sizes"].keys():
                raise
            options = {**options, "sizes": {**options["sizes"], **sizes}}
            try:
                compiled = _compile(path, options)
            except WgError:  # The model has no dim of this name.
                raise error from None


# By problem: the dim that decides it, where a model has one.
_DIMS = {"columns-left": "Columns", "column-count": "Columns", "class-count": "Classes"}


def _sizes_of(error: DataError) -> dict[str, int]:
    dim = _DIMS.get(error.problem)
    return {dim: error.values["count"]} if dim and error.values["count"] else {}


def _compile(path: Path, options: Mapping[str, Any]) -> Compiled:
    from wgcc.compiler import compile_file
    from wgcc.ir.program import patterns_of

    return compile_file(
        path,
        sizes=options["sizes"],
        model=options["model"],
        seed=options["seed"],
        entries=_names(options["entries"]),
        candidates=options["candidates"],
        memory=options["memory"],
        twin=not options["no_twin"],
        limits=options["limits"],
        strict_dims=options["strict_dims"],
        capture=patterns_of(options["capture"], options["capture_stats"]),
        fast=options["fast"],
        pairs=options["pairs"],
    )


def _try_build(
    path: Path, output: Path, all_errors: bool, as_json: bool, options: Mapping[str, Any]
) -> int:
    """Returns the exit code."""
    from wgcc.errors import WgError
    from wgcc_runtime.errors import WgccError

    try:
        _build(path, output, all_errors, as_json, options)
    except WgccError as error:  # in the data
        if as_json:
            show_json({"error": error.message, "diagnostics": []})
        else:
            say(f"error[{error.code}]: {error.message}", style="error")
        return 1
    except WgError as error:
        if as_json:
            show_json(
                {"error": str(error), "diagnostics": [d.as_json() for d in error.diagnostics]}
            )
        else:
            print_error(error, all_errors)
        return 1
    return 0


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _weights(
    path: Path | None, compiled: Compiled
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any]]:
    """Arrays by name, and what the file says of them.

    Every name and shape must be that of a tensor of the model.
    """
    if path is None:
        return None, {}
    from wgcc.bundle.emit import read_checkpoint

    return read_checkpoint(path, compiled.program)


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
    from wgcc.bundle.content import data_bytes, form_of_plan, with_labels
    from wgcc_runtime.fit import kept_preparation

    path, title, labels = options["data"], options["title"], options["labels"]
    vocab = compiled.program.vocab
    form = form_of_plan(compiled.planned.plan, None if isinstance(vocab, str) else vocab.text)
    if path is None and title is None and labels is None and known is None:
        return None
    arrays: Mapping[str, Array] = {}
    has_learned, own = options["weights"] is not None, known
    names = None if labels is None else [name.strip() for name in labels.split(",")]
    if names is not None:
        known = with_labels(own, own["target"] if own else _target(form), names, form)
    if path is not None:
        reading = partial(_read, path, form, options["reading"], has_learned=has_learned)
        data = None
        if names and not has_learned:
            data = _with_new_names(reading(known=None), names, form)
        data = data or reading(known=known)
        if not quiet:
            _say_read(path, data, options["reading"])
        arrays, known = data.arrays, kept_preparation(known, data)
    return data_bytes(arrays, known, title)


def _with_new_names(data: Data, names: Sequence[str], form: Mapping[str, Any]) -> Data | None:
    """Data whose names of classes are sorted as the labels are, which name its classes anew."""
    from wgcc.bundle.content import with_labels
    from wgcc_runtime.data.known_classes import is_alike
    from wgcc_runtime.data.preparation import class_names
    from wgcc_runtime.data.problems import join_items

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
    preparation = with_labels(data.preparation, data.preparation["target"], names, form)
    if own != [str(number) for number in range(len(own))]:
        new = join_items(f"{old} is {name}" for old, name in zip(own, names, strict=False))
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

    data_form = form_of(form)
    return data_form.target(data_form.entries[ENTRY]) if ENTRY in data_form.entries else None
