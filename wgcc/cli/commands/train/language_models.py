"""`wgcc train FOLDER notes.txt --lora`: an imported language model learns texts."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.options import Command, memory_size, several
from wgcc.cli.printing import plural, print_error, say

if TYPE_CHECKING:
    from wgcc.from_gguf.lora import LoraOptions
    from wgcc_runtime.data.preparation import Data
    from wgcc_runtime.plan import Plan

STEPS, LORA_STEPS = 1000, 100
NAMES = ("q", "k", "v", "o", "gate", "up", "down")
COUNT = click.IntRange(min=1)


def _targets(ctx: click.Context, param: click.Parameter, text: str | None) -> Any:
    if text is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    wrong = [name for name in names if name not in NAMES]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is none of {', '.join(NAMES)}", ctx, param)
    return names


_OPTIONS = several(
    click.option(
        "--lora",
        "is_lora",
        is_flag=True,
        help="Train low-rank corrections of an imported language model, which stays as it is.",
    ),
    click.option("--rank", type=COUNT, help="With --lora: rank of the corrections [8]."),
    click.option("--alpha", type=float, help="With --lora: their scale is alpha / rank [2 rank]."),
    click.option(
        "--targets",
        metavar="q,v",
        callback=_targets,
        help=f"With --lora: the layers to correct, of {', '.join(NAMES)} [q,v].",
    ),
    click.option("--lr", "rate", type=float, help="With --lora: the learning rate [3e-4]."),
    click.option("--length", type=COUNT, help="With --lora: tokens of a sequence [64]."),
    click.option(
        "--memory",
        metavar="SIZE",
        callback=memory_size,
        help="With --lora: limit of memory, such as 200MB; activations are computed again.",
    ),
)


def lora_options(command: Command) -> Command:
    """The command gets them as `lora`, a `LoraOptions`, or None."""
    names = ("rank", "alpha", "targets", "rate", "length", "memory")

    @functools.wraps(command)
    def with_lora(**given: Any) -> Any:
        is_lora = given.pop("is_lora")
        own = {name: given.pop(name) for name in names}
        chosen = [name for name, value in own.items() if value is not None]
        if chosen and not is_lora:
            advice = ", but models have a rate: `wgcc build MODEL.wg --set opt.lr=0.01`"
            option, more = ("lr", advice) if chosen[0] == "rate" else (chosen[0], "")
            raise click.UsageError(f"--{option} needs --lora{more}")
        if not is_lora:
            return command(lora=None, **given)
        from wgcc.from_gguf.lora import LoraOptions

        return command(lora=LoraOptions(**own, batch=given["batch"]), **given)

    return _OPTIONS(with_lora)


def default_steps(lora: LoraOptions | None) -> int:
    return LORA_STEPS if lora else STEPS


def learning_bundle(folder: Path, data: Path | None, options: LoraOptions) -> Path:
    """The folder's bundle that trains; builds it unless it is there."""
    from wgcc.errors import WgError
    from wgcc.from_gguf.lora import prepare_lora

    if data is None:
        raise click.UsageError("give a text, or JSON lines, to learn: wgcc train FOLDER notes.txt")
    try:
        bundle, is_new = prepare_lora(folder, options)
    except WgError as error:
        print_error(error)
        raise click.exceptions.Exit(1) from None
    if is_new:
        say(f"built {bundle}, which trains, from {folder / 'lora.wg'}")
    return bundle


def learned_rows(plan: Plan, folder: Path, path: Path) -> Data:
    """The rows of a file, with what the model is to learn of them."""
    from wgcc_runtime.data.text_rows import IGNORED, read_rows
    from wgcc_runtime.errors import WgccError

    if plan.tokens is None or plan.tokens.open is None:
        raise WgccError("text", f"{folder} has no vocabulary: it cannot read text", str(folder))
    length = plan.entries["train"].inputs["ids"].shape[1]
    data = read_rows(path, plan.tokens.open(), chat_form_of(folder), length)
    learned = int((data.arrays["targets"] != IGNORED).sum())
    say(f"{path}: {plural(learned, 'token')} to learn, in {plural(data.rows, 'sequence')}")
    return data


def chat_form_of(folder: Path) -> Any:
    """The form of conversations of the folder's model; None if its template is not known."""
    from wgcc.from_gguf.folder import TEMPLATE
    from wgcc_runtime.chat_form import chat_form

    path = folder / TEMPLATE
    return chat_form(path.read_text(encoding="utf-8")) if path.is_file() else None
