"""The facts that writers of a group's kernels ask for: where values are stored, what is inlined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from wgcc.ir.graph import FLOATS, Node, Value
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import functions as parts_of_page
from wgcc.kernel.rewrite.transform import Filling
from wgcc.kernel.tree import Declaration, FunctionDef, Module, Statement
from wgcc.ops.registry import Helper
from wgcc.passes.dataflow import moves
from wgcc.schedule.codegen.bindings import Bindings, Parts, thread_index
from wgcc.schedule.codegen.emitter import Emitter
from wgcc.schedule.kernel import (
    GPU,
    AttentionTask,
    Binding,
    DispatchWork,
    Kernel,
    Launch,
    Place,
    ProductTask,
    WorkgroupVariable,
    grid_of,
)
from wgcc.schedule.kernels.copies import Span
from wgcc.schedule.kernels.render import page

THREADS = """
// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = INDEX;
  if (o >= OUTER) { return; }
  BODY();
}
"""


@dataclass(frozen=True, slots=True)
class GroupCode:
    """The launches of one group and the regions all of them bind, in this order."""

    launches: Mapping[str, Launch]
    regions: tuple[Place, ...]
    shows: tuple[tuple[str, ...], ...]
    work: DispatchWork


def no_copies(names: Sequence[str]) -> None:
    """For models whose products read parameters directly, without f16 copies."""


@dataclass(slots=True)
class Context:
    """`inlined` are the nodes that are computed where they are used; `stored` says what is kept.

    `parts` are values of one round that are stored in tensors of all rounds. `halves`: operands of
    products are f16 in workgroup memory. `copied`: what the update of parameters has to copy.
    """

    inlined: Mapping[str, Node]
    place: Callable[[Value], Place]
    stored: Callable[[Value], bool]
    scalar_words: int
    parts: Parts = field(default_factory=dict)
    halves: bool = False
    copied: Callable[[Sequence[str]], Span | None] = no_copies
    order: tuple[Place, ...] = ()
    shown: tuple[tuple[str, ...], ...] = ()

    def bindings(self, vectors: Set[Place] = frozenset()) -> Bindings:
        """`vectors`: regions that are bound as arrays of vectors."""
        return Bindings(self.place, self.scalar_words, self.parts, vectors)

    def is_at_same_place(self, one: Value, other: Value) -> bool:
        return self.stored(one) and self.place(one) == self.place(other)

    def is_stored(self, value: Value) -> bool:
        return self.stored(value)

    def is_half(self, value: Value) -> bool:
        """Is every element of it stored as f16?"""
        node = self.inlined.get(value.name)
        part = self.parts.get(value.name)
        if node is None and part is not None:
            return self.is_half(part.whole)
        if node is None:
            return self.place(value).half
        return moves(node) and all(self.is_half(operand) for operand in node.inputs)

    def is_shared_as_half(self, value: Value) -> bool:
        """Is it f16 in workgroup memory, as an operand of a product?"""
        return self.is_half(value) or (self.halves and value.dtype in FLOATS)

    def launch(
        self,
        page_name: str,
        emitter: Emitter,
        *,
        constants: Mapping[str, int],
        workgroup: tuple[int, int, int],
        grid: tuple[int, int, int],
        holes: Mapping[str, Filling] | None = None,
        values: Mapping[str, object] | None = None,
        functions: Sequence[Declaration] = (),
        body: Module | None = None,
        variant: Callable[[Module], Module] | None = None,
        iterations: int = 0,
        shared: tuple[WorkgroupVariable, ...] = (),
    ) -> Launch:
        """A launch whose bindings come in the order that the first launch of the group fixed.

        `values` are names, flags and lists of the page, `holes` the trees that it leaves open;
        `variant` rewrites the page. A page that is no file is `body`.
        """
        bindings = self._bound(emitter.bindings)
        body = body or page(page_name, {**constants, **(values or {})}, holes)
        body = variant(body) if variant else body
        kernel = Kernel(
            page_name,
            bindings,
            tuple(constants.items()),
            Module((*functions, *body.declarations)),
            tuple(sorted(emitter.functions, key=_name)),
            workgroup,
            shared,
        )
        return Launch(kernel, grid, iterations)

    def work(
        self,
        emitter: Emitter,
        task: ProductTask | AttentionTask,
        functions: Sequence[Declaration],
        constants: Mapping[str, int],
    ) -> DispatchWork:
        """Says what the group computes, by functions that the emitter wrote."""
        bindings = self._bound(emitter.bindings)
        helpers = tuple(each for each in emitter.functions if isinstance(each, FunctionDef))
        own = Module(tuple(functions))
        return DispatchWork(bindings, tuple(constants.items()), own, task, helpers)

    def _bound(self, bindings: Bindings) -> tuple[Binding, ...]:
        if not self.order:
            self.order, self.shown = bindings.regions(), bindings.shows()
        declared = dict(zip(bindings.regions(), bindings.declarations(), strict=True))
        assert set(declared) == set(self.order), "launches of one group must touch the same memory"
        return tuple(declared[region] for region in self.order)

    def launch_threads(
        self,
        emitter: Emitter,
        body: Sequence[Statement],
        threads: int,
        workgroup: int,
        constants: Mapping[str, int] | None = None,
        iterations: int = 0,
    ) -> Launch:
        """A thread for each of so many results, `o`."""
        grid = grid_of(ceil_div(threads, workgroup))
        return self.launch(
            "loop",
            emitter,
            constants={"OUTER": threads, **(constants or {}), "WORKGROUP": workgroup},
            body=Module(
                parts_of_page(THREADS, INDEX=thread_index(grid, workgroup), BODY=tuple(body))
            ),
            workgroup=(workgroup, 1, 1),
            grid=grid,
            iterations=iterations,
        )

    def code(self, gpu: Launch, work: DispatchWork | None = None) -> GroupCode:
        """`work` is what it computes; without, each thread of the launch does so on its own."""
        return GroupCode({GPU: gpu}, self.order, self.shown, work or gpu.work)


def _name(helper: Helper) -> str:
    return helper if isinstance(helper, str) else helper.name
