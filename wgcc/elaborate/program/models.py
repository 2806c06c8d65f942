"""A whole model: its layers, its optimizers and all of its entries, as a program.

`entry predict(…) -> (…) with ema { … }`: entries that read moving averages of parameters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from wgcc.elaborate.declarations.layers import instantiate
from wgcc.elaborate.declarations.optimizers import check_optimizer, step_state
from wgcc.elaborate.declarations.selectors import listing, report_unmatched
from wgcc.elaborate.program.entries import trace_entry
from wgcc.elaborate.program.public_names import check_public_names
from wgcc.elaborate.program.training_warnings import warn_of_training
from wgcc.elaborate.program.vocabulary import check_vocabulary, names_tokens, token_vocabulary
from wgcc.elaborate.report import MODEL, Stop
from wgcc.elaborate.tracing.context import Context, Parts
from wgcc.elaborate.tracing.dims import Dim, sizes_of
from wgcc.elaborate.tracing.traced_graph import TracedGraph
from wgcc.elaborate.tracing.values import (
    DtypeValue,
    LayerDefinition,
    LayerType,
    LayerValue,
    ParamRef,
    StateRef,
    Text,
    describe,
)
from wgcc.errors import Span
from wgcc.ir.dtypes import FLOATS
from wgcc.ir.graph import Graph, TensorType
from wgcc.ir.places import AVERAGE, DRAWS_STATE, SEED_STATE
from wgcc.ir.program import Init, Program, Tensor
from wgcc.syntax import ast
from wgcc.tokens.token_file import TokenFile

LARGEST_SEED = 2**32 - 1
LARGEST_VOCAB = 2**16


def elaborate_model(
    context: Context, definition: LayerDefinition, seed: int | None
) -> Program | None:
    """The program of a model; None if an error was reported."""
    parts = Parts()
    context.budget.node(definition.node.name, False, MODEL)
    with context.separate(parts, TracedGraph(), definition.file.scope):
        try:
            name = definition.node.name.span
            model = instantiate(context, LayerType(definition), "", False, name)
        except Stop:
            return None
        for replacement in parts.replacements:
            if not replacement.matched:
                report_unmatched(context, replacement)
        written_seed, vocab = _read_settings(context, model)
        for optimizer in parts.optimizers.values():
            check_optimizer(context, optimizer)
        graphs = _trace_entries(context, model)
        averaged = averaged_entries(context, _entries(definition), graphs)
        check_public_names(context, definition, graphs)
        if vocab:
            check_vocabulary(context, vocab, parts.settings["vocab"], graphs)
        if context.report.diagnostics.errors:
            return None
        _warn_unused(context, definition, graphs)
        warn_of_training(context, list(_entries(definition)), graphs, averaged)
        chosen = seed if seed is not None else written_seed
        program = _program(context, definition, graphs, chosen)
        return replace(program, vocab=vocab, averaged=averaged)


def trace_one(context: Context, definition: LayerDefinition, entry: str) -> Graph | None:
    """The graph of one entry of a model; None if an error was reported."""
    with context.separate(Parts(), TracedGraph(), definition.file.scope):
        try:
            name = definition.node.name.span
            model = instantiate(context, LayerType(definition), "", False, name)
        except Stop:
            return None
        # A vocabulary is a large file, and no graph depends on it.
        context.parts.settings.pop("vocab", None)
        _read_settings(context, model)
        for optimizer in context.parts.optimizers.values():
            check_optimizer(context, optimizer)
        (chosen,) = [each for each in _entries(definition) if each.name.text == entry]
        return trace_entry(context, model, chosen)


def _read_settings(context: Context, model: LayerValue) -> tuple[int, str | TokenFile]:
    """The model's seed and vocabulary; its precision is stored in the context."""
    seed, context.precision = 0, "f32"
    vocab: str | TokenFile = ""
    for name, expr in context.parts.settings.items():
        try:
            with context.within(model.scope, ""):
                if name == "vocab" and names_tokens(expr):
                    folder = model.definition.file.path.parent
                    vocab = token_vocabulary(context, expr, folder)
                    continue
                value = context.evaluate(expr)
            if name == "seed":
                seed = _seed(context, value, expr)
            elif name == "vocab":
                vocab = _vocab(context, value, expr)
            else:
                context.precision = _precision(context, value, expr)
        except Stop:
            continue
    return seed, vocab


def _seed(context: Context, value: object, at: ast.Expr) -> int:
    if not isinstance(value, Dim) or not 0 <= value.size <= LARGEST_SEED:
        text = (
            f"`seed` must be a whole number from 0 to {LARGEST_SEED}, but this is {describe(value)}"
        )
        raise Stop(context.report.error("WG0210", text, at))
    return value.size


def _vocab(context: Context, value: object, at: ast.Expr) -> str:
    if not isinstance(value, Text) or not 0 < len(value.value) <= LARGEST_VOCAB:
        text = (
            f"`vocab` must be a string of 1 to {LARGEST_VOCAB} characters, one for each id from 0, "
            f"or `tokens(…)` with a file, but this is {describe(value)}"
        )
        raise Stop(context.report.error("WG0210", text, at))
    twice = [letter for letter, times in Counter(value.value).items() if times > 1]
    if twice:
        text = f"`vocab` holds {twice[0]!r} twice, so it would have two ids"
        raise Stop(context.report.error("WG0210", text, at))
    return value.value


