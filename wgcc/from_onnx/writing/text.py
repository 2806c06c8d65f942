"""The text of a model, and its weights by the names that the text gives them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from wgcc.from_onnx.names import is_keyword, word
from wgcc.from_onnx.values import Constant, Member, Part, Statement, Value
from wgcc.from_onnx.writing.blocks import Block
from wgcc.from_onnx.writing.equal import signature
from wgcc.from_onnx.writing.inline import Line, inlined
from wgcc.lazy_numpy import Array

WIDTH = 100


@dataclass(frozen=True, slots=True)
class LayerType:
    """A layer as written: the names of its members, in the order of the block's."""

    name: str
    text: str
    member_names: tuple[str, ...]
    block_names: tuple[str, ...]


@dataclass(slots=True)
class Names:
    """Gives each thing of a scope a name of its own."""

    taken: set[str] = field(default_factory=set)

    def fresh(self, wanted: str) -> str:
        base = clean(wanted)
        name, number = base, 1
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        return name


def clean(text: str) -> str:
    """A lower-case name: `/h/MatMul_output_0` is `matmul`."""
    found = re.sub(r"_output_\d+$", "", word(text.replace(".", "_")))
    found = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", found).lower()
    found = found.strip("_") or "x"
    if found[0].isdigit():
        found = f"part{found}"
    return f"{found}_" if is_keyword(found) else found


@dataclass(slots=True)
class ModelText:
    """What the writer of one model knows."""

    reserved: frozenset[str]
    types: dict[Hashable, LayerType] = field(default_factory=dict)
    type_names: Names = field(default_factory=Names)
    layers: list[str] = field(default_factory=list)

    def type_of(self, block: Block) -> LayerType:
        key = signature(block)
        if key not in self.types:
            self.types[key] = self._write_layer(block)
        return self.types[key]

    def _write_layer(self, block: Block) -> LayerType:
        body = BlockText(self, block)
        lines = body.lines()
        name = self._type_name(block.name)
        arguments = ", ".join(f"{body.names[part]}: {type_text(part)}" for part in block.inputs)
        results = [type_text(value) for value in block.outputs]
        result = results[0] if len(results) == 1 else f"({', '.join(results)})"
        path = "/".join(block.scope)
        text = [f"/// {path}", f"layer {name} {{", *indent(body.declarations)]
        text += [""] if body.declarations else []
        text += [f"  fn forward({arguments}) -> {result} {{", *indent(indent(lines))]
        text += ["  }", "}", ""]
        self.layers += text
        return LayerType(name, "", body.member_names, body.block_names)

    def _type_name(self, name: str) -> str:
        base = name.rpartition(".")[0] if name.rpartition(".")[2].isdigit() else name
        words = [part for part in re.split(r"[^A-Za-z0-9]+", base) if part] or ["Part"]
        found = "".join(part[0].upper() + part[1:] for part in words)
        found = f"Part{found}" if found[0].isdigit() else found
        found = f"{found}Block" if found in self.reserved else found
        number, unique = 1, found
        while unique in self.type_names.taken:
            number += 1
            unique = f"{found}_{number}" if found[-1].isdigit() else f"{found}{number}"
        self.type_names.taken.add(unique)
        return unique


