"""`wgcc new`: starts a project from an example, or from a template for people with data, which is a
model, a file as they have it, and three commands."""

from __future__ import annotations

import shlex
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from wgcc.cli.printing import say
from wgcc.files import data_dir
from wgcc.lazy_numpy import Array

# Files of a starter that the new folder gets.
COPIED = (".wg", ".csv")
# Pictures of each class.
PICTURES = 30
_README = """\
# {name}

{what}, made by `wgcc new -t {template}`.

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


@dataclass(frozen=True, slots=True)
class Starter:
    """`source` is the file or folder to train with. Its folder of examples/starters has the rest.

    `predict` are the options of `wgcc run` after the training.
    """

    what: str
    source: str
    steps: int
    predict: str
    scale: bool = False
    held_out: bool = True

    def commands(self) -> dict[str, str]:
        """The three commands, and what each does."""
        scale, held = " --scale" if self.scale else "", " --held-out 0.2" if self.held_out else ""
        weights = "--weights page-trained.safetensors"
        return {
            f"wgcc build model.wg --data {self.source}{scale} -o page": "makes a page",
            f"wgcc train page --steps {self.steps}{held}": "trains with the same data",
            f"wgcc run page {self.predict} {weights}": "uses what it learned",
        }

    def files(self, template: str) -> dict[str, bytes]:
        examples = data_dir("examples")
        folder = examples / "starters" / template
        if template == "text":
            model, book = examples / "chargpt" / "model.wg", examples / "texts" / "genesis.txt"
            return {"model.wg": model.read_bytes(), "book.txt": book.read_bytes()}
        found = {
            file.name: file.read_bytes()
            for file in sorted(folder.iterdir())
            if file.suffix in COPIED
        }
        return {**found, **(_pictures(examples) if template == "images" else {})}

    def readme(self, name: str, template: str, commands: str) -> str:
        about = data_dir("examples") / "starters" / template / "about.md"
        return _README.format(
            name=name,
            what=self.what[0].upper() + self.what[1:],
            template=template,
            commands=commands,
            data=about.read_text(encoding="utf-8").strip(),
            source=self.source,
            options=", scale=True" if self.scale else "",
            steps=self.steps,
        )


STARTERS: Mapping[str, Starter] = {
    "regression": Starter(
        "a page that learns prices from a table",
        "flats.csv",
        600,
        "predict -i new.csv",
        scale=True,
    ),
    "classes": Starter(
        "a page that learns to name things by their measures",
        "iris.csv",
        400,
        "predict -i new.csv",
        scale=True,
    ),
    "images": Starter(
        "a page that learns to tell pictures apart",
        "pictures",
        400,
        "predict -i pictures/7/01.png",
    ),
    "text": Starter(
        "a page that learns to write like a book",
        "book.txt",
        400,
        'decode --prompt "And God said, "',
        held_out=False,
    ),
}


def _pictures(examples: Path) -> dict[str, bytes]:
    """The first digits of examples/digits as pictures, one folder for each class."""
    from wgcc_runtime.weights import load_weights

    arrays = load_weights(examples / "digits" / "train.safetensors")[0]
    found: dict[str, bytes] = {}
    for digit in range(10):
        images = arrays["image"][arrays["label"] == digit][:PICTURES]
        for number, image in enumerate(images, 1):
            # 0 is paper, 16 ink.
            found[f"pictures/{digit}/{number:02}.png"] = png(255 - image.astype(int) * 255 // 16)
    return found


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


@dataclass(frozen=True)
class Template:
    """What an example is, the files to train and evaluate with, and how many steps are enough.

    `weights` is what training starts from, `prompt` the text that a language model continues.
    """

    what: str
    train: str
    test: str
    steps: int
    weights: str = ""
    prompt: str = ""

    def commands(self) -> dict[str, str]:
        """The next commands, and what each does."""
        weights = f" --weights {self.weights}" if self.weights else ""
        evaluate = f" --eval {self.test}" if self.test else ""
        found = {
            f"wgcc build model.wg{weights} -o bundle": "compiles it",
            f"wgcc train bundle {self.train} --steps {self.steps}{evaluate}": "trains it",
        }
        if self.prompt:
            write = "wgcc run bundle decode --weights bundle-trained.safetensors --prompt"
            found[f'{write} "{self.prompt}"'] = "lets it write"
        return found

    def files(self, template: str) -> dict[str, bytes]:
        folder = data_dir("examples") / template
        found = sorted([*folder.glob("*.wg"), *folder.glob("*.safetensors")])
        return {file.name: file.read_bytes() for file in found}

    def readme(self, name: str, template: str, commands: str) -> str:
        return _EXAMPLE_README.format(
            name=name,
            what=self.what[0].upper() + self.what[1:],
            template=template,
            commands=commands,
            data=" and ".join(f"`{file}`" for file in (self.train, self.test) if file),
            train=self.train,
            steps=self.steps,
        )


_TEMPLATES: dict[str, Template | Starter] = {
    "sin": Template("a small network that learns the sine", "data.safetensors", "", 1000),
    "digits": Template(
        "a classifier of handwritten digits", "train.safetensors", "test.safetensors", 500
    ),
    "chargpt": Template(
        "a GPT that learns to write letter by letter",
        "train.safetensors",
        "test.safetensors",
        400,
        prompt="And God said, ",
    ),
    "lora": Template(
        "a trained GPT that is fine-tuned to another style with LoRA",
        "train.safetensors",
        "test.safetensors",
        100,
        weights="base.safetensors",
        prompt="Shall I compare thee ",
    ),
    **STARTERS,
}

_EXAMPLE_README = """\
# {name}

{what}, made by `wgcc new -t {template}`.

    {commands}

`model.wg` is the model. The data is in {data}: one array for each input of
the entry `train`; batches are drawn along the first axis. The same from Python:

    import wgcc_runtime as wg
    from safetensors.numpy import load_file

    model = wg.load("bundle")
    model.fit(load_file("{train}"), steps={steps}, every=100)
"""


@click.command()
@click.argument("name")
@click.option(
    "-t",
    "--template",
    type=click.Choice([*_TEMPLATES]),
    default="sin",
    show_default=True,
    help="Which example to start from.",
)
def command(name: str, template: str) -> None:
    """Create the folder NAME with a model, data and a README."""
    from wgcc.bundle.folder import is_free, write_new

    folder, chosen = Path(name), _TEMPLATES[template]
    if not is_free(folder):
        raise click.UsageError(f"{folder} exists already.")
    files = chosen.files(template)
    files["README.md"] = _readme(folder.resolve().name, template).encode("utf-8")
    write_new(files, folder)
    say(f"{folder}: {chosen.what}. Next:", style="good")
    for line in (f"cd {shlex.quote(str(folder))}", *chosen.commands()):
        say(f"  {line}")


def _readme(name: str, template: str) -> str:
    chosen = _TEMPLATES[template]
    folder = "page" if isinstance(chosen, Starter) else "bundle"
    commands = {
        "wgcc check model.wg": "finds mistakes in the model",
        **chosen.commands(),
        f"wgcc show {folder}": "explains what was built",
    }
    wide = max(map(len, commands))
    lines = "\n    ".join(f"{line:{wide}}   # {what}" for line, what in commands.items())
    return chosen.readme(name, template, lines)
