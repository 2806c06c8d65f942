"""`wgcc import MODEL.onnx -o FOLDER`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.options import several
from wgcc.cli.printing import plural, say, show_json
from wgcc.errors import WgError
from wgcc.from_onnx.training_options import (
    LEARNING_RATE,
    LOSSES,
    MOST_CLASSES,
    RANK,
    Classes,
    Training,
)

if TYPE_CHECKING:
    from wgcc.from_onnx.convert import Wishes
    from wgcc.from_onnx.folder import Comparing, Imported


ONNX_ONLY = (
    "train", "loss", "loss_output", "lr", "lora", "rank", "keep_batchnorm",
    "classes", "more_classes", "any_float", "numbers", "inputs", "no_compare",
)  # fmt: skip
NAMED = {"numbers": "input"}
COUNT = click.IntRange(1, MOST_CLASSES)
_ANY_FLOAT = click.option(
    "--any-float",
    metavar="NAME",
    multiple=True,
    help="An input that may hold NaN and infinity; masks of attention may anyway.",
)


def _numbers(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, list[float]]:
    """`("sr=16000",)` → `{"sr": [16000]}`"""
    numbers: dict[str, list[float]] = {}
    for value in values:
        name, _, text = (part.strip() for part in value.partition("="))
        try:
            numbers[name] = [_number(part.strip()) for part in text.split(",")]
        except ValueError:
            form = f"'{value}' does not have the form NAME=NUMBER, such as sr=16000."
            raise click.BadParameter(form, ctx, param) from None
    return numbers


def _number(text: str) -> float:
    """Whole numbers stay so: an i64 may be larger than a float is exact."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return int(text)
    except ValueError:
        return float(text)


_COMPARING = (
    click.option(
        "--no-compare",
        is_flag=True,
        help="Import without running the original, and say so in the README.",
    ),
    click.option(
        "--inputs",
        metavar="FILE.npz",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Arrays for the inputs to compare with, instead of random ones.",
    ),
    click.option(
        "--input",
        "numbers",
        metavar="NAME=NUMBER",
        multiple=True,
        callback=_numbers,
        help="Make an input a constant: --input sr=16000; several numbers by commas.",
    ),
)
_TRAINING = (
    click.option("--keep-batchnorm", is_flag=True, help="Keep batch norm as layers, for training."),
    click.option(
        "--rank",
        type=click.IntRange(1, 4096),
        help=f"Rank of --lora; {RANK} without it.",
    ),
    click.option(
        "--lora",
        metavar="PATTERN",
        multiple=True,
        help='Train low-rank corrections of these linear layers: --lora "*.attn.*".',
    ),
    click.option(
        "--more-classes",
        metavar="N",
        type=COUNT,
        help="Add N classes to those that the last layer knows.",
    ),
    click.option(
        "--classes",
        metavar="N",
        type=COUNT,
        help="Replace the last layer by a new one for N classes.",
    ),
    click.option(
        "--lr",
        metavar="RATE",
        type=click.FloatRange(0, 1e3, min_open=True),
        help=f"Learning rate of --train and --lora; {LEARNING_RATE} without it.",
    ),
    click.option("--loss-output", metavar="NAME", help="The output that the loss is of."),
    click.option(
        "--loss",
        type=click.Choice(LOSSES),
        help=f"The loss of --train; {LOSSES[0]} without it.",
    ),
    click.option(
        "--train",
        metavar="all|head|PATTERN",
        help="Add an entry that trains all parameters, the last layer, or those named so.",
    ),
)


# Those that only models have.
onnx_options = several(*reversed(_TRAINING), _ANY_FLOAT, *reversed(_COMPARING))