def indent(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" if line else line for line in lines]


def type_text(part: Value | Member) -> str:
    if isinstance(part, Member):
        array = part.arrays[""]
        return held_type(Constant(array).dtype, tuple(array.shape))
    return held_type(part.dtype, part.stored_shape)


def held_type(dtype: str, sizes: Sequence[object]) -> str:
    return f"{dtype}[{', '.join(map(str, sizes))}]" if sizes else dtype


class BlockText:
    """The members and statements of one block, with names."""

    def __init__(self, model: ModelText, block: Block) -> None:
        self.model, self.block = model, block
        self.scope = Names(set(model.reserved))
        self.names: dict[Value | Member, str] = {}
        self.declarations: list[str] = []
        for part in block.inputs:
            self.names[part] = self.scope.fresh(part.name)
        self.member_names = tuple(self._declare(member) for member in block.members)
        self.block_names = self._declare_blocks()

    def _declare(self, member: Member) -> str:
        hint = member.name.rpartition(".")[2] if "param " in member.kind else member.name
        name = self.scope.fresh(hint)
        self.names[member] = name
        self.declarations.append(member.kind.format(name=name))
        return name

    def _declare_blocks(self) -> tuple[str, ...]:
        """Blocks `h.0`, `h.1` … of one type are a list."""
        blocks = [item for item in self.block.body if isinstance(item, Block)]
        lists = _lists(blocks, self.model)
        found: dict[int, str] = {}
        for base, held in lists.items():
            name = self.scope.fresh(base)
            kind = self.model.type_of(held[0]).name
            self.declarations.append(f"{name}[{len(held)}]: {kind}")
            for place, block in enumerate(held):
                found[id(block)] = f"{name}.{place}"
        for block in blocks:
            if id(block) not in found:
                name = self.scope.fresh(block.name)
                self.declarations.append(f"{name}: {self.model.type_of(block).name}")
                found[id(block)] = name
        self.calls = found
        return tuple(found[id(block)] for block in blocks)

    def lines(self, results: Sequence[str] = ()) -> list[str]:
        """The statements and the `return`."""
        lines = [_line(item) for item in self.block.body]
        uses = Counter(part for item in lines for part in _parts(item) if isinstance(part, Value))
        across = {part for item in lines if isinstance(item, Block) for part in _parts(item)}
        kept = {part for part in across if isinstance(part, Value)} | set(self.block.outputs)
        text: list[str] = []
        for item in _loops(inlined(list(lines), kept, uses), self.calls):
            text += self._text(item)
        returned = results or [self.names[value] for value in self.block.outputs]
        return [*text, f"return {', '.join(returned)}"]

    def _text(self, item: object) -> list[str]:
        if isinstance(item, Loop):
            return self._loop(item)
        if isinstance(item, Block):
            call = re.sub(r"\.(\d+)$", r"[\1]", self.calls[id(item)])
            arguments = ", ".join(self.name(part) for part in item.inputs)
            targets = ", ".join(self._bind(value) for value in item.outputs)
            return [f"{targets} = {call}({arguments})"]
        assert isinstance(item, Line)
        filled = [self.name(part) for part in item.parts]
        expression = item.text.format(*filled)
        names = [self._bind(value) for value in item.outputs]
        targets = item.targets.format(*names) if item.targets else ", ".join(names)
        return [_commented(f"{targets} = {expression}", item.nodes)]

    def _loop(self, loop: Loop) -> list[str]:
        """`for block in h { x = block(x) }`."""
        first, last = loop.blocks[0], loop.blocks[-1]
        carried = first.inputs[loop.place]
        name = self._bind(last.outputs[0])
        item = self.scope.fresh("block")
        arguments = [self.name(part) for part in first.inputs]
        arguments[loop.place] = name
        return [
            f"{name} = {self.name(carried)}",
            f"for {item} in {loop.name} {{ {name} = {item}({', '.join(arguments)}) }}",
        ]

    def _bind(self, value: Value) -> str:
        self.names[value] = self.scope.fresh(value.name)
        return self.names[value]

    def name(self, part: Part) -> str:
        return part if isinstance(part, str) else self.names[part]


@dataclass(frozen=True, slots=True)
class Loop:
    """Equal blocks, each of which gets what the one before it gives, at one place."""

    name: str
    blocks: tuple[Block, ...]
    place: int


def _loops(items: Sequence[object], calls: dict[int, str]) -> list[object]:
    found: list[object] = []
    rest = list(items)
    while rest:
        run = _chain(rest, calls)
        if run is None:
            found.append(rest.pop(0))
        else:
            found.append(run)
            del rest[: len(run.blocks)]
    return found


def _chain(items: Sequence[object], calls: dict[int, str]) -> Loop | None:
    """A whole list, called one after the other."""
    run: list[Block] = []
    for item in items:
        expected = f".{len(run)}"
        if not isinstance(item, Block) or not calls[id(item)].endswith(expected):
            break
        if len(item.outputs) != 1 or (run and _place(run[-1], item) is None):
            break
        run.append(item)
    if len(run) < 2:
        return None
    name = calls[id(run[0])].removesuffix(".0")
    size = sum(call.rpartition(".")[0] == name for call in calls.values())
    places = {_place(a, b) for a, b in pairwise(run)}
    if size != len(run) or len(places) != 1:
        return None
    used = {part for item in items[len(run) :] for part in _parts(item)}
    if any(block.outputs[0] in used for block in run[:-1]):
        return None
    return Loop(name, tuple(run), places.pop() or 0)


def _place(before: Block, after: Block) -> int | None:
    """Where the result of one enters the other, if all else is the same."""
    result = before.outputs[0]
    differing = [
        place
        for place, (a, b) in enumerate(zip(before.inputs, after.inputs, strict=True))
        if a is not b
    ]
    if len(differing) == 1 and after.inputs[differing[0]] is result:
        return differing[0]
    return None


def _lists(blocks: Sequence[Block], model: ModelText) -> dict[str, list[Block]]:
    groups: dict[str, list[Block]] = {}
    for block in blocks:
        base, dot, number = block.name.rpartition(".")
        if dot and number.isdigit():
            groups.setdefault(base, []).append(block)
    return {
        base: held
        for base, held in groups.items()
        if len(held) > 1
        and len({model.type_of(block).name for block in held}) == 1
        and len({block.name for block in held}) == len(held)
    }


def _line(item: Statement | Block) -> Line | Block:
    if isinstance(item, Block):
        return item
    nodes = (item.node,) if item.node else ()
    return Line(item.text, item.parts, item.outputs, nodes, item.targets)


def _parts(item: object) -> Sequence[Part]:
    if isinstance(item, Block):
        return item.inputs
    return item.parts if isinstance(item, Line) else ()


def _commented(text: str, nodes: Sequence[str]) -> str:
    """With the names that the nodes have in the ONNX file."""
    short = ", ".join(node.rpartition("/")[2] for node in nodes)
    return f"{text}  // {short}" if short and len(text) + len(short) + 4 <= WIDTH else text


@dataclass(frozen=True, slots=True)
class Written:
    """A model file, its weights, and what ONNX's inputs and outputs are called in it."""

    text: str
    weights: dict[str, Array]
    inputs: dict[str, str]
    outputs: dict[str, str]


def collect_weights(
    block: Block, kind: LayerType, prefix: str, model: ModelText
) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for member, name in zip(block.members, kind.member_names, strict=True):
        for key, array in member.arrays.items():
            found[f"{prefix}{name}.{key}" if key else f"{prefix}{name}"] = array
    inner = [item for item in block.body if isinstance(item, Block)]
    for child, name in zip(inner, kind.block_names, strict=True):
        found |= collect_weights(child, model.type_of(child), f"{prefix}{name}.", model)
    return found
