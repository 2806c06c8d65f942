"""`vocab = tokens("tokenizer.json")`: the files of a vocabulary, read and checked."""

from __future__ import annotations

from pathlib import Path
from typing import TypeGuard

from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.values import Text
from wgcc.syntax import ast
from wgcc.tokens.token_file import TokenFile

NAME = "tokens"
FORMS = (
    '`tokens("tokenizer.json")`, `tokens("vocab.json", "merges.txt")` or `tokens("tokenizer.bin")`'
)


def names_tokens(at: ast.Expr) -> TypeGuard[ast.Call]:
    """Whether a setting is written as `tokens(…)`."""
    return (
        isinstance(at, ast.Call) and isinstance(at.function, ast.Name) and at.function.text == NAME
    )


def token_vocabulary(context: Context, at: ast.Call, folder: Path) -> TokenFile:
    """The tokens of the files; `folder` is that of the program."""
    # Only here, because few models have tokens.
    from wgcc.tokens.read import WrongFile, read_tokens

    texts = [_text(context, argument) for argument in at.arguments]
    if not 1 <= len(texts) <= 2:
        text = f"`tokens` takes one file or two, but this has {len(texts)}"
        raise Stop(context.report.error("WG0210", text, at).help(f"write {FORMS}"))
    paths = [_path(context, text, folder) for text in texts]
    try:
        return read_tokens(paths)
    except WrongFile as error:
        wrong = texts[error.place]
        text = f"cannot use `{wrong.value}` as a vocabulary: {error}"
        raise Stop(context.report.error("WG0701", text, wrong.span)) from error


def _text(context: Context, argument: ast.Argument) -> Text:
    value = context.evaluate(argument.value)
    if argument.name is not None or not isinstance(value, Text):
        found = context.report.error("WG0210", "`tokens` takes names of files", argument)
        raise Stop(found.help(f"write {FORMS}"))
    return value


def _path(context: Context, text: Text, folder: Path) -> Path:
    try:
        path = (folder / text.value).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        found = context.report.error("WG0701", f"cannot read `{text.value}`", text.span)
        raise Stop(found) from error
    if Path(text.value).is_absolute() or not path.is_relative_to(folder.resolve()):
        problem = f"`{text.value}` is outside the folder of the program"
        found = context.report.error("WG0704", problem, text.span)
        raise Stop(found.help("copy the file next to the model, or into a folder beside it"))
    return path
