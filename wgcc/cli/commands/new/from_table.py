"""`wgcc new --from TABLE`: a model, a page and the commands for somebody's own table."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wgcc.cli.commands.new import STARTER_README, command_lines
from wgcc.cli.commands.new.outline import Outline, outline_table
from wgcc.cli.data import DataOptions, with_advice
from wgcc.cli.failures import failures
from wgcc.cli.printing import plural, say
from wgcc.files import data_dir

# More rows are trained with in larger batches.
MANY_ROWS = 2000


_ABOUT = """\
`{file}` is a copy of your table, `{target}` the column that the model learns. The page and the
commands read all other columns that say something: numbers, also with units and separated
thousands; names, as a number for each name; dates, as year, month and so on. A file to predict for,
such as `new.csv`, has the same columns but the one to predict.
"""


@dataclass(frozen=True, slots=True)
class Project:
    """`reading` are the options by which the table is read; `commands` have a remark each."""

    what: str
    files: Mapping[str, bytes]
    reading: Sequence[str]
    commands: Mapping[str, str]


def project_for(
    path: Path, name: str, target: str | None, task: str | None, decimal: str | None
) -> Project:
    """The project to write into the folder `name`."""
    from wgcc_runtime.data.problems import DataError

    with failures():
        try:
            outline = outline_table(path, target, task, decimal)
        except DataError as error:
            raise with_advice(error) from None
        table = path.read_bytes()
    for note in outline.notes:
        say(f"note: {note}")
    kind = plural(outline.classes, "class", "classes") if outline.classes else "a number"
    numbers = plural(outline.columns, "number")
    what = f"a page that learns `{outline.target}`, {kind}, from {numbers} per row"
    reading = DataOptions(
        target=outline.target, scale=True, encode=True, missing=outline.missing, decimal=decimal
    )
    commands = _commands(path, reading.words())
    readme = _readme(path.name, name, what, commands, outline, decimal)
    files = {"model.wg": _model(path.name, outline, name), path.name: table}
    return Project(what, {**files, "README.md": readme.encode("utf-8")}, reading.words(), commands)


def _readme(
    file: str,
    name: str,
    what: str,
    commands: Mapping[str, str],
    outline: Outline,
    decimal: str | None,
) -> str:
    remarks = "".join(f"- {note}\n" for note in outline.notes)
    cells = ", missing='mean'" if outline.missing == "mean" else ""
    cells += f", decimal={decimal!r}" if decimal else ""
    return STARTER_README.format(
        name=name,
        what=what[0].upper() + what[1:],
        made=f"wgcc new {shlex.quote(name)} --from {shlex.quote(file)}",
        commands=command_lines(commands),
        data=f"{_ABOUT.format(file=file, target=outline.target)}\n{remarks}".strip(),
        source=file,
        options=f", target={outline.target!r}, scale=True, encode=True{cells}",
        steps=600,
    )


def _commands(path: Path, reading: Sequence[str]) -> dict[str, str]:
    data = shlex.join(["--data", path.name, *reading])
    new = shlex.join(["-i", f"new{path.suffix}"])
    return {
        f"wgcc build model.wg {data} -o page": "makes the page again",
        "wgcc train page --held-out 0.2 --epochs 200 --patience 10": "trains with the same data",
        f"wgcc run page predict {new} --weights page-trained.safetensors": "uses what it learned",
    }


def _model(file: str, outline: Outline, name: str) -> bytes:
    kind = "classes" if outline.classes else "regression"
    template = data_dir("examples") / "starters" / "table" / f"{kind}.wg"
    _, text = template.read_text(encoding="utf-8").split("\n", 1)
    sizes = {"Columns": outline.columns, "Classes": outline.classes}
    sizes |= {"B": 64 if outline.rows > MANY_ROWS else 16}
    for dim, size in sizes.items():
        text = re.sub(rf"(?m)^dim {dim} = \d+", f"dim {dim} = {size}", text)
    text = text.replace("model Table", f"model {_model_name(name)}")
    learned = " ".join(outline.target.split())
    return f"/// Learns `{learned}` from the other columns of {file}.\n{text}".encode()


def _model_name(name: str) -> str:
    """`my-flats` → `MyFlats`"""
    words = "".join(letter if letter.isascii() and letter.isalnum() else " " for letter in name)
    joined = "".join(word[0].upper() + word[1:] for word in words.split())
    return joined if joined[:1].isalpha() else "Table" + joined
