"""Proposes which tensor of a file is which parameter, and how it must be changed.

A name decides the pair, the use of the parameter decides the layout. If neither decides, the
parameter is left undecided, with the possible choices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from wgcc.importing.layout import OWN, TORCH, Layouts, Question
from wgcc.importing.matching import NAME, Matching, fits
from wgcc.importing.names import (
    STATISTICS,
    ModuleTensors,
    TensorPart,
    in_order,
    is_cell,
    last_word,
    modules,
    read_name,
    thirds,
    worth_reading,
)
from wgcc.importing.transforms import GATES, FileWeights, Origin, Shape, Transform
from wgcc.importing.uses import PLAIN, Use
from wgcc.lazy_numpy import Array, np

RULE = "rule"
GATES_ASSUMED = "the model's gates are in PyTorch's order (ifgo of an LSTM, rzn of a GRU)"
ROPE_ASSUMED = "the model's `rope` turns halves of a head, as the standard one does"
# How many choices are shown.
_SHOWN = 4

# A user's rules for the model's tensors: a tensor of the file and how to change it, or None.
Rules = Mapping[str, tuple[str, Transform] | None]


@dataclass(frozen=True, slots=True)
class Pair:
    """`target` comes from `source`. `found` says how it was matched: NAME, SHAPE, ORDER or RULE.

    `assumed` says what is likely but not certain about how the source is stored.
    """

    target: str
    source: str
    transform: Transform
    found: str = NAME
    assumed: str = ""


@dataclass(frozen=True, slots=True)
class Undecided:
    """`target` is one of these; `reason` says what is not known."""

    target: str
    choices: tuple[tuple[str, Transform], ...]
    reason: str


@dataclass(slots=True)
class Proposal:
    """`missing` has a hint for each target, or ""; `kept` keep their initial values by a rule.

    `idle` are states of the model that the file has as well; only a rule fills them.
    """

    pairs: list[Pair] = field(default_factory=list)
    undecided: list[Undecided] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Model:
    """The shapes of its parameters and state, and how parameters are used."""

    params: Mapping[str, Shape]
    states: Mapping[str, Shape] = field(default_factory=dict)
    uses: Mapping[str, Use] = field(default_factory=dict)

    @property
    def shapes(self) -> dict[str, Shape]:
        return {**self.params, **self.states}

    def use(self, name: str) -> Use:
        shape = self.params[name] if name in self.params else self.states[name]
        return self.uses.get(name) or Use(PLAIN, (None,) * len(shape), order=len(self.uses))


def propose(
    model: Model,
    sources: Mapping[str, Shape],
    rules: Rules | None = None,
    origin: Origin | None = None,
) -> Proposal:
    """`sources` are the shapes of the file's tensors."""
    return _Proposer(model, sources, rules or {}, origin or Origin()).proposal()


@dataclass(frozen=True, slots=True)
class _Match:
    """A matched pair of tensors, before the layout is decided."""

    target: TensorPart
    source: TensorPart
    found: str


