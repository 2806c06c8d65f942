"""The statements of a block as lines: without aliases, with short expressions where they are used,
and with lists of equal blocks that are called one after the other as a `for`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

from wgcc.from_onnx.values import Computed, Leaf, ModelMember, Statement, leaves
from wgcc.from_onnx.writing.blocks import LayerDraft
from wgcc.syntax import ast
from wgcc.syntax.print_source import expression_text
from wgcc.syntax.templates import NOWHERE, name, rewrite

# An expression of more characters is not written into another one.
LONGEST = 80
# What leaves are counted as while they have no names, and whole numbers, so that the form of a text
# depends on no size.
LEAF, WHOLE_NUMBER = name("x" * 9), name("00")


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A statement, and the nodes of the ONNX file that it stands for."""

    tree: ast.Expr
    outputs: tuple[Computed, ...]
    nodes: tuple[str, ...]
    targets: tuple[ast.Expr, ...] = ()

    @property
    def parts(self) -> tuple[Computed | ModelMember, ...]:
        return leaves(self.tree)

    @property
    def width(self) -> int:
        return len(expression_text(_change(self.tree, _measure)))


@dataclass(frozen=True, slots=True)
class Chain:
    """Equal blocks, each of which gets what the one before it gives, at one place."""

    name: str
    blocks: tuple[LayerDraft, ...]
    place: int


Item: TypeAlias = "Line | LayerDraft"
# By identity of a block: the member that it is, and its place if that is a list.
Calls: TypeAlias = Mapping[int, tuple[str, int | None]]


def lines_of(block: LayerDraft, calls: Calls) -> list[Line | LayerDraft | Chain]:
    items = [_line(item) if isinstance(item, Statement) else item for item in block.body]
    across = {part for item in items if isinstance(item, LayerDraft) for part in parts_of(item)}
    kept = {part for part in across if isinstance(part, Computed)} | set(block.call_outputs)
    items = _without_aliases(items, kept)
    return _find_chains(_inline(items, kept), calls)


def _line(item: Statement) -> Line:
    return Line(item.tree, item.outputs, (item.node,) if item.node else (), item.targets)


def parts_of(item: Item) -> Sequence[Computed | ModelMember]:
    """The parts that a line or a block reads."""
    return item.read if isinstance(item, LayerDraft) else item.parts


def _change(tree: ast.Syntax, change: Any) -> Any:
    return rewrite(tree, change)


def _measure(node: ast.Syntax) -> ast.Syntax | None:
    if isinstance(node, Leaf):
        return LEAF
    return WHOLE_NUMBER if isinstance(node, ast.Int) else None


def _without_aliases(items: Sequence[Item], kept: set[Computed]) -> list[Item]:
    """`y = x` is left out: what reads y reads x."""
    same: dict[object, Computed | ModelMember] = {}

    def origin(node: ast.Syntax) -> ast.Syntax | None:
        known = same.get(node.part) if isinstance(node, Leaf) else None
        return Leaf(NOWHERE, known) if known is not None else None

    remaining: list[Item] = []
    for item in items:
        if isinstance(item, LayerDraft):
            remaining.append(item)
            continue
        line = replace(item, tree=_change(item.tree, origin))
        if isinstance(line.tree, Leaf) and line.outputs[0] not in kept:
            same[line.outputs[0]] = line.tree.part
        else:
            remaining.append(line)
    return remaining


def _inline(items: Sequence[Item], kept: set[Computed]) -> list[Item]:
    """`kept` are values that need a name; others are written into the line that uses them."""
    uses = Counter(part for item in items for part in parts_of(item))
    waiting: dict[object, Line] = {}
    by_id: dict[int, Item] = {}
    for item in items:
        if isinstance(item, LayerDraft):
            by_id[id(item)] = item
            continue
        line = item
        for part in dict.fromkeys(item.parts):
            inner = waiting.pop(part, None)
            if inner is not None and line.width + inner.width <= LONGEST:
                del by_id[id(inner)]
                line = _with(line, inner)
        by_id[id(line)] = line
        is_single = len(line.outputs) == 1 and line.outputs[0] not in kept
        if is_single and uses[line.outputs[0]] == 1 and line.width <= LONGEST // 2:
            waiting[line.outputs[0]] = line
    return list(by_id.values())


def _with(line: Line, inner: Line) -> Line:
    def change(node: ast.Syntax) -> ast.Syntax | None:
        is_it = isinstance(node, Leaf) and node.part is inner.outputs[0]
        return inner.tree if is_it else None

    nodes = tuple(dict.fromkeys((*inner.nodes, *line.nodes)))
    return replace(line, tree=_change(line.tree, change), nodes=nodes)


def _find_chains(items: Sequence[Item], calls: Calls) -> list[Line | LayerDraft | Chain]:
    entries: list[Line | LayerDraft | Chain] = []
    rest = list(items)
    while rest:
        run = _chain(rest, calls)
        entries.append(rest[0] if run is None else run)
        del rest[: 1 if run is None else len(run.blocks)]
    return entries


def _chain(items: Sequence[Item], calls: Calls) -> Chain | None:
    """A whole list, called one after the other."""
    run: list[LayerDraft] = []
    for item in items:
        if not isinstance(item, LayerDraft) or item.loop is not None or len(item.outputs) != 1:
            break
        if calls[id(item)][1] != len(run) or (run and _place(run[-1], item) is None):
            break
        run.append(item)
    if len(run) < 2:
        return None
    name = calls[id(run[0])][0]
    size = sum(member == name for member, _ in calls.values())
    places = {_place(a, b) for a, b in pairwise(run)}
    used = {part for item in items[len(run) :] for part in parts_of(item)}
    is_read = any(block.outputs[0] in used for block in run[:-1])
    if size != len(run) or len(places) != 1 or is_read:
        return None
    return Chain(name, tuple(run), places.pop() or 0)


def _place(before: LayerDraft, after: LayerDraft) -> int | None:
    """The input of one block that is the output of the other, if all other inputs are the same."""
    pairs = enumerate(zip(before.inputs, after.inputs, strict=True))
    differing = [place for place, (a, b) in pairs if a is not b]
    is_next = len(differing) == 1 and after.inputs[differing[0]] is before.outputs[0]
    return differing[0] if is_next else None
