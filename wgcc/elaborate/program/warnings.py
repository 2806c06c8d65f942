"""Warns of what is legal and rarely meant: names that nothing reads or that hide others, and
training that does something else than it seems to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from wgcc.elaborate.builtins import BUILTINS
from wgcc.elaborate.declarations.optimizers import listing
from wgcc.elaborate.tracing.context import Context, Minimized
from wgcc.elaborate.tracing.values import (
    BUILT_IN,
    LayerDefinition,
    LoadedFile,
    OptimizerValue,
)
from wgcc.errors import Span
from wgcc.files import data_dir
from wgcc.ir.graph import Graph, Node, Value
from wgcc.ir.places import AVERAGE
from wgcc.syntax import ast
from wgcc.syntax.tree_text import walk


def warn_of_names(context: Context, file: LoadedFile) -> None:
    """Warn of names in a file of the user that has no errors."""
    own = file.path != (data_dir("grammar") / BUILT_IN).resolve()
    for piece in walk(file.tree):
        if isinstance(piece, ast.Function):
            if own:
                _report_hidden(context, piece)
            _report_locals(context, piece)
        elif isinstance(piece, ast.Test):
            _report_locals(context, piece)


def _report_hidden(context: Context, function: ast.Function) -> None:
    name = function.name
    if name.text in BUILTINS and not function.is_entry:
        text = f"this function hides the built-in function `{name.text}`"
        problem = context.report.warning("WG0909", text, name)
        problem.help("give it another name, or remove it to use the built-in one")


def _report_locals(context: Context, owner: ast.Function | ast.Test) -> None:
    reads = _read_names(owner)
    for block in (piece for piece in walk(owner) if isinstance(piece, ast.Block)):
        for statement, replaced in _bindings(block):
            names = list(_targets(statement.targets))
            unused = all(name.text not in reads or name.text in replaced for name in names)
            if unused and not _is_private(names):
                _report_unused(context, statement, names)
        for function in (each for each in block.statements if isinstance(each, ast.Function)):
            name = function.name
            if name.text not in reads and not name.text.startswith("_"):
                problem = context.report.warning("WG0906", f"nothing uses `{name.text}`", name)
                problem.help("call it, or remove it")


def _bindings(block: ast.Block) -> Iterator[tuple[ast.Bind, frozenset[str]]]:
    """The bindings of a block, each with those of its names that a later one replaces unread."""
    replaced: set[str] = set()
    for statement in reversed(block.statements):
        if isinstance(statement, ast.Bind):
            names = {target.text for target in _targets(statement.targets)}
            yield statement, frozenset(names & replaced)
            replaced |= names
        else:
            replaced -= _bound_inside(statement)
        replaced -= _read_names(statement)


def _bound_inside(statement: ast.Statement) -> set[str]:
    """Names that a loop or a condition may bind."""
    pieces = (piece for piece in walk(statement) if isinstance(piece, ast.Bind))
    return {target.text for piece in pieces for target in _targets(piece.targets)}


def _is_private(names: Sequence[ast.Name]) -> bool:
    return not names or any(name.text.startswith("_") for name in names)


def _report_unused(context: Context, statement: ast.Bind, names: Sequence[ast.Name]) -> None:
    words = ", ".join(f"`{name.text}`" for name in names)
    at = Span(names[0].span.source, names[0].span.start, names[-1].span.end)
    problem = context.report.warning("WG0906", f"nothing uses {words}", at)
    if _has_effects(statement):
        edits = [(name.span, "_") for name in names]
        problem.help("remove it, or call it `_` if its calls have effects", *edits)
    else:
        problem.help("remove it", (_whole_line(statement.span), ""))


def _has_effects(statement: ast.Bind) -> bool:
    """Whether it may write state: built-in functions do not."""
    calls = (piece for value in statement.values for piece in walk(value))
    return any(_is_own_call(piece) for piece in calls)


def _is_own_call(piece: ast.Syntax) -> bool:
    """`scan` calls a function of the user."""
    if isinstance(piece, ast.Call):
        function = piece.function
    elif isinstance(piece, ast.Pipe):
        function = piece.target
    else:
        return False
    if isinstance(function, ast.Call):
        return False
    name = function.text if isinstance(function, ast.Name) else ""
    return not isinstance(function, ast.Dtype) and (name not in BUILTINS or name == "scan")


def _whole_line(span: Span) -> Span:
    """The statement with its line break, if the line holds nothing else."""
    text = span.source.text
    start, end = text.rfind("\n", 0, span.start) + 1, text.find("\n", span.end)
    if end < 0 or text[start : span.start].strip() or text[span.end : end].strip():
        return span
    return Span(span.source, start, end + 1)


def _read_names(piece: ast.Syntax) -> set[str]:
    """Names that it reads; words in strings count, because patterns name sizes."""
    pieces = list(walk(piece))
    bound = {
        id(target)
        for statement in pieces
        if isinstance(statement, ast.Bind)
        for target in _targets(statement.targets)
    }
    names = {each.text for each in pieces if isinstance(each, ast.Name) and id(each) not in bound}
    texts = (each.value for each in pieces if isinstance(each, ast.String))
    return names.union(*(re.findall(r"\w+", text) for text in texts))


def _targets(targets: Sequence[ast.Expr]) -> Iterator[ast.Name]:
    for target in targets:
        if isinstance(target, ast.Name):
            yield target
        elif isinstance(target, ast.TupleExpr):
            yield from _targets(target.items)


def warn_of_layers(context: Context, model: LayerDefinition) -> None:
    """Warn of layers without parameters, such as `Dropout`, that the model's file never names
    again. Those with parameters are reported with these."""
    others = [item for item in model.file.tree.items if isinstance(item, ast.Layer)]
    left_out = {id(item) for item in others if item.is_model and item is not model.node}
    items = (item for item in model.file.tree.items if id(item) not in left_out)
    pieces = [piece for item in items for piece in walk(item)]
    names = [piece.text for piece in pieces if isinstance(piece, (ast.Name, ast.Identifier))]
    texts = (piece.value for piece in pieces if isinstance(piece, ast.String))
    counts = Counter([*names, *(word for text in texts for word in re.findall(r"\w+", text))])
    paths = {part for path in context.parts.params for part in path.split(".")}
    for piece in pieces:
        if isinstance(piece, ast.Submodule) and piece.name.text not in paths:
            name = piece.name
            if counts[name.text] == 1 and not name.text.startswith("_"):
                problem = context.report.warning("WG0901", f"nothing uses `{name.text}`", name)
                problem.help(f"apply it, `x |> {name.text}`, or remove it")


# Entries of these names are meant to train.
TRAINING = ("train", "fit", "train_step", "training_step")


def warn_of_training(
    context: Context,
    entries: Sequence[ast.Function],
    graphs: Mapping[str, Graph],
    averaged: Mapping[str, str],
) -> None:
    """Warn of a model without errors. `averaged`: the optimizer whose averages an entry reads."""
    idle = [entry for entry in entries if _should_train(context, entry, graphs)]
    for entry in idle:
        _report_idle(context, entry)
    if not idle:
        _report_untrained(context)
    _report_shared(context)
    _report_averages(context, averaged)
    for graph in graphs.values():
        _report_new_weights(context, graph)


def _should_train(context: Context, entry: ast.Function, graphs: Mapping[str, Graph]) -> bool:
    graph = graphs.get(entry.name.text)
    if graph is None or graph.entry.trains or not context.parts.optimizers:
        return False
    name = entry.name.text
    return name in TRAINING or (name.startswith("train") and not context.parts.minimized)


def _report_idle(context: Context, entry: ast.Function) -> None:
    text = f"entry `{entry.name.text}` does not train: it has no `minimize`"
    problem = context.report.warning("WG0912", text, entry.name)
    optimizers = list(context.parts.optimizers)
    edits = _insertion(entry, optimizers[0]) if len(optimizers) == 1 else []
    problem.help(f"add `minimize loss with {optimizers[0]}` before `return`", *edits)


def _insertion(entry: ast.Function, optimizer: str) -> list[tuple[Span, str]]:
    """An edit, if the entry has a `loss`, and returns at its end."""
    statements = entry.body.statements if isinstance(entry.body, ast.Block) else ()
    bound = any(
        isinstance(target, ast.Name) and target.text == "loss"
        for statement in statements
        if isinstance(statement, ast.Bind)
        for target in statement.targets
    )
    if not bound or not isinstance(statements[-1], ast.Return):
        return []
    span = statements[-1].span
    indent = span.source.line_indent(span.line)
    line = f"minimize loss with {optimizer}\n{indent}"
    return [(Span(span.source, span.start, span.start), line)]


def _all_minimized(context: Context) -> list[Minimized]:
    return [each for in_entry in context.parts.minimized.values() for each in in_entry]


def _report_untrained(context: Context) -> None:
    used = {each.optimizer for each in _all_minimized(context)}
    for name, optimizer in context.parts.optimizers.items():
        if name not in used:
            text = f"optimizer `{name}` is never used"
            problem = context.report.warning("WG0907", text, optimizer.node.name)
            problem.help(f"an entry trains with it by `minimize loss with {name}`")


def _report_shared(context: Context) -> None:
    """Two optimizers that train the same parameters, where one does not say which it trains."""
    reported: set[frozenset[str]] = set()
    for pair in combinations(_all_minimized(context), 2):
        names = frozenset(each.optimizer for each in pair)
        paths = [path for path in pair[0].paths if path in set(pair[1].paths)]
        open_ = [each for each in pair if not each.node.selectors]
        if len(names) == 2 and paths and open_ and names not in reported:
            reported.add(names)
            other = next(each for each in pair if each is not open_[0])
            _report_pair(context, open_[0], other, paths)


def _report_pair(context: Context, one: Minimized, other: Minimized, paths: list[str]) -> None:
    text = f"`{one.optimizer}` and `{other.optimizer}` both train {listing(paths)}"
    problem = context.report.warning("WG0910", text, one.node)
    problem.also(other.node.span, f"`{other.optimizer}` trains them here")
    alone = [path for path in one.paths if path not in set(paths)]
    part, dot, _ = (alone or paths)[0].partition(".")
    pattern = f"{part}.*" if dot else part
    problem.help(
        f'say which parameters each of them trains: `with {one.optimizer} over "{pattern}"`; '
        '`over "*"` if both are to train all'
    )


def _report_averages(context: Context, averaged: Mapping[str, str]) -> None:
    used = {each.optimizer for each in _all_minimized(context)}
    for name, optimizer in context.parts.optimizers.items():
        setting = _setting(optimizer, AVERAGE)
        if setting is not None and name in used and name not in averaged.values():
            text = f"no entry reads the averages that `{name}` keeps"
            problem = context.report.warning("WG0908", text, setting)
            problem.help(
                "write `with ema` after the results of an entry: "
                "`entry predict(…) -> (…) with ema`; without that, only checkpoints have them"
            )


def _setting(optimizer: OptimizerValue, name: str) -> ast.Setting | None:
    settings = (item for item in optimizer.node.items if isinstance(item, ast.Setting))
    return next((item for item in settings if item.name.text == name), None)


def _report_new_weights(context: Context, graph: Graph) -> None:
    """Outputs that are computed from the batch with parameters that `minimize` has changed."""
    updates = [node for node in graph.nodes if node.op == "minimize"]
    if not updates:
        return
    others = [node for node in graph.nodes if node.op != "minimize"]
    new = {value for node in updates for value in node.outputs[:-1]}
    late = _values_after(others, new) & _values_after(others, set(graph.inputs))
    # A later loss is minimized with them: that of a generator, after its critic has learnt.
    losses = _values_before(graph.nodes, {node.inputs[0] for node in updates})
    producers = {value: node for node in graph.nodes for value in node.outputs}
    for name, value in graph.outputs.items():
        if value in late and value not in losses:
            _report_late(context, name, producers[value], updates[-1])


def _report_late(context: Context, output: str, node: Node, update: Node) -> None:
    if node.span is None:
        return
    text = f"`{output}` is computed with the new weights, after `minimize`"
    problem = context.report.warning("WG0913", text, node.span)
    if update.span is not None:
        problem.also(update.span, "they change here")
    problem.note("that runs the model forward a second time")
    problem.help("compute it before `minimize`, from the values that the loss uses")


def _values_after(nodes: Iterable[Node], start: set[Value]) -> set[Value]:
    """Every value that depends on one of `start`; nodes come after what they read."""
    reached = set(start)
    for node in nodes:
        if not reached.isdisjoint(node.inputs):
            reached.update(node.outputs)
    return reached


def _values_before(nodes: Sequence[Node], ends: set[Value]) -> set[Value]:
    """Every value that one of `ends` depends on."""
    needed = set(ends)
    for node in reversed(nodes):
        if not needed.isdisjoint(node.outputs):
            needed.update(node.inputs)
    return needed
