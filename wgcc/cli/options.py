"""Options and arguments that several commands share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click

LONGEST_SIZE = 18
SEED = click.IntRange(0, 2**32 - 1)
_MEMORY = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)\s*(?:([kmg])(i?))?b", re.IGNORECASE)

# A number of the language with a sign, a point or an exponent.
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,3})?", re.ASCII)

# Sizes of ONNX files may have dots and the like in their names.
_SIZE_NAME = re.compile(r"[^\W\d][\w.:/-]*")

Command = Callable[..., Any]
Option = Callable[[Command], Command]


class BundleFolder(click.Path):
    """The folder of a bundle; a program is refused with the command that makes one of it."""

    def __init__(self) -> None:
        super().__init__(exists=True, file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if str(value).endswith(".wg"):
            text = f"{value} is a program: `wgcc build {value} -o bundle` makes the bundle to give"
            self.fail(text, param, ctx)
        return super().convert(value, param, ctx)


def _sizes(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    """`("B=32", "rate=1e-3")` → `{"B": 32, "rate": 0.001}`"""
    sizes: dict[str, float] = {}
    for value in values:
        name, _, number = (part.strip() for part in value.partition("="))
        digits = number.replace("_", "")
        is_whole = digits.isascii() and digits.isdigit()
        if not (_SIZE_NAME.fullmatch(name) and (is_whole or _NUMBER.fullmatch(number))):
            text = f"'{value}' does not have the form NAME=NUMBER, such as B=32 or rate=1e-3."
            raise click.BadParameter(text, ctx, param)
        if is_whole and len(digits) > LONGEST_SIZE:
            raise click.BadParameter(f"'{number}' is too large for a size.", ctx, param)
        sizes[name] = int(digits) if is_whole else float(number)
        if math.isinf(sizes[name]):
            raise click.BadParameter(f"'{number}' is too large for a number.", ctx, param)
    return sizes


def memory_size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """`"64MB"` → 64,000,000; also B, kB, GB and KiB, MiB, GiB."""
    if value is None:
        return None
    match = _MEMORY.fullmatch(value.strip())
    if match is None or not float(match[1]):
        text = f"'{value}' is not an amount of memory, such as 64MB or 1.5GiB."
        raise click.BadParameter(text, ctx, param)
    unit = 1024 if match[3] else 1000
    power = "kmg".index(match[2].lower()) + 1 if match[2] else 0
    return int(float(match[1]) * unit**power)


def programs_in(paths: Iterable[Path]) -> Iterator[Path]:
    """The files themselves, and all .wg files inside folders."""
    for path in paths:
        inside = [path]
        if path.is_dir():
            inside = [file for file in sorted(path.rglob("*.wg")) if not file.is_dir()]
        if not inside:
            raise click.UsageError(f"there is no .wg file in {path}")
        yield from inside


def _globs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> list[str]:
    """`("blocks.*.x,norm", "d.*")` → `["blocks.*.x", "norm", "d.*"]`"""
    return [glob.strip() for value in values for glob in value.split(",")]


def several(*options: Option) -> Option:
    """One decorator that adds these options, in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


model_file: Option = click.argument(
    "model_file",
    metavar="MODEL.wg",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
sizes_option: Option = click.option(
    "--set",
    "sizes",
    metavar="NAME=NUMBER",
    multiple=True,
    callback=_sizes,
    help="Set a dim, a const, or a setting of an optimizer: --set B=32 --set opt.lr=1e-3 (may be "
    "repeated).",
)
# What is compiled.
model_options = several(
    sizes_option,
    click.option("--model", metavar="NAME", help="Which model to use, if the file has several."),
    click.option("--seed", type=SEED, help="Seed to use instead of the model's own."),
)
strict_dims_option: Option = click.option(
    "--strict-dims",
    is_flag=True,
    help="Refuse different dims that only happen to have the same size (WG0410).",
)
limits_option: Option = click.option(
    "--limits",
    type=click.Choice(["raised", "default"]),
    default="raised",
    help="default: refuse a tensor above 128 MiB, which not every device allows.",
)
capture_options = several(
    click.option(
        "--capture",
        metavar="NAMES",
        multiple=True,
        callback=_globs,
        help="Store these values beside the outputs: names or globs, such as "
        '"blocks.*.attn.weights,d.tok.w" (may be repeated).',
    ),
    click.option(
        "--capture-stats",
        metavar="NAMES",
        multiple=True,
        callback=_globs,
        help="Store statistics of these values: mean, deviation, extremes, a histogram.",
    ),
)
captured_option: Option = click.option(
    "--captured",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write what the last call captured (`wgcc build --capture`) to a .npz or .safetensors "
    "file.",
)
json_option: Option = click.option(
    "--json", "as_json", is_flag=True, help="Print results as JSON on stdout."
)
device_option: Option = click.option(
    "--device",
    metavar="NAME",
    help="wasm, webgpu, or part of an adapter's name (see `wgcc doctor`).",
)
fast_option: Option = click.option(
    "--fast",
    is_flag=True,
    help="Without a GPU: leave large products to numpy's BLAS, if the bundle was built --fast.",
)
all_errors_option: Option = click.option(
    "--all-errors", is_flag=True, help="Print every problem, not only the first twenty."
)
