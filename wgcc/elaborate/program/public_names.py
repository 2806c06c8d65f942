"""Names that callers of a model use: they must be possible in every runtime.

The limits are those of plan.json: runtimes would refuse a bundle that exceeds them.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Mapping

from wgcc.elaborate.report import Place
from wgcc.elaborate.tracing.context import Context
from wgcc.elaborate.tracing.tracer import MOST_AXES
from wgcc.elaborate.tracing.values import LayerDefinition, ParamRef, StateRef
from wgcc.ir.graph import Graph
from wgcc.syntax import ast

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
    "tokens", "valueOf",
    "apply", "generate", "gradients", "has_learned", "undo",
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
