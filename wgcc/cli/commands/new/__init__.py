"""`wgcc new`: starts a project from an example, or from a template for people with data, which is a
model, a file as they have it, and three commands."""

from __future__ import annotations

import shlex
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from wgcc.cli.printing import say
from wgcc.files import data_dir
from wgcc.lazy_numpy import Array

# Pictures of each class.
PICTURES = 30
STARTER_README = """\
# {name}

{what}, made by `{made}`.

    {commands}

`wgcc build` makes a page: open `page/index.html` in a browser (a double click is enough), press
*Train*, and try it. It needs no server and sends nothing anywhere, so you can give the folder, or
that one file, to others. `train` and `run` do the same without a browser.

{data}

How files are read, which options there are, and what the messages mean: wgcc/DATA.md in the
repository of wgcc. The same from Python:

    import wgcc_runtime as wg

    model = wg.load("page")
    data = wg.read_data("{source}", model{options})
    print(data.notes)
    model.fit(data, steps={steps}, every=100)
"""
_EXAMPLE_README = """\
# {name}

{what}, made by `{made}`.

    {commands}

`model.wg` is the model. The data is in {data}: one array for each input of
the entry `train`; batches are drawn along the first axis. The same from Python:

    import wgcc_runtime as wg
    from safetensors.numpy import load_file

    model = wg.load("bundle")
    model.fit(load_file("{source}"), steps={steps}, every=100)
"""


@dataclass(frozen=True, slots=True)
class Template:
    """A new folder: its files, by patterns in examples/, and what to do with them.

    `commands` have a remark each. The README says `data`, and how to train with `source`.
    """

    what: str
    files: Sequence[str]
    source: str
    steps: int
    commands: Mapping[str, str]
    readme: str
    # Of a starter, about.md says it.
    data: str = ""
    # More arguments of `read_data` in the README.
    options: str = ""


def _example(
    name: str, what: str, steps: int, data: Sequence[str], weights: str = "", prompt: str = ""
) -> Template:
    """`data` is what to train and evaluate with; `prompt` what a language model continues."""
    start = f" --weights {weights}" if weights else ""
    evaluate = f" --eval {data[1]}" if len(data) > 1 else ""
    commands = {
        f"wgcc build model.wg{start} -o bundle": "compiles it",
        f"wgcc train bundle {data[0]} --steps {steps}{evaluate}": "trains it",
    }
    if prompt:
        write = "wgcc run bundle decode --weights bundle-trained.safetensors --prompt"
        commands[f'{write} "{prompt}"'] = "lets it write"
    files = (f"{name}/*.wg", f"{name}/*.safetensors")
    listed = " and ".join(f"`{file}`" for file in data)
    return Template(what, files, data[0], steps, commands, _EXAMPLE_README, listed)


def _starter(
    name: str, what: str, source: str, steps: int, predict: str, scale: bool = False
) -> Template:
    """`source` is the file or folder to train with, `predict` what `wgcc run` gets afterwards."""
    scaled, held = " --scale" if scale else "", "" if name == "text" else " --held-out 0.2"
    commands = {
        f"wgcc build model.wg --data {source}{scaled} -o page": "makes a page",
        f"wgcc train page --steps {steps}{held}": "trains with the same data",
        f"wgcc run page {predict} --weights page-trained.safetensors": "uses what it learned",
    }
    files: Sequence[str] = (f"starters/{name}/*.wg", f"starters/{name}/*.csv")
    if name == "text":
        files = ("chargpt/model.wg", "texts/genesis.txt")
    options = ", scale=True" if scale else ""
    return Template(what, files, source, steps, commands, STARTER_README, options=options)


BOTH = ("train.safetensors", "test.safetensors")
TEMPLATES = {
    "sin": _example("sin", "a small network that learns the sine", 1000, ["data.safetensors"]),
    "digits": _example("digits", "a classifier of handwritten digits", 500, BOTH),
    "chargpt": _example(
        "chargpt", "a GPT that learns to write letter by letter", 400, BOTH, prompt="And God said, "
    ),
    "lora": _example(
        "lora",
        "a trained GPT that is fine-tuned to another style with LoRA",
        100,
        BOTH,
        weights="base.safetensors",
        prompt="Shall I compare thee ",
    ),
    "regression": _starter(
        "regression",
        "a page that learns prices from a table",
        "flats.csv",
        600,
        "predict -i new.csv",
        scale=True,
    ),
    "classes": _starter(
        "classes",
        "a page that learns to name things by their measures",
        "iris.csv",
        400,
        "predict -i new.csv",
        scale=True,
    ),
    "images": _starter(
        "images",
        "a page that learns to tell pictures apart",
        "pictures",
        400,
        "predict -i pictures/7/01.png",
    ),
    "text": _starter(
        "text",
        "a page that learns to write like a book",
        "book.txt",
        400,
        'decode --prompt "And God said, "',
    ),
}