def _precision(context: Context, value: object, at: ast.Expr) -> str:
    if not isinstance(value, DtypeValue) or value.name not in FLOATS:
        text = f"`precision` must be f32 or f16, but this is {describe(value)}"
        raise Stop(context.report.error("WG0210", text, at))
    return value.name


def _trace_entries(context: Context, model: LayerValue) -> dict[str, Graph]:
    graphs: dict[str, Graph] = {}
    places: dict[str, Span] = {}
    for entry in _entries(model.definition):
        name = entry.name.text
        if name in places:
            text = f"entry `{name}` is defined twice"
            problem = context.report.error("WG0204", text, entry.name, "second definition")
            problem.also(places[name], "first definition")
            continue
        places[name] = entry.name.span
        graph = trace_entry(context, model, entry)
        if graph is not None:
            graphs[name] = graph
    return graphs


def _entries(definition: LayerDefinition) -> Iterator[ast.Function]:
    for member in definition.node.members:
        if isinstance(member, ast.Function) and member.is_entry:
            yield member


def _warn_unused(
    context: Context, definition: LayerDefinition, graphs: Mapping[str, Graph]
) -> None:
    if not graphs:
        name = definition.node.name
        text = f"model `{name.text}` has no entry, so there is nothing to build"
        problem = context.report.warning("WG0603", text, name)
        problem.help("add one: `entry predict(x: f32[1, 4]) -> (y: f32[1, 2]) = forward(x)`")
        return
    used = {value.name for graph in graphs.values() for value in graph.params}
    by_line: dict[Span, list[str]] = {}
    for path, ref in context.parts.params.items():
        if path not in used:
            by_line.setdefault(ref.user_span, []).append(path)
    for span, paths in by_line.items():
        noun = "parameter" if len(paths) == 1 else "parameters"
        text = f"never used by an entry: {noun} {listing(paths)}"
        context.report.warning("WG0901", text, span)


def _program(
    context: Context, definition: LayerDefinition, graphs: dict[str, Graph], seed: int
) -> Program:
    parts, name = context.parts, definition.node.name
    known = {path: _tensor(ref) for path, ref in parts.states.items()}
    for optimizer in parts.optimizers.values():
        ref = step_state(optimizer)
        known[ref.path] = _tensor(ref)
    for key, first in ((SEED_STATE, float(seed)), (DRAWS_STATE, 0.0)):
        init = Init("value", values=(first,))
        known[key] = Tensor(key, TensorType((), "u32"), init, span=name.span)
    reached = {value.name for graph in graphs.values() for value in graph.state}
    return Program(
        definition.name,
        seed,
        {path: _tensor(ref) for path, ref in parts.params.items()},
        {path: tensor for path, tensor in known.items() if path in reached},
        graphs,
        {entry.name.text: entry.doc for entry in _entries(definition) if entry.doc},
        precision=context.precision,
    )


def _tensor(ref: ParamRef | StateRef) -> Tensor:
    trainable = isinstance(ref, ParamRef) and not ref.frozen
    type_ = TensorType(sizes_of(ref.dims), ref.dtype)
    return Tensor(ref.path, type_, ref.init, trainable, ref.user_span)


def averaged_entries(
    context: Context, entries: Iterable[ast.Function], graphs: Mapping[str, Graph]
) -> dict[str, str]:
    """The optimizer whose averages an entry reads, by the name of the entry."""
    keeping = sorted(
        {
            node.attrs["optimizer"]
            for graph in graphs.values()
            for node in graph.nodes
            if node.op == "minimize" and AVERAGE in node.attrs["settings"]
        }
    )
    found: dict[str, str] = {}
    for entry in entries:
        if not entry.averages or entry.name.text not in graphs:
            continue
        try:
            _refuse_changes(context, entry, graphs[entry.name.text])
            found[entry.name.text] = _optimizer(context, entry, keeping)
        except Stop:
            continue
    return found


def _optimizer(context: Context, entry: ast.Function, keeping: list[str]) -> str:
    words, at = [name.text for name in entry.averages], _place(entry)
    if words[-1] != AVERAGE or len(words) > 2:
        text = f"after `with` comes `{AVERAGE}` or `NAME.{AVERAGE}`, with the name of an optimizer"
        raise Stop(context.report.error("WG0610", text, at))
    if not keeping:
        text = "no optimizer that an entry uses keeps averages of its parameters"
        problem = context.report.error("WG0610", text, at)
        raise Stop(problem.help(f"give it the setting `{AVERAGE} = 0.999`"))
    if len(words) == 2:
        if words[0] not in keeping:
            text = f"`{words[0]}` is no optimizer that keeps averages"
            problem = context.report.error("WG0610", text, entry.averages[0])
            raise Stop(problem.note(f"these do: {listing(keeping)}"))
        return words[0]
    if len(keeping) > 1:
        text = f"several optimizers keep averages: {listing(keeping)}"
        problem = context.report.error("WG0610", text, at)
        raise Stop(problem.help(f"say which: `with {keeping[0]}.{AVERAGE}`"))
    return keeping[0]


def _refuse_changes(context: Context, entry: ast.Function, graph: Graph) -> None:
    changed = [value.name for value in graph.params if value.name in graph.writes]
    if changed:
        text = f"an entry with averages cannot change parameters such as {listing(changed)}"
        raise Stop(context.report.error("WG0610", text, _place(entry)))


def _place(entry: ast.Function) -> Span:
    first, last = entry.averages[0].span, entry.averages[-1].span
    return Span(first.source, first.start, last.end)