class _Proposer:
    def __init__(
        self, model: Model, sources: Mapping[str, Shape], rules: Rules, origin: Origin
    ) -> None:
        self._model, self._rules, self._origin = model, rules, origin
        self._sources = {name: sources[name] for name in worth_reading(sources)}
        self._all_sources, self._shapes = sources, model.shapes
        statistics = {
            name: shape
            for name, shape in model.states.items()
            if read_name(name, shape).kind in STATISTICS
        }
        self._wanted = {**model.params, **statistics}
        self._ours = modules(self._wanted)
        self._theirs = modules(dict(sorted(self._sources.items(), key=lambda s: in_order(s[0]))))
        self._matching = Matching(self._ours, [*self._theirs, *thirds(self._theirs)])

    def proposal(self) -> Proposal:
        self._matching.match(self._module_rules(), self._order)
        result = Proposal(kept=[name for name, rule in self._rules.items() if rule is None])
        matches = self._once(result, list(self._parts(result)))
        rules = {name: rule for name, rule in self._rules.items() if rule is not None}
        ruled = {name: self._ruled_question(name, *rule) for name, rule in rules.items()}
        questions = [*map(self._question, matches), *(q for q in ruled.values() if q)]
        layouts = Layouts(questions, self._origin)
        for item in matches:
            self._lay_out(result, layouts, item)
        for name, rule in rules.items():
            usual = layouts.answer(question).choices if (question := ruled[name]) else ()
            result.pairs.append(_ruled_pairs(name, *rule, usual))
        self._complete(result)
        return result

    def _module_rules(self) -> dict[ModuleTensors, ModuleTensors]:
        """If a rule gives the module of a weight, its bias comes from the same module."""
        places = {part.tensor: module for module in self._theirs for part in module.parts}
        said = {}
        for module in self._ours:
            rule = self._rules.get(module.main.tensor)
            if rule and rule[0] in places:
                said[module] = places[rule[0]]
        return said

    def _order(self, module: ModuleTensors) -> int:
        return min(self._model.use(part.tensor).order for part in module.parts)

    def _parts(self, result: Proposal) -> Iterator[_Match]:
        """Yields pairs of tensors; records in `result` what is undecided or missing."""
        for module in self._ours:
            other, how = self._matching.pairs.get(module, (None, NAME))
            others = [other] if other else self._matching.rivals(module)
            for part in module.parts:
                if part.tensor in self._rules:
                    continue
                candidates = _candidates(part, others)
                if not candidates or (other and not fits(module, other)):
                    result.missing[part.tensor] = self._hint(part, others if other else [])
                elif len(candidates) == 1 and other is not None:
                    yield _Match(part, candidates[0], how)
                else:
                    result.undecided.append(_undecided_of(part, candidates))

    def _once(self, result: Proposal, matches: list[_Match]) -> list[_Match]:
        """The pairs whose source is used only once; the others become undecided."""
        claims = Counter(item.source for item in matches)
        result.undecided += [
            _undecided_of(item.target, [item.source]) for item in matches if claims[item.source] > 1
        ]
        return [item for item in matches if claims[item.source] == 1]

    def _hint(self, part: TensorPart, others: list[ModuleTensors]) -> str:
        """A tensor that has the name but not the shape, or the shape but not the name."""
        for other in others:
            for candidate in other.like(part):
                text = f"{candidate.tensor} {list(candidate.shape)} has its name"
                if candidate.sizes == part.sizes:
                    return f"{text}, but is of another kind of layer"
                same_count = prod(candidate.shape) == prod(part.shape)
                return f"{text}, but not its shape" + " (`reshaped`?)" * same_count
        fitting = [
            candidate.tensor
            for module in self._theirs
            for candidate in module.like(part)
            if candidate.sizes == part.sizes and len(candidate.sizes) > 1
        ]
        return f"{fitting[0]} has its shape" if len(fitting) == 1 else ""

    def _lay_out(self, result: Proposal, layouts: Layouts, item: _Match) -> None:
        question, cut = self._question(item), item.source.cut
        layout = layouts.answer(question)
        source, target = question.source, question.target
        gates, rope = self._gates(source), self._origin.rope.get(source, 0)
        ways = [
            replace(way, rows=cut.rows, columns=cut.columns, gates=gates, rope=rope)
            for way in layout.choices
        ]
        other = GATES_ASSUMED if gates and not is_cell(target) else ROPE_ASSUMED if rope else ""
        assumed = "; ".join(filter(None, (layout.assumed, other)))
        if len(ways) == 1:
            result.pairs.append(Pair(target, source, ways[0], item.found, assumed))
        else:
            choices = tuple((source, way) for way in ways[:_SHOWN])
            result.undecided.append(Undecided(target, choices, layout.reason))

    def _gates(self, source: str) -> str:
        """The order of the source's gates, if it is another than that of wgcc."""
        gates = self._origin.gates.get(source, "")
        return "" if gates in GATES else gates

    def _question(self, item: _Match) -> Question:
        target, source = item.target, item.source
        use = self._model.use(target.tensor)
        # Three matrices are stored one after another along their outputs.
        stored = OWN if source.cut.columns else TORCH if source.cut.rows else ""
        return Question(target.tensor, source.tensor, source.shape, target.shape, use, stored)

    def _ruled_question(self, target: str, source: str, way: Transform) -> Question | None:
        """Asks how the part of the source that a rule selects is usually stored, if it can be."""
        cut = replace(way, axes=(), flipped=False, reshaped=False, gates="", rope=0)
        shape, wanted = cut.shape(self._all_sources[source]), self._shapes[target]
        if shape is None or way.reshaped or not way.fits(self._all_sources[source], wanted):
            return None
        return Question(target, source, shape, wanted, self._model.use(target))

    def _complete(self, result: Proposal) -> None:
        """Sorts by the order of the model, and lists what is left over."""
        place = {name: at for at, name in enumerate(self._shapes)}
        result.pairs.sort(key=lambda pair: place[pair.target])
        result.undecided.sort(key=lambda item: place[item.target])
        used = {pair.source for pair in result.pairs}
        used |= {source for item in result.undecided for source, _ in item.choices}
        idle = [n for n in self._model.states if n not in self._wanted and n not in self._rules]
        result.idle = [name for name in idle if name in self._all_sources]
        result.unused = [name for name in self._sources if name not in {*used, *result.idle}]


