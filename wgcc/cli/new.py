"""`wgcc new`: a folder with a model and data to start from."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import click

from wgcc.cli.printing import say
from wgcc.cli.starters import STARTERS, Starter
from wgcc.paths import data_dir


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
        return _README.format(
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

_README = """\
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
