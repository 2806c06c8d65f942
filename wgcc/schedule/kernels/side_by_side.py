"""One dispatch of two that do not need each other: each takes some of the workgroups.

Small kernels take less time than a GPU needs to start them, and leave most of it idle. Workgroups
are numbered through both, so that barriers stay in uniform control flow. As a workgroup runs one of
them, both may use the same workgroup memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain, count
from math import prod

from wgcc.ir.places import SCALARS, ceil_div
from wgcc.kernel.build import expression, in_parens, let, u32
from wgcc.kernel.rewrite.transform import Body, fill
from wgcc.kernel.tree import (
    Alias,
    Binary,
    Declaration,
    Expr,
    FunctionDef,
    If,
    Let,
    Literal,
    Member,
    Module,
    Name,
    Return,
    Struct,
    words_of,
)
from wgcc.schedule.kernel import (
    GPU,
    MAX_BINDINGS,
    MAX_WORKGROUP_BYTES,
    PAIR,
    VECTOR,
    Binding,
    Dispatch,
    Grid,
    Kernel,
    Launch,
    Place,
    overlapping,
)
from wgcc.schedule.kernels.context import helper_name
from wgcc.schedule.kernels.workgroup_pool import POOL, in_pool, with_vectors

PAGE = "side_by_side"
# Kernels of more threads fill a large GPU on their own.
MOST_THREADS = 49_152
# What the threads of the kernel are given: the numbers of workgroup and thread.
_GROUP, _THREAD = "own_group", "own_thread"
# What a kernel of one thread for each result is given: its workgroups may have any size.
_NUMBER_ALONE = (("id", "@global_invocation_id"),)


class SideBySide:
    """Joins dispatches, and writes the kernel of two others once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Launch, ...], dict[tuple[int, ...], Launch | None]] = {}

    def join(self, dispatches: Sequence[Dispatch]) -> list[Dispatch]:
        """Dispatches that do not need each other, in pairs where their kernels allow it."""
        waiting, joined = list(dispatches), list[Dispatch]()
        while waiting:
            first = waiting.pop(0)
            for number, second in enumerate(waiting):
                if (pair := self._pair(first, second)) is not None:
                    first = pair
                    del waiting[number]
                    break
            joined.append(first)
        return joined

    def _pair(self, first: Dispatch, second: Dispatch) -> Dispatch | None:
        launches = first.launches[GPU], second.launches[GPU]
        if any(map(_is_large, launches)):
            return None
        memory = _Memory.of(first, second)
        if memory is None:
            return None
        known = self._known.setdefault(launches, {})
        if memory.numbers not in known:
            known[memory.numbers] = _launch(launches, memory)
        launch = known[memory.numbers]
        return None if launch is None else _dispatch(first, second, memory, launch)


def _dispatch(first: Dispatch, second: Dispatch, memory: _Memory, launch: Launch) -> Dispatch:
    shows = dict(zip(first.regions, first.shows, strict=True))
    for region, text in zip(second.regions, second.shows, strict=True):
        known = shows.get(region, text)
        shows[region] = text if known == text else f"{known}, then {text}"
    return Dispatch(
        f"{first.label}{PAIR}{second.label}",
        memory.regions,
        {GPU: launch},
        tuple(shows[region] for region in memory.regions),
        (*first.works, *second.works),
        first.span or second.span,
        first.flops + second.flops,
        (*first.made, *second.made),
    )


def _is_large(launch: Launch) -> bool:
    return prod(launch.grid) * prod(launch.kernel.workgroup) > MOST_THREADS


def _threads(launches: Sequence[Launch]) -> int:
    """How many threads their workgroups can have; 0 if no number is right for both."""
    sizes = [prod(launch.kernel.workgroup) for launch in launches]
    fixed = {n for n, launch in zip(sizes, launches, strict=True) if not _is_elastic(launch)}
    return max(sizes) if not fixed else fixed.pop() if len(fixed) == 1 else 0


def _is_elastic(launch: Launch) -> bool:
    """Do its threads neither wait for each other nor depend on how many there are?"""
    main = launch.kernel.body.functions["main"]
    if main.params != _NUMBER_ALONE or launch.kernel.shared or launch.grid[1] > 1:
        return False
    match main.body:
        case (Let(own), If(Binary(">=", Name(index), Name()), (Return(None),)), *_):
            return own == index
    return False