def model_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `MODEL.wg`, where those of an ONNX model have no effect."""
    for name in ONNX_ONLY:
        if options[name] not in (None, (), False, {}):
            raise click.UsageError(
                f"--{NAMED.get(name, name).replace('_', '-')} is for models: wgcc import MODEL.onnx"
            )
    return {name: value for name, value in options.items() if name not in ONNX_ONLY}


def wishes(options: Mapping[str, Any]) -> Wishes:
    from wgcc.from_onnx.convert import Wishes

    for name in ("map_file", "propose", "partial", "seed", "model"):
        if options.get(name) not in (None, False):
            given = name.removesuffix("_file")
            raise click.UsageError(f"--{given} is for weights: wgcc import WEIGHTS MODEL.wg")
    if options["train"] is not None and options["lora"]:
        raise click.UsageError("give --train or --lora: corrections are trained alone")
    _refuse_without_effect(options)
    for name, number in options["sizes"].items():
        if not isinstance(number, int):
            raise click.UsageError(f"--set {name}={number:g}: a size is a whole number")
    training = Training(
        options["train"],
        options["loss"] or LOSSES[0],
        options["loss_output"],
        options["lora"],
        options["rank"] or RANK,
        options["lr"] or LEARNING_RATE,
    )
    batch_norm = options["keep_batchnorm"]
    return Wishes(
        options["sizes"],
        training,
        batch_norm,
        numbers=options["numbers"],
        classes=_classes(options),
        any_floats=options["any_float"],
    )


def comparing(options: Mapping[str, Any]) -> Comparing:
    from wgcc.from_onnx.folder import Comparing

    if options["no_compare"] and options["inputs"] is not None:
        raise click.UsageError("give --inputs or --no-compare: nothing is run without a comparison")
    return Comparing(not options["no_compare"], options["inputs"])


def _refuse_without_effect(options: Mapping[str, Any]) -> None:
    """Options that only training needs are refused for a model that is not trained."""
    both = ("train", "lora")
    needed = {"loss": both, "loss_output": both, "lr": both, "rank": ("lora",)}
    for name, others in needed.items():
        if options[name] is not None and not any(options[other] for other in others):
            wanted = " or ".join(f"--{other}" for other in others)
            raise click.UsageError(f"--{name.replace('_', '-')} needs {wanted}")


def _classes(options: Mapping[str, Any]) -> Classes | None:
    new, more = options["classes"], options["more_classes"]
    if new is None and more is None:
        return None
    if new is not None and more is not None:
        raise click.UsageError(
            "give --classes or --more-classes: new classes alone or beside others"
        )
    wanted = Classes(more or new, keeps_old=more is not None)
    if options["train"] is None or options["loss"] not in (None, "cross_entropy"):
        text = "needs --train head, all or a pattern, with cross_entropy"
        raise click.UsageError(f"{wanted.option} {text}: a new layer knows nothing before")
    return wanted


def import_model(
    path: Path, output: Path | None, wishes: Wishes, comparing: Comparing, as_json: bool
) -> None:
    if path.suffix.lower() != ".onnx":
        raise click.UsageError(f"{path} is no .onnx file: give a MODEL.wg for these weights, too")
    if output is None:
        raise click.UsageError("give a folder for the model: -o FOLDER")
    from wgcc.bundle.folder import is_free, write_new
    from wgcc.from_onnx.convert import convert_file
    from wgcc.from_onnx.folder import build

    if not is_free(output):
        raise click.UsageError(f"{output} is there already: give a new or an empty folder")
    converted = convert_file(path, wishes)
    if wishes.keeps_batch_norm and "BatchNorm[" not in converted.written.text:
        converted.traced.notes.append("--keep-batchnorm has no effect: there is no batch norm")
    imported = build(path, converted, comparing)
    _refuse_differences(path, imported)
    write_new(imported.files, output)
    if as_json:
        show_json(_record(output, imported))
    else:
        for note in converted.traced.all_notes():
            say(note)
        _say_result(output, imported)


def _refuse_differences(path: Path, imported: Imported) -> None:
    wrong = [item for item in imported.differences if not item.is_small]
    if wrong:
        differences = ", ".join(f"`{item.output}` by {item.largest:.3g}" for item in wrong)
        raise WgError(
            f"{path}: the result differs from {imported.compared_with}: {differences}; "
            "nothing was written"
        )


def _say_result(output: Path, imported: Imported) -> None:
    for sentence in imported.comparison.sentences():
        say(sentence)
    count = sum(tensor.type.size for tensor in imported.compiled.program.params.values())
    say(f"{output}: {plural(count, 'parameter')}; open {output / 'bundle' / 'index.html'}")


def _record(output: Path, imported: Imported) -> dict[str, object]:
    """`differences` has null for an output without a number that could be compared."""
    comparison = imported.comparison
    return {
        "folder": str(output),
        "comparedWith": comparison.runner or None,
        "comparedOn": comparison.inputs or None,
        "notes": [note for note in (comparison.note, comparison.why_not) if note],
        "differences": {
            item.output: item.largest if item.finite else None for item in comparison.differences
        },
    }
