"""Checks that a model has as many ids as its `vocab` has characters or tokens.

`vocab = tokens("tokenizer.json")`: the files of a vocabulary, read and checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TypeGuard

from wgcc.elaborate.index_ranges.preimages import carries
from wgcc.elaborate.report import Stop
from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.values import Text
from wgcc.errors import Span
from wgcc.ir.dtypes import INTEGER_RANGES
from wgcc.ir.graph import INTEGERS, Graph, Node, Value
from wgcc.ir.loops import with_rounds
from wgcc.syntax import ast
from wgcc.tokens.token_file import TokenFile


@dataclass(frozen=True)
class IdSizes:
    """A number of ids; `text` says where it comes from: "table `tok.w` has V = 66 rows"."""

    count: int
    text: str
    span: Span | None = None


def check_vocabulary(
    context: Context, vocab: str | TokenFile, at: ast.Expr, graphs: Mapping[str, Graph]
) -> None:
    """Entries that generate text must agree with `vocab`, and so must one table of the model."""
    fits = _fits(vocab)
    wrong = [ids for graph in graphs.values() for ids in _written_ids(graph) if not fits(ids.count)]
    tables = [ids for graph in graphs.values() for ids in _tables(context, graph)]
    if not any(fits(ids.count) for ids in tables):
        wrong += tables
    if not wrong:
        return
    # A table can be reported with its line in the program.
    odd = next((ids for ids in tables if ids.count == wrong[0].count), wrong[0])
    text = f"`vocab` has {_size(vocab)}, but {odd.text}"
    problem = context.report.error("WG0210", text, at)
    problem.help(_advice(vocab))
    if odd.span is not None:
        problem.also(odd.span, "declared here")


def _fits(vocab: str | TokenFile) -> Callable[[int], bool]:
    # Tables of tokens often have more rows, so that their sizes are round.
    if isinstance(vocab, TokenFile):
        return lambda count: count >= vocab.size
    return lambda count: count == len(vocab)


def _size(vocab: str | TokenFile) -> str:
    if isinstance(vocab, TokenFile):
        return f"ids up to {vocab.size - 1}"
    return f"{len(vocab)} characters"


def _advice(vocab: str | TokenFile) -> str:
    if isinstance(vocab, TokenFile):
        return f"a model with these tokens needs at least {vocab.size} ids"
    return "there is one character for each id: change one of the two numbers"


def _tables(context: Context, graph: Graph) -> Iterator[IdSizes]:
    """Parameters that are indexed by ids."""
    for node in with_rounds(graph).nodes:
        ref = context.parts.params.get(node.inputs[0].name) if node.op == "gather" else None
        if ref is not None:
            rows = ref.dims[0]
            yield IdSizes(rows.size, f"the table `{ref.path}` has {rows.full} rows", ref.user_span)


def _written_ids(graph: Graph) -> Iterator[IdSizes]:
    """How many ids there are, if the entry takes an id and returns the next one."""
    input_ids = [value for value in graph.inputs if _is_id(value)]
    output_ids = [value for value in graph.outputs.values() if _is_id(value)]
    if len(input_ids) != 1 or len(output_ids) != 1:
        return
    low, high, _ = graph.entry.ranges.get(input_ids[0].name, (None, 0, None))
    # Ids that are shifted or clamped do not show how many there are.
    if low == 0 and high < INTEGER_RANGES["i32"][1]:
        yield IdSizes(high + 1, f"`{input_ids[0].name}` of `{graph.name}` is one of {high + 1} ids")
    classes = _classes(graph, output_ids[0])
    if classes is not None:
        yield IdSizes(classes, f"`{graph.name}` returns one of {classes} ids")


def _is_id(value: Value) -> bool:
    return value.dtype in INTEGERS and prod(value.shape) == 1


def _classes(graph: Graph, value: Value) -> int | None:
    """The number of classes of an `argmax`; None if `value` does not come from one."""
    producers: dict[Value, Node] = {out: node for node in graph.nodes for out in node.outputs}
    node = producers.get(value)
    while node is not None and carries(node):
        node = producers.get(node.inputs[0])
    if node is None or node.op != "argmax":
        return None
    return node.inputs[0].shape[node.attrs["axis"]]


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
        problem = context.report.error("WG0210", "`tokens` takes names of files", argument)
        raise Stop(problem.help(f"write {FORMS}"))
    return value


def _path(context: Context, text: Text, folder: Path) -> Path:
    try:
        path = (folder / text.value).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        diagnostic = context.report.error("WG0701", f"cannot read `{text.value}`", text.span)
        raise Stop(diagnostic) from error
    if Path(text.value).is_absolute() or not path.is_relative_to(folder.resolve()):
        problem = f"`{text.value}` is outside the folder of the program"
        diagnostic = context.report.error("WG0704", problem, text.span)
        raise Stop(diagnostic.help("copy the file next to the model, or into a folder beside it"))
    return path
