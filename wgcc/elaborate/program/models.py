"""A whole model: its layers, its optimizers and all of its entries, as a program.

`entry predict(…) -> (…) with ema { … }`: entries that read moving averages of parameters. Names
that callers use must be possible in every runtime, within the limits of plan.json.
"""

from __future__ import annotations

import keyword
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from wgcc.elaborate.declarations.layers import instantiate
from wgcc.elaborate.declarations.optimizers import (
    check_optimizer,
    listing,
    report_unmatched,
    step_state,
)
from wgcc.elaborate.program.entries import trace_entry
from wgcc.elaborate.program.vocabulary import check_vocabulary, names_tokens, token_vocabulary
from wgcc.elaborate.program.warnings import warn_of_layers, warn_of_training
from wgcc.elaborate.report import MODEL, Place, Stop
from wgcc.elaborate.tracing.context import Context, Parts
from wgcc.elaborate.tracing.dims import Dim, sizes_of
from wgcc.elaborate.tracing.traced_graph import TracedGraph
from wgcc.elaborate.tracing.tracer import MOST_AXES
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
from wgcc.ir.program import LONGEST_DOC, Init, ModelTensor, Program
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
    warn_of_layers(context, definition)


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
        known[key] = ModelTensor(key, TensorType((), "u32"), init, span=name.span)
    reached = {value.name for graph in graphs.values() for value in graph.state}
    return Program(
        definition.name,
        seed,
        {path: _tensor(ref) for path, ref in parts.params.items()},
        {path: tensor for path, tensor in known.items() if path in reached},
        graphs,
        {entry.name.text: entry.doc[:LONGEST_DOC] for entry in _entries(definition) if entry.doc},
        precision=context.precision,
    )


def _tensor(ref: ParamRef | StateRef) -> ModelTensor:
    trainable = isinstance(ref, ParamRef) and not ref.frozen
    type_ = TensorType(sizes_of(ref.dims), ref.dtype)
    return ModelTensor(ref.path, type_, ref.init, trainable, ref.user_span)


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
    optimizers: dict[str, str] = {}
    for entry in entries:
        if not entry.averages or entry.name.text not in graphs:
            continue
        try:
            _refuse_changes(context, entry, graphs[entry.name.text])
            optimizers[entry.name.text] = _optimizer(context, entry, keeping)
        except Stop:
            continue
    return optimizers


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


RESERVED = {
    **dict.fromkeys(
        ("__proto__", "constructor", "prototype"),
        "every JavaScript object already has a property of that name",
    ),
    "__metadata__": "files of weights and data use that name for something else",
}
# Methods and properties of loaded models, in Python, in JavaScript, or of any object there.
METHODS = frozenset((
    "adapter", "call", "callPrepared", "call_prepared", "checkFinite", "check_finite", "classes",
    "close", "compile_ms", "device", "device_name", "dispose", "entry", "fit", "has_subgroups",
    "load", "loadParams", "load_params", "lost", "is_twin", "map", "map_prepared", "params", "plan",
    "preparation", "profile", "profile_name", "progress", "readData", "recall", "recover", "reset",
    "reset_to_bundle", "restore", "runner", "save", "snapshot", "state", "steps_done", "store",
    "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "tune",
    "tokens", "valueOf", "is_fast",
    "apply", "captured", "generate", "gradients", "has_learned", "undo",
    "chat", "loadAdapter", "load_adapter", "mergeAdapter", "merge_adapter", "replace_params",
    "saveAdapter", "save_adapter",
    "is_closed", "live_settings", "parameters", "set_values", "summary", "values_now",
))  # fmt: skip
LONGEST_NAME, LONGEST_PATH = 127, 255
MOST_PORTS, MOST_ENTRIES, MOST_OPTIMIZERS, MOST_TENSORS = 256, 256, 64, 5_000


def check_public_names(
    context: Context, definition: LayerDefinition, graphs: Mapping[str, Graph]
) -> None:
    """Report names that a bundle cannot have, and numbers of things beyond a plan's limits."""
    node, parts, report = definition.node, context.parts, context.report
    entries = [m for m in node.members if isinstance(m, ast.Function) and m.is_entry]
    for what, name in _names(context, node, entries):
        _check_name(context, what, name.text, name, LONGEST_NAME)
    for entry in entries:
        _check_entry_name(context, entry.name)
    refs: list[ParamRef | StateRef] = [*parts.params.values(), *parts.states.values()]
    for ref in refs:
        _check_name(context, "a parameter or state", ref.path, ref.user_span, LONGEST_PATH)
        _check_axes(context, ref.path, len(ref.dims), ref.user_span)
    for entry in entries:
        graph = graphs.get(entry.name.text, Graph(""))
        for value in graph.inputs:
            _check_axes(context, value.name, len(value.shape), entry.name)
        for port, value in graph.outputs.items():
            _check_axes(context, port, len(value.shape), entry.name)
    counts: list[tuple[int, int, str, Place]] = [
        (len(entries), MOST_ENTRIES, "entries", node.name),
        (len(parts.optimizers), MOST_OPTIMIZERS, "optimizers", node.name),
        (len(refs), MOST_TENSORS, "parameters and states", node.name),
        *((len(entry.values), MOST_PORTS, "inputs", entry.name) for entry in entries),
        *((len(_fields(entry)), MOST_PORTS, "outputs", entry.name) for entry in entries),
    ]
    for count, most, what, place in counts:
        if count > most:
            report.error("WG0608", f"{count} {what} are too many: a bundle has up to {most}", place)


def _names(
    context: Context, node: ast.Layer, entries: list[ast.Function]
) -> Iterator[tuple[str, ast.Identifier]]:
    yield "a model", node.name
    for optimizer in context.parts.optimizers.values():
        yield "an optimizer", optimizer.node.name
    for entry in entries:
        yield "an entry", entry.name
        yield from (("an input", value.name) for value in entry.values)
        yield from (("an output", name) for name in _fields(entry))


def _fields(entry: ast.Function) -> list[ast.Identifier]:
    fields = entry.result.fields if isinstance(entry.result, ast.TupleType) else ()
    return [field.name for field in fields if field.name is not None]


def _check_entry_name(context: Context, name: ast.Identifier) -> None:
    """Warn if an entry cannot be a method of the loaded model in Python or in JavaScript."""
    text = name.text
    reasons = {
        "loaded models have a method or property of that name": text in METHODS,
        "JavaScript takes what has a method `then` for a promise": text == "then",
        "it is a keyword of Python": keyword.iskeyword(text),
        "Python takes a name that begins with `_` for a private one": text.startswith("_"),
    }
    reason = next((reason for reason, holds in reasons.items() if holds), None)
    if reason and text not in RESERVED:
        message = f"entry `{text}` cannot be a method of the loaded model in every runtime"
        problem = context.report.warning("WG0904", message, name, reason)
        problem.note(f'`model.call("{text}", ...)` runs it')


def _check_axes(context: Context, name: str, count: int, at: Place) -> None:
    if count > MOST_AXES:
        text = f"`{name}` has {count} axes; at most {MOST_AXES} are possible"
        context.report.error("WG0608", text, at)


def _check_name(context: Context, what: str, name: str, at: Place, longest: int) -> None:
    if name in RESERVED:
        text = f"`{name}` cannot be the name of {what}"
        problem = context.report.error("WG0607", text, at)
        problem.note(RESERVED[name])
    elif len(name) > longest:
        text = f"this name of {what} has {len(name)} characters; at most {longest} are possible"
        context.report.error("WG0607", text, at)