@click.command()
@click.argument("name")
@click.option(
    "-t",
    "--template",
    type=click.Choice([*TEMPLATES]),
    default="sin",
    show_default=True,
    help="Which example to start from.",
)
@click.option(
    "--from",
    "table",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="TABLE",
    help="Instead: start from a table of yours (.csv, .tsv, .json).",
)
@click.option("--target", metavar="NAME", help="With --from: the column to learn.")
@click.option(
    "--task",
    type=click.Choice(["regression", "classes"]),
    help="With --from: learn numbers or classes [as the column looks].",
)
@click.option("--decimal", type=click.Choice([",", "."]), help="With --from: the mark in numbers.")
@click.pass_context
def command(
    ctx: click.Context, /, name: str, template: str, table: Path | None, **of_table: str | None
) -> None:
    """Create the folder NAME with a model, data and a README.

    With --from, the model is one for your table: what it learns, from which columns, and how they
    become numbers is decided by looking at the table, and can be changed in the files.
    """
    from wgcc.bundle.folder import is_free

    folder = Path(name)
    if not is_free(folder):
        raise click.UsageError(f"{folder} exists already.")
    _refuse_together(ctx, table, of_table)
    if table is None:
        _start(folder, template)
    else:
        ctx.exit(_start_from_table(folder, table, of_table))


def _refuse_together(
    ctx: click.Context, table: Path | None, of_table: Mapping[str, str | None]
) -> None:
    is_chosen = ctx.get_parameter_source("template") is click.core.ParameterSource.COMMANDLINE
    if table and is_chosen:
        raise click.UsageError("--template and --from both say what to start from: give one.")
    alone = next((option for option, value in of_table.items() if value and not table), None)
    if alone:
        raise click.UsageError(f"--{alone} needs --from TABLE.")


def _start(folder: Path, template: str) -> None:
    from wgcc.bundle.folder import write_new

    chosen, files = TEMPLATES[template], _files(template)
    files["README.md"] = _readme(folder.resolve().name, template).encode("utf-8")
    write_new(files, folder)
    _say_next(folder, chosen.what, chosen.commands)


def _start_from_table(folder: Path, table: Path, of_table: Mapping[str, str | None]) -> int:
    """Makes the page, too; returns the exit code."""
    from wgcc.bundle.folder import write_new
    from wgcc.cli.commands.build import command as build
    from wgcc.cli.commands.new.from_table import project_for

    name = folder.resolve().name
    project = project_for(table, name, **of_table)
    write_new(project.files, folder)
    files = [str(folder / "model.wg"), "--data", str(folder / table.name)]
    out = ["-o", str(folder / "page")]
    code = int(build.main([*files, *project.reading, *out], standalone_mode=False) or 0)
    _say_next(folder, project.what, project.commands)
    return code


def _say_next(folder: Path, what: str, commands: Iterable[str]) -> None:
    say(f"{folder}: {what}. Next:", style="good")
    for line in (f"cd {shlex.quote(str(folder))}", *commands):
        say(f"  {line}")


def _readme(name: str, template: str) -> str:
    chosen, about = TEMPLATES[template], data_dir("examples") / "starters" / template / "about.md"
    folder = "bundle" if chosen.data else "page"
    commands = {
        "wgcc check model.wg": "finds mistakes in the model",
        **chosen.commands,
        f"wgcc show {folder}": "explains what was built",
    }
    return chosen.readme.format(
        name=name,
        what=chosen.what[0].upper() + chosen.what[1:],
        made=f"wgcc new -t {template}",
        commands=command_lines(commands),
        data=chosen.data or about.read_text(encoding="utf-8").strip(),
        source=chosen.source,
        options=chosen.options,
        steps=chosen.steps,
    )


def command_lines(commands: Mapping[str, str]) -> str:
    """Commands with their remarks, as a README shows them."""
    wide = max(map(len, commands))
    return "\n    ".join(f"{line:{wide}}   # {what}" for line, what in commands.items())


def _files(template: str) -> dict[str, bytes]:
    examples, chosen = data_dir("examples"), TEMPLATES[template]
    paths = sorted(path for pattern in chosen.files for path in examples.glob(pattern))
    # A text is called as the commands call it.
    names = {path: chosen.source if path.suffix == ".txt" else path.name for path in paths}
    pictures = _pictures(examples) if template == "images" else {}
    return {**{names[path]: path.read_bytes() for path in paths}, **pictures}


def _pictures(examples: Path) -> dict[str, bytes]:
    """The first digits of examples/digits as pictures, one folder for each class."""
    from wgcc_runtime.weights import load_weights

    arrays = load_weights(examples / "digits" / "train.safetensors")[0]
    pictures: dict[str, bytes] = {}
    for digit in range(10):
        images = arrays["image"][arrays["label"] == digit][:PICTURES]
        for number, image in enumerate(images, 1):
            # 0 is paper, 16 ink.
            pictures[f"pictures/{digit}/{number:02}.png"] = png(255 - image.astype(int) * 255 // 16)
    return pictures


def png(grey: Array) -> bytes:
    """A picture of one byte per pixel."""
    height, width = grey.shape
    rows = b"".join(b"\0" + bytes(int(value) for value in row) for row in grey)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    parts = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
