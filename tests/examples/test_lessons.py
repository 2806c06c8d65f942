"""The lessons of examples/README.md work as written, commands and programs alike."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import golden
from adapters import ROOT, environment
from hinted import corrected, fixes
from pytorch_hints import LAYERS as LAYER_CALLS
from pytorch_hints import SCHEDULES as SCHEDULE_CALLS
from pytorch_hints import expressions, lines
from wgcc.elaborate.from_pytorch import FUNCTIONS, LAYERS, OPTIMIZERS, SCHEDULES
from wgcc.elaborate.from_pytorch.names import SAME_NAMES

PAGE = ROOT / "examples" / "README.md"
TEXT = PAGE.read_text(encoding="utf-8")
FILE = re.compile(r"<!-- file (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
# The commands of a lesson, and what they print: a line with … stands for any text there.
COMMANDS = re.compile(r"```sh\n(.*?)```(?:\n\nIt prints[^\n]*:\n\n```text\n(.*?)```)?", re.DOTALL)
# Enough to see that the loss falls; a reader waits for more.
STEPS = {"gpt": 3}


def test_lessons_work_as_written(tmp_path: Path) -> None:
    for name, content in FILE.findall(TEXT):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
    lessons = COMMANDS.findall(TEXT)
    outputs = [run(commands, tmp_path) for commands, _ in lessons]
    assert len(lessons) == 7
    for output, (_, shown) in zip(outputs, lessons, strict=True):
        assert shown, "a lesson says what its commands print"
        check_shown(output, shown)
    slope, offset = (
        float(re.search(rf"{name} .*\n(\S+)", outputs[0])[1])  # type: ignore[index]
        for name in ("slope", "offset")
    )
    assert (round(slope, 3), round(offset, 3)) == (2.0, 1.0)
    losses = [float(number) for number in re.findall(r"loss (\d\.\d+)", outputs[4])]
    assert losses[-1] < 0.5 * losses[0]
    assert "And God said, " in outputs[5]
    assert re.findall(r"(setosa|versicolor|virginica)$", outputs[6], re.MULTILINE) == [
        "setosa", "versicolor", "virginica",
    ]  # fmt: skip


def check_shown(output: str, shown: str) -> None:
    """The lines stand in the output in this order, perhaps with others in between."""
    lines = iter(output.splitlines())
    for line in shown.splitlines():
        pattern = re.compile(".*".join(map(re.escape, line.split("…"))))
        assert any(pattern.fullmatch(printed.rstrip()) for printed in lines), f"{line}\n{output}"


def run(commands: str, folder: Path) -> str:
    for lesson, steps in STEPS.items():
        if f"new {lesson} " in commands:
            commands = re.sub(r"--steps \d+", f"--steps {steps}", commands)
            commands = re.sub(r"-n \d+", "-n 4", commands)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    env = {**os.environ, **environment("lavapipe"), "PATH": path}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout}"
    return done.stdout


def test_table_of_pytorch_names(bless: bool) -> None:
    head = "| PyTorch | write | remark |\n|---|---|---|\n"
    start = TEXT.index(head)
    end = TEXT.index("\n\n", start) + 1
    produced = head + "".join(f"{row}\n" for row in rows())
    golden.check_text(PAGE, TEXT[:start] + produced + TEXT[end:], bless)


def rows() -> Iterator[str]:
    """The first expression of the tests with each name, and what hints make of it."""
    samples = {name: text for text in reversed(expressions()) for name in names_in(text)}
    samples |= {
        text.split("(")[0].removeprefix("nn."): text for text in reversed(lines(LAYER_CALLS))
    }
    samples |= {text.split("(")[0]: text for text in reversed(lines(SCHEDULE_CALLS))}
    tables = {**FUNCTIONS, **SAME_NAMES, **LAYERS, **OPTIMIZERS, **SCHEDULES}
    for name, known in sorted(tables.items(), key=lambda item: item[0].lower()):
        sample = samples.get(name)
        code = known.general if sample is None else translated(sample) or known.general
        if code.replace(" ", "") != (sample or "").replace(" ", ""):
            yield f"| `{sample or name}` | {f'`{code}`' if code else ''} | {known.remark} |"


def names_in(expression: str) -> list[str]:
    return re.findall(r"([A-Za-z]\w*)\(", expression)


def translated(sample: str) -> str:
    if sample in expressions():
        text, _ = corrected(sample)
        return re.findall(r"\n    r = (.*)\n", text)[0]
    members = "param w: f32[2] = 1.0\n  optimizer opt: sgd { lr = 0.5 }\n  "
    is_layer = sample.startswith("nn.")
    member = f"f: {sample}" if is_layer else f"fn f() -> f32 = {sample}"
    ((advice, _),) = fixes(
        f"model M {{\n  {members}{member}\n  entry run() -> (y: f32) = f()\n}}\n"
    )[:1]
    return re.findall(r"write `(.*?)`", advice)[0]
