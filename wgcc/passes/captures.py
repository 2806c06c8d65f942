"""Adds the values that a build captures to the outputs of entries.

`add_captures` runs on the program as traced, where values have the names of the source: what
patterns match becomes an output, in the body of a loop a stack of all rounds first. Values whose
gradients are wanted are marked; `settle_captures`, after autograd and the optimizers, makes outputs
of those gradients, and of what parameters, state and moments are when a call ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from wgcc.errors import Span, WgError
from wgcc.ir.graph import FLOATS, Builder, Capture, Graph, Node, Value
from wgcc.ir.loops import (
    LoopNode,
    bodies,
    loop_of,
    map_bodies,
    stack_type,
    with_body,
)
from wgcc.ir.program import Program, Wanted, capture_key, counts_key
from wgcc.ops.attention_grad import attention_weights
from wgcc.ops.markers import DIFFERENTIATING, WATCH, WATCHED
from wgcc.passes.loss_scale import divide_by_scale
from wgcc.passes.rewrite import LIKE_AN_OP, builder_for, without_marks
from wgcc.spelling import did_you_mean

GRADIENT = "d."
# Names with a slash are those of optimizers and of random numbers; a glob without one matches none.
SLASH = "/"
WEIGHTS = "weights"
# So many names are listed where a pattern matches none.
SHOWN = 12
# The largest binding that any device grants: 4 GiB, in words of 32 bits.
LARGEST = 2**30 - 1


def add_captures(program: Program, patterns: Sequence[Wanted], strict: bool = True) -> Program:
    """`strict`: a pattern that matches nothing, in no entry, is an error."""
    if strict:
        _check_entries(program, patterns)
    chosen = {n: _choose(graph, patterns) for n, graph in program.entries.items()}
    for pattern in patterns if strict else ():
        if SLASH not in pattern.glob and not any(pattern in c.used for c in chosen.values()):
            raise _matches_nothing(pattern, list(chosen.values()))
    entries = {n: _add(graph, chosen[n]) for n, graph in program.entries.items()}
    return replace(program, entries=entries, capture=tuple(patterns))


def names_to_capture(graph: Graph) -> dict[str, tuple[str, int]]:
    """Names that globs can match in an entry, with types, and lines of the source."""
    own = dict(_names_of_values(graph))
    stored = {v.name: v for v in (*graph.params, *graph.state) if SLASH not in v.name}
    types = {name: str(own[name].type) for name in _source_names(own)}
    types |= {name: str(value.type) for name, value in stored.items()}
    for node in _attentions(graph):
        shape = (*node.inputs[0].shape[:3], node.inputs[1].shape[2])
        types[_weights_name(node)] = f"f32{list(shape)}"
    lines = {
        value.name: node.span.line
        for level in _levels(graph)
        for node in level.nodes
        if node.span
        for value in node.outputs
    }
    return {n: (text, lines.get(own[n].name, 0) if n in own else 0) for n, text in types.items()}


def _check_entries(program: Program, patterns: Sequence[Wanted]) -> None:
    for pattern in patterns:
        if not pattern.glob:
            raise WgError("capture: a pattern is empty; write names such as `blocks.*.x`")
        if pattern.entry and pattern.entry not in program.entries:
            known = ", ".join(program.entries)
            raise WgError(f"capture {pattern.text}: there is no entry {pattern.entry} ({known})")


@dataclass(slots=True)
class _Chosen:
    """Names of values that patterns match in one entry, with true if statistics alone are kept.

    `gradients` are names of values whose gradients are wanted, `stored` those of parameters and
    state. `names` are all that globs can match.
    """

    values: dict[str, bool] = field(default_factory=dict)
    gradients: dict[str, bool] = field(default_factory=dict)
    stored: dict[str, bool] = field(default_factory=dict)
    used: set[Wanted] = field(default_factory=set)
    names: list[str] = field(default_factory=list)


def _choose(graph: Graph, patterns: Sequence[Wanted]) -> _Chosen:
    own = dict(_names_of_values(graph))
    stored = [value.name for value in (*graph.params, *graph.state) if SLASH not in value.name]
    trains = any(node.op in DIFFERENTIATING for part in _levels(graph) for node in part.nodes)
    varying = [name for name, value in own.items() if value.dtype in FLOATS]
    able = [*varying, *(value.name for value in graph.params if value.dtype in FLOATS)]
    chosen = _Chosen(names=[*_source_names(own), *stored])
    for name in sorted(part for level in _levels(graph) for part in level.entry.captured):
        chosen.values[name] = False
    for pattern in sorted(patterns, key=lambda pattern: not pattern.stats):
        if pattern.entry not in ("", graph.name) or SLASH in pattern.glob:
            continue
        if pattern.glob.startswith(GRADIENT):
            names = _matching(pattern.glob[len(GRADIENT) :], able) if trains else []
            chosen.gradients |= dict.fromkeys(names, pattern.stats)
        else:
            names = _matching(pattern.glob, [*own, *stored])
            for name in names:
                of = chosen.values if name in own else chosen.stored
                of[name] = pattern.stats
        chosen.used |= {pattern} if names else set()
    return chosen


def _matching(glob: str, names: Sequence[str]) -> list[str]:
    """Names that the source gives, or else those that values have after their ops."""
    if glob in names:
        return [glob]
    matches = [name for name in names if fnmatchcase(name, glob)]
    return _source_names(matches) or matches


def _source_names(names: Mapping[str, Value] | Sequence[str]) -> list[str]:
    return [name for name in names if not LIKE_AN_OP.search(name)]


def _levels(graph: Graph) -> Iterator[Graph]:
    yield graph
    yield from bodies(graph)


def _names_of_values(graph: Graph) -> Iterator[tuple[str, Value]]:
    """Names of values that depend on something, then of results of layers, then of weights."""
    seen: set[str] = set()
    others: list[tuple[str, Value]] = []
    for level in _levels(graph):
        varying = {value.name for value in level.sources}
        for node in level.nodes:
            if any(value.name in varying for value in node.inputs) or "body" in node.attrs:
                varying.update(value.name for value in node.outputs)
                seen.update(value.name for value in node.outputs)
                yield from ((value.name, value) for value in node.outputs)
        others += level.entry.named.items()
    weights = [(_weights_name(node), node.outputs[0]) for node in _attentions(graph)]
    for name, value in [*others, *weights]:
        if name not in seen:
            seen.add(name)
            yield name, value


def _attentions(graph: Graph) -> Iterator[Node]:
    return (n for level in _levels(graph) for n in level.nodes if n.op == "attention")


def _weights_name(node: Node) -> str:
    """`blocks.0.attn.weights`. Row statistics are named by the op alone: `attn.attention_2`."""
    path, _, last = node.outputs[1].name.rpartition(".")
    digits = last.rpartition("_")[2]
    number = int(digits) // 2 if digits.isdecimal() else 1
    name = WEIGHTS if number == 1 else f"{WEIGHTS}_{number}"
    return f"{path}.{name}" if path else name


def _matches_nothing(pattern: Wanted, chosen: Sequence[_Chosen]) -> WgError:
    names = list(dict.fromkeys(name for entry in chosen for name in entry.names))
    glob = pattern.glob.removeprefix(GRADIENT)
    end = glob.split("*")[-1]
    near = did_you_mean(glob, names) or [n for n in names if end and n.endswith(end)]
    if pattern.glob.startswith(GRADIENT) and _matching(glob, names):
        return WgError(f"capture {pattern.text}: no entry trains, so nothing has a gradient")
    listed = ", ".join(near[:SHOWN] or names[:SHOWN]) or "none"
    more = f", … ({len(names)} in all)" if not near and len(names) > SHOWN else ""
    hint = "did you mean" if near else "there are"
    return WgError(f"capture {pattern.text}: no value has such a name; {hint} {listed}{more}")


def _add(graph: Graph, chosen: _Chosen) -> Graph:
    """The entry with the chosen values as outputs, and marks where gradients are wanted."""
    if not (chosen.values or chosen.gradients or chosen.stored):
        return graph.with_facts(named={})
    builder = builder_for(graph)
    facts = {name: Capture((), stats, True) for name, stats in chosen.stored.items()}
    graph, values = _reach(graph, {*chosen.values}, builder)
    graph = _with_outputs(
        graph, {name: (values[name], stats) for name, stats in chosen.values.items()}, builder
    )
    if chosen.gradients:
        graph = _watch(graph, chosen.gradients)
    bare = map_bodies(graph, _without_names)
    return _without_names(bare).with_facts(captures={**graph.entry.captures, **facts})


def _without_names(graph: Graph) -> Graph:
    if graph.entry.named:
        graph = graph.with_facts(named={}, captured=frozenset())
    return map_bodies(graph, _without_names)


def _reach(graph: Graph, wanted: set[str], builder: Builder) -> tuple[Graph, dict[str, Value]]:
    """The values of these names; those of rounds are stacked by their loops."""
    values = {value.name: value for value in graph.sources}
    values |= {value.name: value for node in graph.nodes for value in node.outputs}
    reached = {name: value for name, value in values.items() if name in wanted}
    for name, value in graph.entry.named.items():
        # The source may give a value the name that another one has.
        if name in graph.entry.captured or name in wanted - reached.keys():
            reached[name] = value
    nodes: list[Node] = []
    for node in graph.nodes:
        if loop := loop_of(node):
            node, stacks = _stack(loop, wanted, builder)
            reached |= {name: value for name, value in stacks.items() if name not in reached}
        nodes.append(node)
        if node.op == "attention" and (name := _weights_name(node)) in wanted - reached.keys():
            reached[name] = _append(builder, nodes, node, attention_weights, name)
    return replace(graph, nodes=tuple(nodes)), reached


def _append(
    builder: Builder,
    nodes: list[Node],
    node: Node,
    build: Callable[[Builder, Node], Value],
    name: str,
) -> Value:
    inner = builder.inner()
    with inner.at(node.span, name):
        value = build(inner, node)
    nodes += inner.nodes
    return value


def _stack(loop: LoopNode, wanted: set[str], builder: Builder) -> tuple[Node, dict[str, Value]]:
    """The loop with a stack for each wanted value of a round."""
    body, values = _reach(loop.body, wanted, builder)
    if not values:
        return loop.node, {}
    stacks = {
        name: Value(builder.fresh(f"{value.name}.rounds"), stack_type(value.type, loop.rounds))
        for name, value in values.items()
    }
    outputs = {**body.outputs, **{stacks[name].name: value for name, value in values.items()}}
    node = with_body(loop.node, replace(body, outputs=outputs))
    return replace(node, outputs=(*node.outputs, *stacks.values())), stacks


def _with_outputs(
    graph: Graph, values: Mapping[str, tuple[Value, bool]], builder: Builder
) -> Graph:
    """`values`: each with whether statistics alone are kept."""
    outputs, captures = dict(graph.outputs), dict(graph.entry.captures)
    made, added = graph.producers, builder.inner()
    for name, (value, stats) in values.items():
        if value.type.size > LARGEST:
            raise WgError(f"capture {name}: {value.type} is too large for one buffer of 4 GiB")
        captures[name] = Capture(value.shape, stats)
        while value.name in made and made[value.name].op in ("reshape", WATCHED):
            value = made[value.name].inputs[0]
        span = made[value.name].span if value.name in made else None
        if stats:
            with added.at(span, name):
                numbers, counts = _statistics(added, value)
            outputs |= {capture_key(name): numbers, counts_key(name): counts}
        else:
            outputs[capture_key(name)] = value
    graph = replace(graph, nodes=(*graph.nodes, *added.nodes), outputs=outputs)
    return graph.with_facts(captures=captures)


def _statistics(b: Builder, value: Value) -> tuple[Value, ...]:
    if value.dtype != "f32":
        value = b.apply("cast", value, dtype="f32")
    return b.apply_many("stats", value)


def _watch(graph: Graph, wanted: Mapping[str, bool], is_body: bool = False) -> Graph:
    """Marks the values of these names: nodes that use one use the mark.

    `grad` and `minimize` differentiate by the value itself, so that the mark is on the way.
    """
    builder = builder_for(graph)
    other_names = {v.name: name for name, v in graph.entry.named.items() if name in wanted}
    marks: dict[str, Value] = {}

    def mark(value: Value, span: Span | None = None) -> None:
        name = value.name if value.name in wanted else other_names.get(value.name, "")
        if name and value.dtype in FLOATS:
            with builder.at(span, value.name):
                marks[value.name] = builder.apply(WATCH, value, of=name, stats=wanted[name])

    for value in graph.params:
        mark(value)
    for node in graph.nodes:
        fixed = node.inputs[1:] if node.op in DIFFERENTIATING else ()
        free = node.inputs[: len(node.inputs) - len(fixed)]
        inputs = (*(marks.get(value.name, value) for value in free), *fixed)
        builder.nodes.append(replace(node, inputs=inputs))
        for value in node.outputs:
            mark(value, node.span)
    marked = replace(graph, nodes=tuple(builder.nodes))
    if is_body:  # gradients arrive at what a round hands on
        writes = {name: marks.get(value.name, value) for name, value in graph.writes.items()}
        outputs = {name: marks.get(value.name, value) for name, value in graph.outputs.items()}
        marked = replace(marked, writes=writes, outputs=outputs)
    return map_bodies(marked, lambda body: _watch(body, wanted, is_body=True))


def settle_captures(program: Program) -> Program:
    """Outputs for gradients and for stored tensors; the marks are removed."""
    entries = {name: _settle(graph, program) for name, graph in program.entries.items()}
    for pattern in program.capture:
        if not _has_settled(pattern, entries):
            raise _never_made(pattern, program)
    return replace(program, entries=entries)


def _settle(graph: Graph, program: Program) -> Graph:
    kept = [value.name for value in (*graph.params, *graph.state)]
    stats_of = {n: c.stats for n, c in graph.entry.captures.items() if c.stored}
    for pattern in program.capture:
        if SLASH in pattern.glob and pattern.entry in ("", graph.name):
            matches = [n for n in kept if SLASH in n and fnmatchcase(n, pattern.glob)]
            stats_of |= dict.fromkeys(matches, pattern.stats)
    has_marks = any(node.op in (WATCH, WATCHED) for part in _levels(graph) for node in part.nodes)
    if not stats_of and not has_marks:
        return graph
    graph = _settle_gradients(graph) if has_marks else graph
    return _settle_stored(graph, stats_of)


def _settle_gradients(graph: Graph) -> Graph:
    names: dict[str, str] = {}
    stats: dict[str, bool] = {}
    for node in (node for part in _levels(graph) for node in part.nodes if node.op == WATCHED):
        name = base = f"{GRADIENT}{node.attrs['of']}"
        while name in stats:  # it is differentiated more than once
            name = f"{base}.{1 + sum(other.startswith(base) for other in stats)}"
        names[node.output.name], stats[name] = name, node.attrs["stats"]
    builder = builder_for(graph)
    graph, values = _reach(graph, {*names}, builder)
    graph, values = divide_by_scale(graph, values, builder.inner())
    wanted = {names[made]: (value, stats[names[made]]) for made, value in values.items()}
    return without_marks(_with_outputs(graph, wanted, builder), WATCH, WATCHED)


def _settle_stored(graph: Graph, stats_of: Mapping[str, bool]) -> Graph:
    """A stored tensor is read where it is; its statistics are those of what the call leaves."""
    values = {value.name: value for value in (*graph.params, *graph.state)}
    after = {name: graph.writes.get(name, values[name]) for name in stats_of}
    whole = {
        name: Capture(values[name].shape, stored=True)
        for name, stats in stats_of.items()
        if not stats
    }
    wanted = {name: (after[name], True) for name, stats in stats_of.items() if stats}
    graph = _with_outputs(graph, wanted, builder_for(graph))
    return graph.with_facts(captures={**graph.entry.captures, **whole})


def _has_settled(pattern: Wanted, entries: Mapping[str, Graph]) -> bool:
    of = [graph for name, graph in entries.items() if pattern.entry in ("", name)]
    if not pattern.glob.startswith(GRADIENT) and SLASH not in pattern.glob:
        return True
    return any(fnmatchcase(name, pattern.glob) for graph in of for name in graph.entry.captures)


def _never_made(pattern: Wanted, program: Program) -> WgError:
    if pattern.glob.startswith(GRADIENT):
        return WgError(
            f"capture {pattern.text}: no gradient is computed there, because no parameter that "
            "is trained comes before it"
        )
    names = [name for name in program.state if SLASH in name]
    near = did_you_mean(pattern.glob, names) or names
    listed = ", ".join(near[:SHOWN]) or "none: no optimizer is used"
    return WgError(f"capture {pattern.text}: no optimizer has such a tensor; there are {listed}")
