"""Models what one dispatch of a kernel does to a GPU, from its tree and its grid.

The words of all variables of a thread that are alive at once: from the declaration to the last use,
or to the end of a loop that uses but does not declare one. Registers are these, and a few for what
has no name: indices of lanes, addresses, temporaries of expressions (`tests/bench/isa.py` compares
them with those of real compilers).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from wgcc.access.devices import DEVICES, seconds
from wgcc.access.expressions import Counts, Machine
from wgcc.access.run import run_workgroup
from wgcc.access.traffic import SECTOR, SharedSite, Site
from wgcc.kernel.rewrite.transform import with_own_nodes
from wgcc.kernel.tree import (
    Assign,
    Call,
    Expr,
    If,
    Let,
    Loop,
    Module,
    Name,
    Return,
    Run,
    Statement,
    parts_of,
)


def live_registers(module: Module, words: Mapping[int, int], function: str = "main") -> int:
    """`words`: what each declaration takes, by its identity."""
    walk = _Walk(module, words)
    walk.block(module.functions[function].body)
    return walk.most()


@dataclass(slots=True)
class _Life:
    words: int
    first: int
    last: int
    loops: int  # how many loops are around its declaration


@dataclass(slots=True)
class _Walk:
    module: Module
    words: Mapping[int, int]
    at: int = 0
    lives: list[_Life] = field(default_factory=list)
    scopes: list[dict[str, _Life]] = field(default_factory=list)
    loops: list[set[int]] = field(default_factory=list)  # what each open loop uses from outside
    calls: dict[int, int] = field(default_factory=dict)

    def block(self, statements: tuple[Statement, ...]) -> None:
        self.scopes.append({})
        for statement in statements:
            self.at += 1
            self._statement(statement)
        self.scopes.pop()

    def _statement(self, statement: Statement) -> None:
        match statement:
            case Let(name, _, value, _):
                self._use(value)
                life = _Life(self.words.get(id(statement), 0), self.at, self.at, len(self.loops))
                self.lives.append(life)
                self.scopes[-1][name] = life
            case Assign(target, value):
                self._use(target)
                self._use(value)
            case If(condition, then, other):
                self._use(condition)
                self.block(then)
                self.block(other)
            case Loop():
                self._loop(statement)
            case Return(value) | Run(value):
                self._use(value)

    def _loop(self, loop: Loop) -> None:
        self.scopes.append({})
        for statement in loop.before:
            self._statement(statement)
        self.loops.append(set())
        self._use(loop.condition)
        self.block(loop.body)
        for statement in loop.after:
            self._statement(statement)
        used = self.loops.pop()
        self.at += 1
        for number in used:
            self.lives[number].last = self.at
        self.scopes.pop()

    def _use(self, expr: Expr | None) -> None:
        if expr is None:
            return
        for part in parts_of(expr):
            if isinstance(part, Name):
                self._use_name(part.name)
            elif isinstance(part, Call) and part.name in self.module.functions:
                inside = live_registers(self.module, self.words, part.name)
                self.calls[self.at] = max(self.calls.get(self.at, 0), inside)

    def _use_name(self, name: str) -> None:
        life = next((s[name] for s in reversed(self.scopes) if name in s), None)
        if life is None:
            return
        life.last = self.at
        number = next(i for i, other in enumerate(self.lives) if other is life)
        for depth, outside in enumerate(self.loops, start=1):
            if life.loops < depth:
                outside.add(number)

    def most(self) -> int:
        """The most that is alive at any point, with what a function called there needs."""
        change = [0] * (self.at + 2)
        for life in self.lives:
            change[life.first] += life.words
            change[life.last + 1] -= life.words
        alive, most = 0, 0
        for at, step in enumerate(change):
            alive += step
            most = max(most, alive + self.calls.get(at, 0))
        return most


# What a thread needs beside its variables, and the groups in which Radeons give registers.
UNNAMED, REGISTER_GROUP = 8, 8
Size = tuple[int, int, int]
BOUND_SPACES = ("storage", "uniform")


@dataclass(frozen=True)
class Access:
    """Figures of a dispatch. `sites` and `shared` are sums over all workgroups.

    `flops`: what the plan says it computes, 0 if that is nothing in particular; `bound`: bytes of
    each binding, by its name; `live`: words of the variables of a thread, at most.
    """

    workgroups: int
    threads: int
    live: int
    sites: tuple[Site, ...]
    shared: tuple[SharedSite, ...]
    counts: Counts
    flops: int
    bound: Mapping[str, int]

    @property
    def registers(self) -> int:
        """Registers that a compiler takes for a thread, about."""
        return math.ceil((self.live + UNNAMED) / REGISTER_GROUP) * REGISTER_GROUP

    @property
    def sectors(self) -> float:
        return sum(site.sectors for site in self.sites)

    @property
    def sector_ratio(self) -> float:
        """Sectors of 32 bytes that loads and stores touch, in units of the least possible."""
        ideal = sum(site.ideal for site in self.sites)
        return self.sectors / ideal if ideal else 1.0

    @property
    def sector_ratio_64(self) -> float:
        """The same in subgroups of 64."""
        ideal = sum(site.ideal_64 for site in self.sites)
        return sum(site.sectors_64 for site in self.sites) / ideal if ideal else 1.0

    @property
    def bank_conflicts(self) -> int:
        """How many lanes of a subgroup wait for one bank of workgroup memory, at most."""
        return max((site.ways for site in self.shared), default=1)

    @property
    def traffic(self) -> float:
        """Bytes that go through the caches."""
        return SECTOR * self.sectors

    @cached_property
    def least_bytes(self) -> int:
        """Bytes that memory gives and takes if caches are perfect: each that is loaded, and each
        that is stored, once. An update in place does both; a lookup loads few rows of a table."""
        touched: Counter[tuple[str, bool]] = Counter()
        for site in self.sites:
            touched[site.name, site.is_store] += math.ceil(SECTOR * site.sectors)
        return sum(min(self.bound.get(name, 0), size) for (name, _), size in touched.items())

    @property
    def barriers(self) -> float:
        """At which each workgroup waits for all its lanes."""
        return self.counts.barriers / self.workgroups

    @property
    def useful(self) -> float | None:
        """Which share of the multiply-adds the results need; the rest is padding of tiles."""
        made = 2 * 32 * self.counts.fma
        return min(self.flops / made, 1.0) if self.flops and made else None

    @property
    def instructions(self) -> float:
        counts = self.counts
        accesses = sum(s.accesses for s in self.sites) + sum(s.accesses for s in self.shared)
        return counts.fma + counts.floats + counts.integers + accesses

    def shared_cycles(self, per_cycle: int) -> float:
        return sum(s.slow_cycles if per_cycle < 128 else s.cycles for s in self.shared)

    @cached_property
    def seconds(self) -> dict[str, float]:
        """The roofline time on each device."""
        return {device.name: seconds(self, device) for device in DEVICES}

    @cached_property
    def peak_share(self) -> dict[str, float]:
        """Which share of a device's f32 peak the products can reach."""
        times = self.seconds
        return {d.name: self.flops / times[d.name] / d.tflops / 1e12 for d in DEVICES}


