"""Proposes which tensor of a file is which parameter, by shapes, names and what parameters are for.

Shapes decide what is possible, names what is likely. The closest pairs are taken first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from wgcc.importing.names import in_order, leaf_order, likeness, meanings, module_of, same_kind
from wgcc.importing.roles import PLAIN, TABLE, TURNED_MATRIX
from wgcc.importing.transforms import AS_IS, HWIO, TRANSPOSED, Shape, Transform, same_but_ones

# Tensors that are stored and nobody needs: counters of PyTorch, an optimizer's of our own.
_NEVER_NEEDED = re.compile(r".*num_batches_tracked|(opt|rng)/.*")
# Two candidates closer than this might as well be exchanged.
UNSURE = 1e-6
# Names of layers that keep queries, keys and values in one matrix, one after another.
_PACKED = ("in_proj_weight", "in_proj_bias", "qkv", "c_attn")
_PARTS = {"q": 0, "k": 1, "v": 2}
# A tensor whose neighbour (weight, bias) was found in this module is very likely there, too.
_SAME_MODULE = 0.5
# A part of a packed matrix is what it looks like.
_PART = 0.1


@dataclass(frozen=True, slots=True)
class Pair:
    """`target` comes from `source`; `others` are sources that fit about as well."""

    target: str
    source: str
    transform: Transform
    others: tuple[str, ...] = ()


@dataclass(slots=True)
class Proposal:
    pairs: list[Pair] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)


def propose(
    targets: Mapping[str, Shape], sources: Mapping[str, Shape], roles: Mapping[str, str]
) -> Proposal:
    """`targets` are the model's tensors in order, `sources` those of the file, both by name."""
    matcher = _Matcher(targets, sources, roles)
    # Matrices first: they are the most distinct, and tell where their biases are.
    kinds = {name: (-len(shape), leaf_order(name)) for name, shape in targets.items()}
    for kind in sorted(set(kinds.values())):
        matcher.match([name for name in targets if kinds[name] == kind])
    pairs = [matcher.found[name] for name in targets if name in matcher.found]
    used = {pair.source for pair in pairs}
    unused = [name for name in worth_reading(sources) if name not in used]
    return Proposal(pairs, [n for n in targets if n not in matcher.found], unused)


def worth_reading(names: Iterable[str]) -> list[str]:
    return [name for name in names if not _NEVER_NEEDED.fullmatch(name)]


class _Matcher:
    def __init__(
        self, targets: Mapping[str, Shape], sources: Mapping[str, Shape], roles: Mapping[str, str]
    ) -> None:
        self.targets = targets
        self.sources = {name: sources[name] for name in worth_reading(sources)}
        self.roles = roles
        self.found: dict[str, Pair] = {}
        self.modules: dict[str, str] = {}
        self._taken: set[tuple[str, Transform]] = set()
        self._ours = {name: at for at, name in enumerate(targets)}
        self._theirs = {name: at for at, name in enumerate(sorted(self.sources, key=in_order))}

    def match(self, names: list[str]) -> None:
        """Repeatedly the closest pair of all that are left; in the order of both, if equal."""
        scored = {
            (target, source): (self._score(target, source), transform)
            for target in names
            for source, transform in self._possible(target)
        }
        ranked = sorted(scored, key=lambda p: (-scored[p][0], self._ours[p[0]], self._theirs[p[1]]))
        for target, source in ranked:
            score, transform = scored[target, source]
            if target in self.found or not self._is_free(source, transform):
                continue
            rivals = {s for t, s in ranked if t == target and abs(scored[t, s][0] - score) < UNSURE}
            others = tuple(sorted(rivals - {source}, key=in_order))
            self.found[target] = Pair(target, source, transform, others)
            self._taken.add((source, transform))
        for target in names:
            if target in self.found:
                self.modules[module_of(target)] = module_of(self.found[target].source)

    def _is_free(self, source: str, transform: Transform) -> bool:
        """Different rows of one tensor can go to different parameters."""
        taken = [way for name, way in self._taken if name == source]
        return all(transform.rows and way.rows and way.rows != transform.rows for way in taken)

    def _score(self, target: str, source: str) -> float:
        together = self.modules.get(module_of(target)) == module_of(source)
        part = _packed_rows(target, source, self.sources[source]) is not None
        return likeness(target, source) + _SAME_MODULE * together + _PART * part

    def _possible(self, target: str) -> Iterator[tuple[str, Transform]]:
        for source, shape in self.sources.items():
            if same_kind(target, source):
                for transform in self._ways(target, source, shape):
                    yield source, transform

    def _ways(self, target: str, source: str, shape: Shape) -> Iterator[Transform]:
        """Tensors named as ours are (`fc.w`) are laid out as ours are."""
        wanted, rows = self.targets[target], _packed_rows(target, source, shape)
        cut = (rows[1] - rows[0], *shape[1:]) if rows else shape
        same_words = target.rpartition(".")[2] == source.rpartition(".")[2]
        for axes in [AS_IS.axes] if same_words else self._orders(target, cut):
            turned = tuple(cut[axis] for axis in axes) if axes else cut
            if same_but_ones(turned, wanted):
                yield Transform(axes, rows)
                return

    def _orders(self, target: str, shape: Shape) -> list[Shape]:
        """Orders of axes worth trying, the likeliest first."""
        wanted, role = self.targets[target], self.roles.get(target)
        if len(shape) == 4 and len(wanted) == 4:
            return [HWIO]
        if len(shape) == 3 and len(wanted) == 2 and shape[1] == 1:
            return [(2, 0, 1)]  # a filter for each channel: [channels, 1, width]
        if len(shape) == 2 and len(wanted) == 2:
            if role in (TABLE, PLAIN):
                return [AS_IS.axes]
            return [AS_IS.axes, TRANSPOSED] if role == TURNED_MATRIX else [TRANSPOSED, AS_IS.axes]
        return [AS_IS.axes]


def _packed_rows(target: str, source: str, shape: Shape) -> tuple[int, int] | None:
    """Which third of a packed matrix (or bias) a query, key or value parameter is."""
    if not any(part in source for part in _PACKED) or not shape or shape[0] % 3:
        return None
    part = next((at for word, at in _PARTS.items() if word in meanings(target)), None)
    if part is None:
        return None
    third = shape[0] // 3
    return part * third, (part + 1) * third
