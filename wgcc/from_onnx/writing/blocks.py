"""Puts statements into layers, by the modules that their nodes belonged to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TypeAlias

from wgcc.from_onnx.names import word
from wgcc.from_onnx.values import (
    Computed,
    Leaf,
    ModelMember,
    Statement,
    Traced,
    flat,
    values_read,
)
from wgcc.syntax import ast
from wgcc.syntax.templates import form, rewrite

# Modules of fewer statements are no layers of their own.
SMALLEST = 2


@dataclass(slots=True, eq=False)
class LayerDraft:
    """A layer in the making: what it does, and what it gets and gives.

    `members` are the parameters and layers that nothing outside uses; a parameter that is also used
    outside comes in as an argument. The body of a `loop` gets `inputs` beside states and items.
    """

    name: str
    body: list[Item]
    inputs: list[Computed | ModelMember] = field(default_factory=list)
    outputs: list[Computed] = field(default_factory=list)
    members: list[ModelMember] = field(default_factory=list)
    scope: tuple[str, ...] = ()
    loop: Statement | None = None

    @property
    def round_inputs(self) -> tuple[Computed, ...]:
        """The values that each round of a loop gets; none if this is no loop."""
        return self.loop.body.round_inputs if self.loop and self.loop.body else ()

    @property
    def call_outputs(self) -> Sequence[Computed]:
        """The values that one call returns; for a loop, those of one round."""
        return self.loop.body.round_outputs if self.loop and self.loop.body else self.outputs

    @property
    def read(self) -> list[Computed | ModelMember]:
        """The parts that it needs; for a loop these include its first states."""
        return [*(self.loop.parts if self.loop else ()), *self.inputs]


Item: TypeAlias = "Statement | LayerDraft"


def make_blocks(traced: Traced) -> LayerDraft:
    """The whole graph as a block with blocks in it."""
    wanted = [value for value in traced.outputs.values() if isinstance(value, Computed)]
    statements = _needed_statements(traced.statements, wanted)
    root = LayerDraft("", _group(statements, 0, ()))
    root.inputs = list(traced.inputs.values())
    root.outputs = wanted
    uses = Counter(member for item in flat(statements) for member in members_of(item))
    _assign_members(root, uses)
    _connect(root, Counter(_uses(statements, wanted)))
    return root


def all_members(block: LayerDraft) -> Iterator[ModelMember]:
    yield from block.members
    for item in block.body:
        if isinstance(item, LayerDraft):
            yield from all_members(item)


def _needed_statements(
    statements: Sequence[Statement], wanted: Sequence[Computed]
) -> list[Statement]:
    """The statements that the outputs depend on."""
    alive = set(wanted)
    dependencies = []
    for statement in reversed(statements):
        if alive.intersection(statement.outputs):
            kept = _needed_rounds(statement, alive)
            dependencies.append(kept)
            alive.update(values_read(kept))
    return dependencies[::-1]


def _needed_rounds(statement: Statement, alive: set[Computed]) -> Statement:
    """A loop without results that nothing reads."""
    body = statement.body
    if body is None:
        return statement
    count = len(body.after)
    finals, stacks = statement.outputs[:count], statement.outputs[count:]
    kept = [pair for pair in zip(stacks, body.results, strict=True) if pair[0] in alive]
    results = tuple(result for _, result in kept)
    inner = _needed_statements(body.statements, [*body.after, *results])
    return replace(
        statement,
        outputs=(*finals, *(stack for stack, _ in kept)),
        body=replace(body, statements=tuple(inner), results=results),
    )


def _group(statements: Sequence[Statement], depth: int, scope: tuple[str, ...]) -> list[Item]:
    """Statements one after the other that belong to one module become a block."""

    def module(statement: Statement) -> str | None:
        return statement.scope[depth] if len(statement.scope) > depth else None

    items: list[Item] = []
    for name, run in groupby(statements, module):
        held = list(run)
        if name is None or len(held) <= SMALLEST:
            items += map(_item, held)
            continue
        inner = (*scope, name)
        body = _group(held, depth + 1, inner)
        only = body[0] if len(body) == 1 else None
        if isinstance(only, LayerDraft):
            only.name = name
            items.append(only)
        else:
            items.append(LayerDraft(name, body, scope=inner))
    return items


def _item(statement: Statement) -> Item:
    """A loop is a block of its own: its body."""
    if statement.body is None:
        return statement
    body = _group(statement.body.statements, len(statement.scope), statement.scope)
    name = word(statement.node) if statement.node else "loop"
    return LayerDraft(name, body, scope=(*statement.scope, name), loop=statement)


def members_of(statement: Statement) -> list[ModelMember]:
    return [part for part in dict.fromkeys(statement.parts) if isinstance(part, ModelMember)]


def statements_of(block: LayerDraft) -> Iterator[Statement]:
    """All of a block; those of the body of a loop are in its statement."""
    for item in block.body:
        if not isinstance(item, LayerDraft):
            yield item
        elif item.loop is not None:
            yield item.loop
        else:
            yield from statements_of(item)


def _assign_members(block: LayerDraft, uses: Counter[ModelMember]) -> Counter[ModelMember]:
    """Members belong to the innermost block that has all their uses."""
    seen: Counter[ModelMember] = Counter()
    for item in block.body:
        if isinstance(item, LayerDraft):
            seen += _assign_members(item, uses)
            seen.update(members_of(item.loop) if item.loop else ())
        else:
            seen.update(members_of(item))
    for member, count in list(seen.items()):
        if count == uses[member]:
            block.members.append(member)
            del seen[member]
    return seen


def _uses(statements: Iterable[Statement], wanted: Sequence[Computed]) -> Iterator[Computed]:
    for statement in flat(statements):
        yield from (part for part in statement.parts if isinstance(part, Computed))
        yield from statement.body.round_outputs if statement.body else ()
    yield from wanted


def _connect(block: LayerDraft, uses: Counter[Computed]) -> None:
    """Fills inputs and outputs of all blocks inside."""
    for item in block.body:
        if not isinstance(item, LayerDraft):
            continue
        _connect(item, uses)
        item.inputs = _outside_parts(item)
        if item.loop is not None:
            item.outputs = list(item.loop.outputs)
            continue
        made = [value for statement in statements_of(item) for value in statement.outputs]
        inside = Counter(_uses(statements_of(item), ()))
        item.outputs = [value for value in made if uses[value] > inside[value]]


def _outside_parts(block: LayerDraft) -> list[Computed | ModelMember]:
    own: set[Computed | ModelMember] = set(all_members(block))
    own.update(block.round_inputs)
    for statement in flat(statements_of(block)):
        own.update(statement.outputs)
        own.update(statement.body.round_inputs if statement.body else ())
    parts: dict[Computed | ModelMember, None] = {}
    for statement in flat(statements_of(block)):
        parts |= dict.fromkeys(statement.parts)
    return [part for part in parts if part not in own]


def signature(block: LayerDraft) -> Hashable:
    """Equal for blocks that compute the same from the same kinds of parameters, but for their
    numbers: they become one layer, used many times."""
    numbers: dict[Computed | ModelMember, int] = {}

    def number(part: Computed | ModelMember) -> int:
        return numbers.setdefault(part, len(numbers))

    def number_leaves(tree: ast.Syntax) -> Hashable:
        def change(node: ast.Syntax) -> ast.Syntax | None:
            if not isinstance(node, Leaf):
                return None
            return ast.Name(node.span, f"#{number(node.part)}")

        return form(rewrite(tree, change))

    heads = tuple((number(part), _kind(part)) for part in (*block.inputs, *block.round_inputs))
    lines: list[Hashable] = []
    for item in block.body:
        if isinstance(item, LayerDraft):
            ports = tuple(number(part) for part in (*item.read, *item.outputs))
            options = number_leaves(item.loop.tree) if item.loop else ()
            lines.append((signature(item), ports, options))
        else:
            held = tuple(_kind(member) for member in members_of(item))
            results = tuple((number(value), _kind(value)) for value in item.outputs)
            lines.append(
                (number_leaves(item.tree), tuple(map(number_leaves, item.targets)), held, results)
            )
    members = tuple((number(member), member.form) for member in block.members)
    return heads, tuple(lines), members, tuple(number(value) for value in block.call_outputs)


def _kind(part: Computed | ModelMember) -> Hashable:
    return part.form if isinstance(part, ModelMember) else (part.dtype, part.stored_shape)
