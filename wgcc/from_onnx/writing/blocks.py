"""Puts statements into layers, by the modules that their nodes belonged to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeAlias

from wgcc.from_onnx.values import Member, Statement, Traced, Value

# Modules of fewer statements are no layers of their own.
SMALLEST = 2


@dataclass(slots=True, eq=False)
class Block:
    """A layer in the making: what it does, and what it gets and gives.

    `members` are the parameters and layers that nothing outside uses; a parameter that is also used
    outside comes in as an argument.
    """

    name: str
    body: list[Item]
    inputs: list[Value | Member] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    scope: tuple[str, ...] = ()


Item: TypeAlias = "Statement | Block"


def make_blocks(traced: Traced) -> Block:
    """The whole graph as a block with blocks in it."""
    wanted = [value for value in traced.outputs.values() if isinstance(value, Value)]
    statements = _needed(traced.statements, wanted)
    root = Block("", _grouped(statements, 0, ()))
    root.inputs = list(traced.inputs.values())
    root.outputs = wanted
    uses = Counter(member for item in statements for member in members_of(item))
    _assign_members(root, uses)
    _connect(root, Counter(_uses(statements, wanted)))
    return root


def _needed(statements: Sequence[Statement], wanted: Sequence[Value]) -> list[Statement]:
    """Those that the outputs depend on."""
    alive = set(wanted)
    found = []
    for statement in reversed(statements):
        if alive.intersection(statement.outputs):
            found.append(statement)
            alive.update(part for part in statement.parts if isinstance(part, Value))
    return found[::-1]


def _grouped(statements: Sequence[Statement], depth: int, scope: tuple[str, ...]) -> list[Item]:
    """Statements one after the other that belong to one module become a block."""

    def module(statement: Statement) -> str | None:
        return statement.scope[depth] if len(statement.scope) > depth else None

    found: list[Item] = []
    for name, run in groupby(statements, module):
        held = list(run)
        if name is None or len(held) <= SMALLEST:
            found += held
            continue
        inner = (*scope, name)
        body = _grouped(held, depth + 1, inner)
        only = body[0] if len(body) == 1 else None
        if isinstance(only, Block):
            only.name = name
            found.append(only)
        else:
            found.append(Block(name, body, scope=inner))
    return found


def members_of(statement: Statement) -> list[Member]:
    return [part for part in dict.fromkeys(statement.parts) if isinstance(part, Member)]


def statements_of(block: Block) -> Iterator[Statement]:
    for item in block.body:
        if isinstance(item, Block):
            yield from statements_of(item)
        else:
            yield item


def _assign_members(block: Block, uses: Counter[Member]) -> Counter[Member]:
    """Members belong to the innermost block that has all their uses."""
    seen: Counter[Member] = Counter()
    for item in block.body:
        if isinstance(item, Block):
            seen += _assign_members(item, uses)
        else:
            seen.update(members_of(item))
    for member, count in list(seen.items()):
        if count == uses[member]:
            block.members.append(member)
            del seen[member]
    return seen


def _uses(statements: Sequence[Statement], wanted: Sequence[Value]) -> Iterator[Value]:
    for statement in statements:
        yield from (part for part in statement.parts if isinstance(part, Value))
    yield from wanted


def _connect(block: Block, uses: Counter[Value]) -> None:
    """Fills inputs and outputs of all blocks inside."""
    for item in block.body:
        if not isinstance(item, Block):
            continue
        _connect(item, uses)
        made = [value for statement in statements_of(item) for value in statement.outputs]
        own = set(made)
        inside = Counter(_uses(list(statements_of(item)), ()))
        item.inputs = _outside_parts(item, own)
        item.outputs = [value for value in made if uses[value] > inside[value]]


def _outside_parts(block: Block, own: set[Value]) -> list[Value | Member]:
    owned = set(_all_members(block))
    found: dict[Value | Member, None] = {}
    for statement in statements_of(block):
        for part in statement.parts:
            if (isinstance(part, Value) and part not in own) or (
                isinstance(part, Member) and part not in owned
            ):
                found[part] = None
    return list(found)


def _all_members(block: Block) -> Iterator[Member]:
    yield from block.members
    for item in block.body:
        if isinstance(item, Block):
            yield from _all_members(item)
