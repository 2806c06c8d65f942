"""`wgcc import MODEL.onnx -o FOLDER`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.options import Command
from wgcc.cli.printing import plural, say, show_json
from wgcc.errors import WgError

if TYPE_CHECKING:
    from wgcc.from_onnx.convert import Wishes
    from wgcc.from_onnx.folder import Imported


LOSSES = ("cross_entropy", "mse", "mae", "huber", "bce_logits", "bce")
ONNX_ONLY = ("train", "loss", "loss_output", "lora", "rank", "keep_batchnorm")


def onnx_options(command: Command) -> Command:
    """Those that only models have."""
    for option in (
        click.option(
            "--keep-batchnorm", is_flag=True, help="Keep batch norm as layers, for training."
        ),
        click.option(
            "--rank",
            type=click.IntRange(1, 4096),
            default=8,
            show_default=True,
            help="Rank of --lora.",
        ),
        click.option(
            "--lora",
            metavar="PATTERN",
            multiple=True,
            help='Train low-rank corrections of these linear layers: --lora "*.attn.*".',
        ),
        click.option("--loss-output", metavar="NAME", help="The output that the loss is of."),
        click.option(
            "--loss",
            type=click.Choice(LOSSES),
            default="cross_entropy",
            show_default=True,
            help="The loss of --train.",
        ),
        click.option(
            "--train",
            metavar="all|head|PATTERN",
            help="Add an entry that trains all parameters, the last layer, or those named so.",
        ),
    ):
        command = option(command)
    return command


def model_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `MODEL.wg`, where those of an ONNX model have no effect."""
    for name in ONNX_ONLY:
        if options[name] not in (None, (), False, 8, "cross_entropy"):
            raise click.UsageError(
                f"--{name.replace('_', '-')} is for models: wgcc import MODEL.onnx"
            )
    return {name: value for name, value in options.items() if name not in ONNX_ONLY}


def wishes(options: Mapping[str, Any]) -> Wishes:
    from wgcc.from_onnx.convert import Wishes
    from wgcc.from_onnx.writing.training import Training

    for name in ("map_file", "partial", "seed", "model"):
        if options.get(name) not in (None, False):
            given = name.removesuffix("_file")
            raise click.UsageError(f"--{given} is for weights: wgcc import WEIGHTS MODEL.wg")
    if options["train"] is not None and options["lora"]:
        raise click.UsageError("give --train or --lora: corrections are trained alone")
    if options["train"] is None and not options["lora"] and options["loss_output"]:
        raise click.UsageError("--loss-output needs --train or --lora")
    training = Training(
        options["train"], options["loss"], options["loss_output"], options["lora"], options["rank"]
    )
    return Wishes(options["sizes"], training, options["keep_batchnorm"])


def import_model(path: Path, output: Path | None, wishes: Wishes, as_json: bool) -> None:
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
    imported = build(path, converted)
    _refuse_differences(path, imported)
    write_new(imported.files, output)
    if as_json:
        show_json(_record(output, imported))
    else:
        for note in converted.traced.notes:
            say(note)
        _say_result(output, imported)


def _refuse_differences(path: Path, imported: Imported) -> None:
    wrong = [item for item in imported.differences if not item.is_small]
    if wrong:
        found = ", ".join(f"`{item.output}` by {item.largest:.3g}" for item in wrong)
        raise WgError(
            f"{path}: the result differs from {imported.compared_with}: {found}; "
            "nothing was written"
        )


def _say_result(output: Path, imported: Imported) -> None:
    inputs = "its own inputs" if imported.has_own_inputs else "random inputs"
    for item in imported.differences:
        if not item.finite:
            say(f"{item.output}: no finite number to compare, in {imported.compared_with} either")
            continue
        say(
            f"{item.output}: differs by at most {item.largest:.3g} from {imported.compared_with} "
            f"on {inputs} (largest number {item.scale:.3g})"
        )
    count = sum(tensor.type.size for tensor in imported.compiled.program.params.values())
    say(f"{output}: {plural(count, 'parameter')}; open {output / 'bundle' / 'index.html'}")


def _record(output: Path, imported: Imported) -> dict[str, object]:
    return {
        "folder": str(output),
        "comparedWith": imported.compared_with,
        "differences": {item.output: item.largest for item in imported.differences},
    }
