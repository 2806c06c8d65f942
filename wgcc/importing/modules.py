"""Modules: the tensors of one layer, in the model or in the file, grouped by their names.

PyTorch's attention stores queries, keys and values in one tensor; its thirds are modules, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wgcc.importing.names import NUMBER, STATISTICS, WEIGHT, module_path, plain_words, read_name
from wgcc.importing.transforms import AS_IS, Range, Shape, Transform, without_ones

Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A tensor, or the rows or columns of it that `cut` selects; `shape` is that of the part."""

    tensor: str
    shape: Shape
    kind: str
    cut: Transform = AS_IS

    @property
    def sizes(self) -> Shape:
        """The sizes of its axes, sorted: the same for every order of the axes."""
        return tuple(sorted(without_ones(self.shape)))


@dataclass(eq=False, slots=True)
class Module:
    """`words` and `numbers` of its name (see `Name`), and its tensors."""

    words: tuple[str, ...]
    numbers: Numbers
    parts: list[Part] = field(default_factory=list)
    is_third: bool = False

    @property
    def main(self) -> Part:
        """The weight, or the first tensor if there is none."""
        return next((part for part in self.parts if part.kind == WEIGHT), self.parts[0])

    @property
    def letters(self) -> tuple[str, ...]:
        return tuple(word for word in self.words if word != NUMBER)

    @property
    def spelling(self) -> list[str]:
        """All words as they are written."""
        return plain_words(self.main.tensor)

    @property
    def in_list(self) -> bool:
        return any(word.isdigit() for word in self.main.tensor.split("."))

    @property
    def is_norm_of_batches(self) -> bool:
        return any(part.kind in STATISTICS for part in self.parts)

    @property
    def form(self) -> tuple[str, Shape, bool]:
        """Modules with the same form can only be distinguished by their names."""
        return self.main.kind, self.main.sizes, self.is_norm_of_batches

    def like(self, part: Part) -> list[Part]:
        """The tensors that another module's tensor may be; the kind is not always known."""
        same = [own for own in self.parts if own.kind == part.kind]
        return same or [own for own in self.parts if "" in (own.kind, part.kind)]


def modules(shapes: Mapping[str, Shape]) -> list[Module]:
    """All modules of a model or file, in order of their first tensors."""
    found: dict[tuple[tuple[str, ...], Numbers], Module] = {}
    for tensor, shape in shapes.items():
        name = read_name(tensor, shape)
        module = found.setdefault((name.words, name.numbers), Module(name.words, name.numbers))
        module.parts.append(Part(tensor, shape, name.kind))
    return [one for module in found.values() for one in _separated(module)]


def _separated(module: Module) -> list[Module]:
    """Modules whose names mean the same (`bn`, `ln`) are distinguished by their spelling."""
    kinds = [part.kind for part in module.parts]
    if len(set(kinds)) == len(kinds):
        return [module]
    by_path: dict[str, list[Part]] = {}
    for part in module.parts:
        by_path.setdefault(module_path(part.tensor), []).append(part)
    return [Module(module.words, module.numbers, parts) for parts in by_path.values()]


def thirds(whole: Iterable[Module]) -> list[Module]:
    """Queries, keys and values as modules, where one tensor stores all three."""
    return [
        Module(
            tuple(word if old == "qkv" else old for old in module.words),
            module.numbers,
            [third for part in module.parts if (third := _third(part, at)) is not None],
            is_third=True,
        )
        for module in whole
        if "qkv" in module.words and all(_third(part, 0) for part in module.parts)
        for at, word in enumerate("qkv")
    ]


def _third(part: Part, at: int) -> Part | None:
    """[3 outputs, inputs] in PyTorch's Linear, [inputs, 3 outputs] in GPT-2's Conv1D."""
    shape = part.shape
    axis = 1 if len(shape) == 2 and shape[1] == 3 * shape[0] else 0
    if not shape or shape[axis] % 3:
        return None
    size = shape[axis] // 3
    place: Range = (at * size, (at + 1) * size)
    cut = Transform(columns=place) if axis else Transform(rows=place)
    return Part(part.tensor, cut.shape(shape) or (), part.kind, cut)
