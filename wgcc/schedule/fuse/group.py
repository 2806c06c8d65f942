"""Groups: what one kernel computes, over which elements, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from wgcc.ir.graph import Node, Value
from wgcc.ir.index import Index, linear, variable
from wgcc.ir.iteration_space import Space, flat_space, reduction_space
from wgcc.ops.registry import Reduce
from wgcc.passes.dataflow import lowering

# The kind of a group that is a whole loop, with groups of its own.
REPEAT = "repeat"
# The kind of groups that are no dispatch: they read several tensors as one.
FLAT = "flat"


@dataclass(frozen=True, slots=True)
class Bound:
    """What kernels bind: `alone` take a binding each, `uniforms` none of the storage buffers.

    `packs` maps values to what is bound for several of them.
    """

    alone: Set[str] = frozenset()
    uniforms: Set[str] = frozenset()
    packs: Mapping[str, str] = field(default_factory=dict)

    def of(self, names: Iterable[str]) -> set[str]:
        return {self.packs.get(name, name) for name in names}


@dataclass(slots=True, eq=False)
class Group:
    """One kernel to be: what it makes (`roots`), needs and reads. `kind` is `loop` or a family.

    `why` says for the first value of each root why it is in this group.
    """

    kind: str
    roots: list[Node]
    space: Space | None = None
    needs: set[int] = field(default_factory=set)
    number: int = 0
    reads: set[str] = field(default_factory=set)
    why: dict[str, str] = field(default_factory=dict)
    names: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.names = {value.name for root in self.roots for value in root.outputs}

    def add(self, root: Node, why: str) -> None:
        self.roots.append(root)
        self.names.update(value.name for value in root.outputs)
        self.why[root.outputs[0].name] = why


def own_space(node: Node) -> Space:
    if isinstance(lowering(node), Reduce):
        return reduction_space(node.inputs[0].shape, node.attrs["axes"])
    return flat_space(node.outputs[0].type.size)


def product_position(value: Value) -> Index:
    """Row-major position of a matrix product's element in terms of its loop variables z, m, n."""
    names = ("z", "m", "n")[-len(value.shape) :]
    coordinates = [variable(n, extent) for n, extent in zip(names, value.shape, strict=True)]
    return linear(coordinates, value.shape)
