"""`wgcc new`: a folder with a model and data to begin with."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from wgcc.cli.printing import say
from wgcc.paths import data_dir

# template -> (what it is, the file to train with, the file to evaluate with, steps that suffice)
_TEMPLATES = {
    "sin": ("a small network that learns the sine", "data.safetensors", "", 1000),
    "digits": (
        "a classifier of handwritten digits",
        "train.safetensors",
        "test.safetensors",
        500,
    ),
}
# Named in the design; they need ops that wgcc cannot build yet.
_LATER = ("chargpt", "lora")

_README = """\
# {name}

{what}, made by `wgcc new -t {template}`.

    wgcc check model.wg                 finds mistakes in the model
    wgcc build model.wg -o bundle       compiles it
    {train}
    wgcc show bundle                    explains what was built

`model.wg` is the model. The data lies in {data}: one array for each input of
the entry `train`, along whose first axis batches are drawn. The same from Python:

    import wgcc_runtime as wg
    from safetensors.numpy import load_file

    model = wg.load("bundle")
    model.fit(load_file("{first}"), steps={steps}, every=100)
"""


@click.command()
@click.argument("name")
@click.option(
    "-t",
    "--template",
    type=click.Choice([*_TEMPLATES, *_LATER]),
    default="sin",
    show_default=True,
    help="What to begin with.",
)
def command(name: str, template: str) -> None:
    """Make the folder NAME with a model, data and a README."""
    if template in _LATER:
        ready = " and ".join(_TEMPLATES)
        text = f"the template {template} comes with a later version of wgcc; {ready} are here."
        raise click.UsageError(text)
    folder = Path(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise click.UsageError(f"{folder} exists already.")
    folder.mkdir(parents=True, exist_ok=True)
    data = _copy(template, folder)
    readme = _readme(folder.resolve().name, template, data)
    (folder / "README.md").write_text(readme, encoding="utf-8")
    _say_next(folder, template)


def _copy(template: str, folder: Path) -> list[str]:
    """The model and its data; returns the names of the data files."""
    examples = data_dir("examples") / template
    data = sorted(examples.glob("*.safetensors"))
    for file in [examples / "model.wg", *data]:
        shutil.copyfile(file, folder / file.name)
    return [file.name for file in data]


def _train(template: str) -> str:
    _, train, test, steps = _TEMPLATES[template]
    evaluate = f" --eval {test}" if test else ""
    return f"wgcc train bundle {train} --steps {steps}{evaluate}"


def _readme(name: str, template: str, data: list[str]) -> str:
    what, first, _, steps = _TEMPLATES[template]
    return _README.format(
        name=name,
        what=what[0].upper() + what[1:],
        template=template,
        train=_train(template),
        data=" and ".join(f"`{file}`" for file in data),
        first=first,
        steps=steps,
    )


def _say_next(folder: Path, template: str) -> None:
    say(f"{folder}: {_TEMPLATES[template][0]}. Next:", style="good")
    for line in (f"cd {folder}", "wgcc build model.wg -o bundle", _train(template)):
        say(f"  {line}")