def _ruled_pairs(target: str, source: str, way: Transform, usual: tuple[Transform, ...]) -> Pair:
    """The pair of a rule, with a note if the rule is not what is usual."""
    if len(usual) != 1 or usual[0] == replace(way, rows=None, columns=None, gates="", rope=0):
        return Pair(target, source, way, RULE)
    expected = usual[0].text() or "stored as it is used"
    return Pair(target, source, way, RULE, f"as the rule says, though usually {expected}")


def _undecided_of(part: TensorPart, candidates: list[TensorPart]) -> Undecided:
    choices = tuple((candidate.tensor, candidate.cut) for candidate in candidates[:_SHOWN])
    return Undecided(part.tensor, choices, "the names do not decide")


def _candidates(part: TensorPart, others: list[ModuleTensors]) -> list[TensorPart]:
    """Tensors of these modules with the sizes of `part`; of several, the one with its name."""
    fitting = [p for other in others for p in other.like(part) if p.sizes == part.sizes]
    same = [p for p in fitting if last_word(p.tensor) == last_word(part.tensor)]
    return same if len(same) == 1 and len(others) == 1 else fitting


_PARTS = ("q", "k", "v")


def join_attention(weights: FileWeights, targets: Mapping[str, Shape]) -> FileWeights:
    """`attn.q.weight`, `attn.k.weight` and `attn.v.weight` become `attn.qkv.weight`."""
    words = [read_name(name, shape).words for name, shape in targets.items()]
    if not any("qkv" in group for group in words) or any("q" in group for group in words):
        return weights
    arrays, notes = dict(weights.arrays), []
    inputs_first = set(weights.origin.inputs_first)
    for parts in _triples(weights.arrays):
        axes = {_axis(part, weights.arrays[part], weights.origin) for part in parts}
        axis = min(axes)
        heads = [weights.origin.rope.get(part, 0) for part in parts]
        held = [_with_halves(arrays[p], axis, count) for p, count in zip(parts, heads, strict=True)]
        name = _joined_name(*parts)
        if name in arrays or len(axes) > 1 or not _fit(held, axis):
            continue
        inputs_first |= {name} if inputs_first.intersection(parts) else set()
        arrays = {other: array for other, array in arrays.items() if other not in parts}
        arrays[name] = np.concatenate(held, axis)
        assumed = f"; assumed: {ROPE_ASSUMED}" if any(heads) else ""
        notes.append(f"{name} is {parts[0]}, {parts[1]} and {parts[2]} side by side{assumed}")
    origin = replace(
        weights.origin,
        notes=(*weights.origin.notes, *notes[:1], *_more(notes)),
        inputs_first=frozenset(inputs_first),
    )
    return FileWeights(arrays, origin)


def _triples(arrays: Mapping[str, Array]) -> Iterable[tuple[str, ...]]:
    """Names that differ in nothing but being queries, keys or values."""
    groups: dict[object, dict[str, str]] = {}
    for name in sorted(worth_reading(arrays), key=in_order):
        read = read_name(name, arrays[name].shape)
        own = [word for word in read.words if word in _PARTS]
        if len(own) == 1:
            key = tuple("" if word in _PARTS else word for word in read.words), read.numbers
            groups.setdefault((*key, read.kind), {})[own[0]] = name
    return [tuple(parts[p] for p in _PARTS) for parts in groups.values() if len(parts) == 3]


def _axis(name: str, array: Array, origin: Origin) -> int:
    """The outputs are last in files of Keras, Flax and wgcc, first in those of PyTorch.

    In ONNX files, the nodes show which it is.
    """
    outputs_last = (
        origin.keras
        or origin.own
        or name in origin.inputs_first
        or last_word(name) in ("kernel", "w")
    )
    return array.ndim - 1 if outputs_last else 0


def _with_halves(array: Array, axis: int, heads: int) -> Array:
    """Queries and keys whose rotary positions turn neighbours, for `rope`, which turns halves."""
    change = Transform(rope=heads)
    outputs = array.shape[axis] if array.ndim else 0
    if not heads or outputs % (2 * heads):
        return array
    return np.moveaxis(change.in_order(np.moveaxis(array, axis, -1)), -1, axis)


def _fit(arrays: list[Array], axis: int) -> bool:
    return len({(a.ndim, a.shape[:axis], a.shape[axis + 1 :]) for a in arrays}) == 1


def _joined_name(query: str, key: str, value: str) -> str:
    columns = zip(*(name.split(".") for name in (query, key, value)), strict=False)
    return ".".join("qkv" if len(set(words)) > 1 else words[0] for words in columns)


def _more(notes: list[str]) -> list[str]:
    return [f"and so on, {len(notes)} in all"] if len(notes) > 1 else []