@dataclass(frozen=True, slots=True)
class _Memory:
    """Holds what both kernels bind.

    `names` are the new names of each one's bindings. `by_vector`: it loads numbers from vectors.
    """

    regions: tuple[Place, ...]
    bindings: tuple[Binding, ...]
    names: tuple[Mapping[str, str], Mapping[str, str]]
    by_vector: tuple[Set[str], Set[str]]

    @classmethod
    def of(cls, first: Dispatch, second: Dispatch) -> _Memory | None:
        """None if both cannot be bound at once, or if one writes what the other binds.

        What one reads by number and the other by vector is bound twice where that is allowed.
        """
        bound = [
            dict(zip(d.regions, d.launches[GPU].kernel.bindings, strict=True))
            for d in (first, second)
        ]
        mixed = {
            region
            for region, own in bound[0].items()
            if region in bound[1] and {own.element, bound[1][region].element} == {"f32", "vec4f"}
        }
        return cls._bind(bound, set()) or (cls._bind(bound, mixed) if mixed else None)

    @classmethod
    def _bind(cls, bound: Sequence[Mapping[Place, Binding]], vectors: Set[Place]) -> _Memory | None:
        """`vectors`: regions that both bind as vectors."""
        merged: dict[tuple[Place, str], Binding] = {}
        names: tuple[dict[str, str], dict[str, str]] = ({}, {})
        by_vector: tuple[set[str], set[str]] = (set(), set())
        for own_bindings, renamed, viewed in zip(bound, names, by_vector, strict=True):
            for region, own in own_bindings.items():
                binding = own
                if region in vectors and own.element == "f32":
                    binding = replace(own, element="vec4f", count=own.count // VECTOR)
                    viewed.add(own.name)
                key = region, binding.element
                known = merged.get(key)
                if known is None:
                    taken = {each.name for each in merged.values()}
                    known = replace(binding, name=_free(own.name, taken))
                elif not _may_share(region, known, own):
                    return None
                merged[key] = replace(known, written=known.written or own.written)
                renamed[own.name] = known.name
        regions = tuple(region for region, _ in merged)
        written = {region.buffer for (region, _), own in merged.items() if own.written}
        is_shared = any(one.buffer in written for one, _ in overlapping(regions))
        has_uniforms = any(binding.uniform for binding in merged.values())
        if is_shared or has_uniforms or len(merged) > MAX_BINDINGS:
            return None
        return cls(regions, tuple(merged.values()), names, by_vector)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Which bindings each kernel has: with the kernels, all that the joined one depends on."""
        number = {binding.name: i for i, binding in enumerate(self.bindings)}
        return tuple(number[name] for names in self.names for name in names.values())


def _may_share(region: Place, one: Binding, other: Binding) -> bool:
    """Scalars are bound together, though a kernel touches few of them."""
    return region.buffer == SCALARS or not (one.written or other.written)


def _free(name: str, taken: Set[str]) -> str:
    """A name like this one that nothing has."""
    stem = name.rstrip("0123456789")
    names = chain((name,), (f"{stem}{number}" for number in count(2)))
    return next(own for own in names if own not in taken)


@dataclass(frozen=True, slots=True)
class _Part:
    """A kernel under names of its own, and the workgroups that it takes."""

    kernel: Kernel
    grid: Grid

    @property
    def workgroups(self) -> int:
        return prod(self.grid)

    @property
    def main(self) -> FunctionDef:
        return self.kernel.body.functions["main"]

    @property
    def functions(self) -> tuple[Declaration, ...]:
        return tuple(own for own in self.kernel.body.declarations if own is not self.main)

    def branch(self, before: int, threads: int) -> Body:
        """Says what its workgroups do, of which the first is number `before` of all."""
        group: Expr = Member(Name(_GROUP), "x")
        group = Binary("-", group, u32(before), parens=True) if before else group
        used = words_of(replace(self.main, comment=""))
        built_ins = (
            let(name, self._built_in(built_in, group, threads))
            for name, built_in in self.main.params
            if name in used
        )
        return (*built_ins, *self.main.body)

    def _built_in(self, name: str, group: Expr, threads: int) -> Expr:
        thread = Name(_THREAD)
        match name:
            case "@workgroup_id":
                return _vector(group, self.grid)
            case "@local_invocation_id":
                return _vector(thread, self.kernel.workgroup)
            case "@global_invocation_id":
                number = Binary("+", Binary("*", group, u32(threads)), thread)
                return _vector(number, (1, 1, 1))
        assert name == "@local_invocation_index", name
        return thread


def _vector(number: Expr, sizes: Grid) -> Expr:
    """The coordinates of a number, with so many of them along each axis."""
    across, down, deep = sizes
    if down == deep == 1:
        return expression("vec3u(NUMBER, 0u, 0u)", NUMBER=number)
    text = "vec3u(NUMBER % ACROSS, NUMBER / ACROSS, 0u)"
    if deep > 1:
        text = "vec3u(NUMBER % ACROSS, NUMBER / ACROSS % DOWN, NUMBER / PLANE)"
    return expression(text, NUMBER=in_parens(number), ACROSS=across, DOWN=down, PLANE=across * down)


def _launch(launches: tuple[Launch, Launch], memory: _Memory) -> Launch | None:
    """None if workgroups of one size cannot run both, or have too little memory for both."""
    threads = _threads(launches)
    kernels = [launch.kernel for launch in launches]
    if sum(kernel.workgroup_bytes for kernel in kernels) > MAX_WORKGROUP_BYTES:
        kernels = in_pool(kernels)
    shared_bytes = sum(kernel.workgroup_bytes for kernel in kernels) - _pool_bytes(kernels[0])
    if not threads or shared_bytes > MAX_WORKGROUP_BYTES:
        return None
    parts, taken = list[_Part](), {b.name for b in memory.bindings} | {_GROUP, _THREAD}
    constants: dict[str, int] = {}
    for number, (launch, kernel) in enumerate(zip(launches, kernels, strict=True)):
        kernel = replace(kernel, body=with_vectors(kernel.body, memory.by_vector[number]))
        own = _with_names(kernel, memory.names[number], taken, constants)
        constants |= dict(own.constants)
        taken |= _own_names(own)
        parts.append(_Part(own, _grid(launch, threads)))
    first, second = (part.kernel for part in parts)
    joined = Kernel(
        PAGE,
        memory.bindings,
        tuple(constants.items()),
        Module(
            (*(own for part in parts for own in part.functions), _main(parts[0], parts[1], threads))
        ),
        tuple(sorted({*first.functions, *second.functions}, key=helper_name)),
        (threads, 1, 1),
        tuple(dict.fromkeys((*first.shared, *second.shared))),
    )
    grid = (sum(part.workgroups for part in parts), 1, 1)
    return Launch(joined, grid, max(launch.iterations for launch in launches))


def _pool_bytes(kernel: Kernel) -> int:
    pool = tuple(variable for variable in kernel.shared if variable.name == POOL)
    return replace(kernel, shared=pool).workgroup_bytes


def _grid(launch: Launch, threads: int) -> Grid:
    if not _is_elastic(launch):
        return launch.grid
    return (ceil_div(prod(launch.grid) * prod(launch.kernel.workgroup), threads), 1, 1)


def _main(first: _Part, second: _Part, threads: int) -> FunctionDef:
    before = first.workgroups
    is_first = expression("OWN.x < BEFORE", OWN=Name(_GROUP), BEFORE=before)
    branches = If(is_first, first.branch(0, threads), second.branch(before, threads))
    comment = (
        f"The first {before} workgroups:\n{first.main.comment}\nThe others:\n{second.main.comment}"
    )
    params = ((_GROUP, "@workgroup_id"), (_THREAD, "@local_invocation_index"))
    return FunctionDef("main", params, None, (branches,), (Literal(threads, "int"),), comment)


def _own_names(kernel: Kernel) -> set[str]:
    """The names of all it declares beside its bindings."""
    own = (getattr(declared, "name", "main") for declared in kernel.body.declarations)
    shared = (variable.name for variable in kernel.shared)
    helpers = map(helper_name, kernel.functions)
    return {*own, *shared, *helpers, *dict(kernel.constants)} - {"main"}


def _with_names(
    kernel: Kernel, names: Mapping[str, str], taken: Set[str], constants: Mapping[str, int]
) -> Kernel:
    """The kernel with these names of bindings, and new ones where a name is taken.

    Both have the functions of ops, the pool, and constants of one value in common.
    """
    own = _own_names(kernel) - {POOL} - set(map(helper_name, kernel.functions))
    own -= {name for name, value in kernel.constants if constants.get(name) == value}
    words = set[str]().union(*map(words_of, kernel.body.declarations)) | own
    changed = {old: new for old, new in names.items() if old != new}
    for name in sorted(own & taken):
        changed[name] = _free(name, {*taken, *words, *changed.values()})
    return replace(
        kernel,
        constants=tuple((changed.get(name, name), value) for name, value in kernel.constants),
        body=_with_types(fill(kernel.body, changed), changed),
        shared=tuple(
            replace(
                variable,
                name=changed.get(variable.name, variable.name),
                length=tuple(changed.get(name, name) for name in variable.length),
            )
            for variable in kernel.shared
        ),
    )


def _with_types(module: Module, names: Mapping[str, str]) -> Module:
    """Filling a page renames where types are used, not where they are declared."""
    return Module(
        tuple(
            replace(declared, name=names.get(declared.name, declared.name))
            if isinstance(declared, Struct | Alias)
            else declared
            for declared in module.declarations
        )
    )
