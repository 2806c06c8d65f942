"""The text of a model, and its weights by the names that the text gives them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from wgcc.from_onnx.names import is_keyword, word
from wgcc.from_onnx.values import Constant, Member, Part, Statement, Value
from wgcc.from_onnx.writing.blocks import Block
from wgcc.from_onnx.writing.chains import Chain, chained, item_parts
from wgcc.from_onnx.writing.equal import signature
from wgcc.from_onnx.writing.inline import Line, inlined, width, without_aliases
from wgcc.from_onnx.writing.loop_text import RoundText, call_text
from wgcc.lazy_numpy import Array

WIDTH = 100
# What entries that train call their own values.
TRAINING_NAMES = frozenset({"y", "loss", "accuracy"})
# `h.0` of PyTorch, `layer_0` of others, which are a list if there are several: `ln_1` and `ln_2`
# are two modules.
FEWEST_NUMBERED = 3
NUMBERED = re.compile(r"(.+)[._]\d+")
# Of modules and results that are called like functions.
SHORTER = {"attention": "attn", "layer_norm": "ln"}


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
    reserved: frozenset[str] = frozenset()
    # The last number behind each name.
    numbers: dict[str, int] = field(default_factory=dict)

    def fresh(self, wanted: str, kind: str = "out") -> str:
        """What has the name of a function gets `kind` behind it: `softmax_out`, `norm_layer`."""
        base = clean(wanted)
        if base in self.reserved:
            base = SHORTER.get(base, f"{base}_{kind}")
        name, number = base, self.numbers.get(base, 1)
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.numbers[base] = number
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
        arguments, result = body.ports()
        about = "one round of " if block.loop else ""
        text = [
            f"/// {about}{'/'.join(block.scope)}",
            f"layer {name} {{",
            *indent(body.declarations),
        ]
        text += [""] if body.declarations else []
        text += [f"  fn forward({arguments}) -> {result} {{", *indent(indent(lines))]
        text += ["  }", "}", ""]
        self.layers += text
        return LayerType(name, "", body.member_names, body.block_names)

    def type_text(self, part: Value | Member) -> str:
        if isinstance(part, Member):
            array = part.arrays[""]
            return held_type(Constant(array).dtype, tuple(array.shape))
        return held_type(part.dtype, part.stored_shape)

    def _type_name(self, name: str) -> str:
        numbered = NUMBERED.fullmatch(name)
        base = numbered[1] if numbered else name
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


def held_type(dtype: str, sizes: Sequence[object]) -> str:
    return f"{dtype}[{', '.join(map(str, sizes))}]" if sizes else dtype


class BlockText:
    """The members and statements of one block, with names."""

    def __init__(self, model: ModelText, block: Block) -> None:
        self.model, self.block = model, block
        self.scope = Names(set(model.reserved), model.reserved)
        self.names: dict[Value | Member, str] = {}
        self.declarations: list[str] = []
        for part in (*block.given, *block.inputs):
            self.names[part] = self.scope.fresh(part.name, "in")
        self.member_names = tuple(self._declare(member) for member in block.members)
        self.block_names = self._declare_blocks()
        self.rounds = (
            RoundText(block, self.name, model.type_text, self.scope.fresh) if block.loop else None
        )

    def ports(self) -> tuple[str, str]:
        """The arguments and the type of the result."""
        if self.rounds is not None:
            return self.rounds.arguments, self.rounds.result
        held = [f"{self.names[part]}: {self.model.type_text(part)}" for part in self.block.inputs]
        results = [self.model.type_text(value) for value in self.block.outputs]
        return ", ".join(held), results[0] if len(results) == 1 else f"({', '.join(results)})"

    def _declare(self, member: Member) -> str:
        is_param = "param " in member.kind
        hint = self._parameter_name(member.name) if is_param else member.name
        name = self._fresh_member(hint, "param" if is_param else "layer")
        self.names[member] = name
        self.declarations.append(member.kind.format(name=name))
        return name

    def _fresh_member(self, hint: str, what: str) -> str:
        """Entries that train have names of their own, which no member of the model may have."""
        is_local = not self.block.scope and clean(hint) in TRAINING_NAMES
        return self.scope.fresh(f"{hint}_{what}" if is_local else hint, what)

    def _parameter_name(self, name: str) -> str:
        """The `weight` of another module than this one is called after that."""
        module, _, own = name.rpartition(".")
        module = module.rpartition(".")[2]
        around = self.block.scope[-1].rpartition(".")[2] if self.block.scope else ""
        if own not in ("weight", "bias") or not module.isidentifier() or module == around:
            return own
        return module if own == "weight" else f"{module}_{own}"

    def _declare_blocks(self) -> tuple[str, ...]:
        """Blocks `h.0`, `h.1` … of one type are a list."""
        blocks = [item for item in self.block.body if isinstance(item, Block)]
        lists = _lists(blocks, self.model)
        found: dict[int, str] = {}
        for base, held in lists.items():
            name = self.scope.fresh(f"{base}s" if is_keyword(base) else base, "layers")
            kind = self.model.type_of(held[0]).name
            self.declarations.append(f"{name}[{len(held)}]: {kind}")
            for place, block in enumerate(held):
                found[id(block)] = f"{name}.{place}"
        for block in blocks:
            if id(block) not in found:
                name = self._fresh_member(block.name, "layer")
                self.declarations.append(f"{name}: {self.model.type_of(block).name}")
                found[id(block)] = name
        self.calls = found
        return tuple(found[id(block)] for block in blocks)

    def lines(self, results: Sequence[str] = ()) -> list[str]:
        """The statements and the `return`."""
        lines = [_line(item) for item in self.block.body]
        across = {part for item in lines if isinstance(item, Block) for part in item_parts(item)}
        kept = {part for part in across if isinstance(part, Value)} | set(self.block.returned)
        lines = without_aliases(lines, kept)
        uses = Counter(
            part for item in lines for part in item_parts(item) if isinstance(part, Value)
        )
        text = [*self.rounds.unpacked] if self.rounds else []
        for item in chained(inlined(list(lines), kept, uses), self.calls):
            text += self._text(item)
        if self.rounds is not None:
            return [*text, f"return {self.rounds.returned()}"]
        returned = results or [self.names[value] for value in self.block.outputs]
        return [*text, f"return {', '.join(returned)}"]

    def _text(self, item: object) -> list[str]:
        if isinstance(item, Chain):
            return self._chain(item)
        if isinstance(item, Block):
            call = re.sub(r"\.(\d+)$", r"[\1]", self.calls[id(item)])
            if item.loop is not None:
                nodes = (item.loop.node,) if item.loop.node else ()
                return [_commented(call_text(item, call, self.name, self._bind), nodes)]
            arguments = ", ".join(self.name(part) for part in item.inputs)
            targets = ", ".join(self._bind(value) for value in item.outputs)
            return [f"{targets} = {call}({arguments})"]
        assert isinstance(item, Line)
        filled = [self.name(part) for part in item.parts]
        expression = item.text.format(*filled)
        names = [self._bind(value) for value in item.outputs]
        targets = item.targets.format(*names) if item.targets else ", ".join(names)
        return [_commented(f"{targets} = {expression}", item.nodes)]

    def _chain(self, chain: Chain) -> list[str]:
        """`for block in h { x = block(x) }`."""
        first, last = chain.blocks[0], chain.blocks[-1]
        carried = first.inputs[chain.place]
        name = self._bind(last.outputs[0])
        item = self.scope.fresh("block")
        arguments = [self.name(part) for part in first.inputs]
        arguments[chain.place] = name
        return [
            f"{name} = {self.name(carried)}",
            f"for {item} in {chain.name} {{ {name} = {item}({', '.join(arguments)}) }}",
        ]

    def _bind(self, value: Value) -> str:
        self.names[value] = self.scope.fresh(value.name)
        return self.names[value]

    def name(self, part: Part) -> str:
        return part if isinstance(part, str) else self.names[part]


def _lists(blocks: Sequence[Block], model: ModelText) -> dict[str, list[Block]]:
    groups: dict[str, list[Block]] = {}
    for block in blocks:
        if found := NUMBERED.fullmatch(block.name):
            groups.setdefault(found[1], []).append(block)
    return {
        base: held
        for base, held in groups.items()
        if len(held) >= (2 if "." in held[0].name else FEWEST_NUMBERED)
        and len({model.type_of(block).name for block in held}) == 1
        and len({block.name for block in held}) == len(held)
    }


def _line(item: Statement | Block) -> Line | Block:
    if isinstance(item, Block):
        return item
    nodes = (item.node,) if item.node else ()
    return Line(item.text, item.parts, item.outputs, nodes, item.targets)


def _commented(text: str, nodes: Sequence[str]) -> str:
    """With the names that the nodes have in the ONNX file."""
    short = ", ".join(node.rpartition("/")[2] for node in nodes)
    return f"{text}  // {short}" if short and width(text) + len(short) + 4 <= WIDTH else text


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
