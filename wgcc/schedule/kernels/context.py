"""The facts that writers of a group's kernels ask for: where values are stored, what is inlined.

A kernel is a tree: a header with bindings and constants, then a page with its holes filled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from wgcc.ir.dtypes import F16
from wgcc.ir.graph import FLOATS, Node, Value
from wgcc.ir.places import ceil_div
from wgcc.kernel.build import functions as parts_of_page
from wgcc.kernel.parse import long_type, parse_module
from wgcc.kernel.rewrite.transform import Filling, fill
from wgcc.kernel.tree import (
    ConstantDef,
    Declaration,
    Enable,
    FunctionDef,
    Literal,
    Module,
    ModuleVariable,
    Statement,
    words_of,
)
from wgcc.ops.registry import Helper, source_of
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
class GroupContext:
    """`inlined` are the nodes that are computed where they are used; `stored` says what is kept.

    `parts` are values of one round that are stored in tensors of all rounds. `halves`: operands of
    products are f16 in workgroup memory. `copied`: what the update of parameters has to copy, and
    where to.
    """

    inlined: Mapping[str, Node]
    place: Callable[[Value], Place]
    stored: Callable[[Value], bool]
    scalar_words: int
    parts: Parts = field(default_factory=dict)
    halves: bool = False
    copied: Callable[[Sequence[str]], tuple[Place, Place] | None] = no_copies
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
            tuple(sorted(emitter.functions, key=helper_name)),
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


def helper_name(helper: Helper) -> str:
    return helper if isinstance(helper, str) else helper.name


Declarations = tuple[Declaration, ...]
_PAGES = Path(__file__).parent / "templates"


def page(
    name: str, values: Mapping[str, object], holes: Mapping[str, Filling] | None = None
) -> Module:
    """A page of WGSL. `values` are its names, flags and lists; trees fill its `holes`."""
    written = parse_module(_environment().get_template(f"{name}.wgsl.jinja").render(values))
    return fill(written, holes) if holes else written


def tree_of(kernel: Kernel) -> Module:
    """The whole kernel, with the constants that its body names and the functions it calls."""
    own = [words_of(declared) for declared in kernel.body.declarations]
    memory = tuple(_workgroup_variable(variable) for variable in kernel.shared)
    words = set[str]().union(*own, *map(words_of, memory))
    return Module(
        (
            *((Enable(F16),) if kernel.has_halves else ()),
            *(_variable(i, binding) for i, binding in enumerate(kernel.bindings)),
            *(
                ConstantDef(name, Literal(n, "u32"))
                for name, n in kernel.constants
                if name in words
            ),
            *_helpers(kernel),
            *_with_memory(kernel.body.declarations, own, memory),
        )
    )


def _helpers(kernel: Kernel) -> Declarations:
    """The functions that its body calls: those of ops, then those of users."""
    files = [helper for helper in kernel.functions if isinstance(helper, str)]
    return (*parse_module(source_of(files)).declarations, *kernel.own_functions)


def _with_memory(
    body: Declarations, words: Sequence[set[str]], memory: tuple[ModuleVariable, ...]
) -> Declarations:
    """Workgroup memory stands before the first function that names it; the comment comes first."""
    if not memory:
        return body
    names = {variable.name for variable in memory}
    at = next(number for number, own in enumerate(words) if names & own)
    user = body[at]
    if isinstance(user, FunctionDef) and user.name == "main":
        memory = (replace(memory[0], comment=user.comment), *memory[1:])
        user = replace(user, comment="")
    return (*body[:at], *memory, user, *body[at + 1 :])


def _workgroup_variable(variable: WorkgroupVariable) -> ModuleVariable:
    return ModuleVariable(variable.name, "workgroup", long_type(variable.kind))


def _variable(number: int, binding: Binding) -> ModuleVariable:
    slot, element = (0, number), long_type(binding.element)
    if binding.uniform:
        return ModuleVariable(binding.name, "uniform", element, slot=slot)
    kind = f"array<{element}, {binding.count}>"
    return ModuleVariable(binding.name, "storage", kind, binding.access, slot)


@lru_cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(_PAGES),
        undefined=StrictUndefined,
        line_statement_prefix="//%",
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
