"""How many registers a thread needs: the words of all variables that are alive at once.

A variable is alive from its declaration to its last use; one that a loop uses but does not declare
is alive until the loop ends. Temporaries inside an expression are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
