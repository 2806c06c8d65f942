"""`%%wg`: a cell of a notebook that is a program, compiled into a model of the notebook."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from wgcc.compile_error import CompileError
from wgcc.errors import WgError
from wgcc.in_memory import compile

USAGE = "%%wg [NAME] [SIZE=NUMBER …] [--model MODEL] [--seed NUMBER]"
# The name of the model in the notebook, unless the first line says another.
USUAL_NAME = "model"


class CellError(Exception):
    """Ends the cell, whose mistakes were shown above."""

    def _render_traceback_(self) -> list[str]:
        """Notebooks print this instead of our frames."""
        return [str(self)]


@dataclass
class CellLine:
    """The words behind `%%wg`, read."""

    name: str = USUAL_NAME
    numbers: dict[str, float] = field(default_factory=dict)
    model: str | None = None
    seed: int | None = None


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext wgcc`."""

    def run(line: str, cell: str) -> None:
        compile_cell(shell, line, cell)

    run.__doc__ = f"Compiles the cell into a model: {USAGE}"
    shell.register_magic_function(run, "cell", "wg")

    def show(line: str, cell: str) -> Any:
        return workbench_cell(shell, line, cell)

    show.__doc__ = "Shows the cell in the workbench, a page that checks, compiles and trains it."
    shell.register_magic_function(show, "cell", "workbench")


def workbench_cell(shell: Any, line: str, cell: str) -> Any:
    """The program in a frame; a mistake of the line, or a missing Node, ends the cell."""
    from wgcc.workbench.frame import HEIGHT, frame

    try:
        height = int(_number("height", line, shell.user_ns)) if line.strip() else HEIGHT
        return frame(cell, height)
    except WgError as failure:
        raise CellError(str(failure)) from None


def compile_cell(shell: Any, line: str, cell: str) -> None:
    """Binds the model to its name in the notebook; a mistake ends the cell without a traceback."""
    try:
        wanted = read_line(line, shell.user_ns)
        # The first line of the cell is not part of the program, but counts in its line numbers.
        model = compile(f"\n{cell}", sizes=wanted.numbers, model=wanted.model, seed=wanted.seed)
    except WgError as failure:
        error = failure if isinstance(failure, CompileError) else CompileError(failure)
        _show(shell, error)
        ending = CellError(_ending(error))
    else:
        shell.user_ns[wanted.name] = model
        print(f"{wanted.name} = {model!r}")
        return
    raise ending


def read_line(line: str, names: Mapping[str, Any]) -> CellLine:
    """`net H=64 rate=0.1 --seed 7`; a number may be the name of one in the notebook."""
    wanted = CellLine()
    words = iter(_words(line))
    for position, word in enumerate(words):
        key, equals, value = word.partition("=")
        if word == "--model":
            wanted.model = _next(words, word)
        elif word == "--seed":
            wanted.seed = int(_number(word, _next(words, word), names))
        elif equals and not key.startswith("-"):
            wanted.numbers[key] = _number(key, value, names)
        elif position == 0 and word.isidentifier():
            wanted.name = word
        else:
            raise WgError(f"%%wg does not understand `{word}`: {USAGE}")
    return wanted


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise WgError(f"%%wg cannot read `{line}`: {error}") from None


def _next(words: Iterator[str], option: str) -> str:
    word = next(words, None)
    if word is None:
        raise WgError(f"%%wg: {option} needs a value: {USAGE}")
    return word


def _number(name: str, text: str, names: Mapping[str, Any]) -> float:
    """Whole numbers stay whole: a size is one, a live setting is not."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    number: Any = names.get(text)
    if isinstance(number, bool) or not hasattr(number, "__float__"):
        raise WgError(f"%%wg: {name} is `{text}`, neither a number nor the name of one")
    # It may be numpy's, which `compile` makes Python's own.
    value: float = number
    return value


def _show(shell: Any, error: CompileError) -> None:
    """As HTML in a notebook, else as text."""
    if not hasattr(shell, "kernel"):
        print(error)
        return
    from IPython.display import HTML, display

    display(HTML(error._repr_html_()))


def _ending(error: CompileError) -> str:
    number = len(error.diagnostics.errors)
    return "the cell was not compiled" + (f": {number} error{'s' * (number > 1)}" if number else "")