def access_of(kernel: Module, grid: Size, flops: int = 0, bound: Sequence[int] = ()) -> Access:
    """The model of a dispatch of `grid` workgroups; `bound`: bytes of each binding, in order."""
    # Loads and variables are told apart by their nodes.
    module = with_own_nodes(kernel)
    size = workgroup_size(module)
    machine = Machine(module, prod(size))
    groups = _sample_groups(grid)
    for group, weight in groups.items():
        machine.weight = weight
        run_workgroup(machine, size, group)
    bindings = [
        name for name, variable in module.variables.items() if variable.space in BOUND_SPACES
    ]
    return Access(
        prod(grid),
        prod(size),
        live_registers(module, machine.registers),
        tuple(machine.traffic.sites.values()),
        tuple(machine.traffic.shared.values()),
        machine.counts,
        flops,
        dict(zip(bindings, bound, strict=bool(bound))),
    )


def access_or_none(
    kernel: Module, grid: Size, flops: int = 0, bound: Sequence[int] = ()
) -> Access | None:
    """None for a kernel that somebody has changed into something beyond what wgcc writes."""
    try:
        return access_of(kernel, grid, flops, bound)
    except (LookupError, TypeError, ValueError, AssertionError, AttributeError):
        return None


def workgroup_size(module: Module) -> Size:
    machine = Machine(module, 1)
    x, y, z = (*(int(machine.value(expr)) for expr in module.workgroup), 1, 1)[:3]
    return x, y, z


def _sample_groups(grid: Size) -> dict[Size, float]:
    """The first workgroup, the last and one in the middle, which stands for all others."""
    count = prod(grid)
    numbers = {0: 1.0, count // 2: max(count - 2.0, 1.0), count - 1: 1.0}
    total = sum(numbers.values())
    x, y, _ = grid
    return {
        (n % x, n // x % y, n // (x * y)): weight * count / total for n, weight in numbers.items()
    }
