"""Blocks as layers of the language: members, statements and results, with names."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from wgcc.from_onnx.literals import replace_infinity
from wgcc.from_onnx.names import is_keyword, word
from wgcc.from_onnx.values import Computed, Leaf, ModelMember
from wgcc.from_onnx.writing.blocks import LayerDraft, signature
from wgcc.from_onnx.writing.lines import Chain, Line, lines_of
from wgcc.lazy_numpy import Array
from wgcc.syntax import ast
from wgcc.syntax.templates import (
    NOWHERE,
    bind,
    call,
    constructor,
    identifier,
    name,
    rewrite,
    type_expr,
)

# What entries that train call their own values.
TRAINING_NAMES = frozenset({"y", "loss", "accuracy"})
# `h.0` of PyTorch, `layer_0` of others, which are a list if there are several: `ln_1` and `ln_2`
# are two modules.
FEWEST_NUMBERED = 3
NUMBERED = re.compile(r"(.+)[._]\d+")
# Of modules and results that are called like functions.
SHORTER = {"attention": "attn", "layer_norm": "ln"}
# A loop without states has one that nothing uses.
NO_STATE = type_expr("f32", ()), ast.Float(NOWHERE, 0.0)


@dataclass(frozen=True, slots=True)
class WrittenLayer:
    """A layer as written: the names of its members and blocks, in the order of the block's."""

    name: str
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
        """A new name; names of functions get `kind` behind them: `softmax_out`, `norm_layer`."""
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
    identifier = re.sub(r"_output_\d+$", "", word(text.replace(".", "_")))
    identifier = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", identifier).lower()
    identifier = identifier.strip("_") or "x"
    if identifier[0].isdigit():
        identifier = f"part{identifier}"
    return f"{identifier}_" if is_keyword(identifier) else identifier


@dataclass(slots=True)
class ModelWriter:
    """The layers that the text of one model has so far, and their names."""

    reserved: frozenset[str]
    types: dict[Hashable, WrittenLayer] = field(default_factory=dict)
    type_names: set[str] = field(default_factory=set)
    layers: list[ast.Layer] = field(default_factory=list)
    remarks: dict[ast.Syntax, str] = field(default_factory=dict)

    def type_of(self, block: LayerDraft) -> WrittenLayer:
        key = signature(block)
        if key not in self.types:
            self.types[key] = self._write_layer(block)
        return self.types[key]

    def _write_layer(self, block: LayerDraft) -> WrittenLayer:
        body = BlockWriter(self, block)
        forward = body.forward()
        name = self._type_name(block.name)
        about = ("one round of " if block.loop else "") + "/".join(block.scope)
        members = (*body.declarations, forward)
        self.layers.append(ast.Layer(NOWHERE, False, identifier(name), (), (), members, about))
        return WrittenLayer(name, body.member_names, body.block_names)

    def _type_name(self, name: str) -> str:
        numbered = NUMBERED.fullmatch(name)
        base = "Part" if name.isdigit() else numbered[1] if numbered else name
        words = [part for part in re.split(r"[^A-Za-z0-9]+", base) if part] or ["Part"]
        title = "".join(part[0].upper() + part[1:] for part in words)
        title = f"Part{title}" if title[0].isdigit() else title
        title = f"{title}Block" if title in self.reserved else title
        number, unique = 1, title
        while unique in self.type_names:
            number += 1
            unique = f"{title}_{number}" if title[-1].isdigit() else f"{title}{number}"
        self.type_names.add(unique)
        return unique


def type_of(part: Computed | ModelMember) -> ast.TypeExpr:
    return part.type if isinstance(part, ModelMember) else type_expr(part.dtype, part.stored_shape)


def types_of(parts: Sequence[Computed | ModelMember]) -> ast.TypeExpr | ast.TupleType:
    """One type, or a tuple."""
    joined: ast.TypeExpr | ast.TupleType = _joined_types([type_of(part) for part in parts])
    return joined


def _joined_types(types: Sequence[ast.TypeExpr | ast.TupleType]) -> Any:
    fields = tuple(ast.TupleField(NOWHERE, None, item) for item in types)
    return types[0] if len(types) == 1 else ast.TupleType(NOWHERE, fields)


def _join(items: Sequence[ast.Expr]) -> ast.Expr:
    """One expression, or a tuple."""
    return items[0] if len(items) == 1 else ast.TupleExpr(NOWHERE, tuple(items))


def argument(name: str, kind: ast.TypeExpr | ast.TupleType) -> ast.ValueParam:
    return ast.ValueParam(NOWHERE, identifier(name), kind, None)


def function(
    name: str,
    values: Sequence[ast.ValueParam],
    result: ast.TypeExpr | ast.TupleType,
    body: Sequence[ast.Statement] | ast.Expr,
    is_entry: bool = False,
) -> ast.Function:
    whole: Any = ast.Block(NOWHERE, tuple(body)) if isinstance(body, list) else body
    return ast.Function(NOWHERE, is_entry, identifier(name), (), tuple(values), result, whole)


class BlockWriter:
    """The members and statements of one block, with names."""

    def __init__(self, model: ModelWriter, block: LayerDraft) -> None:
        self.model, self.block = model, block
        self.scope = Names(set(model.reserved), model.reserved)
        self.names: dict[Computed | ModelMember, str] = {}
        self.declarations: list[ast.Param | ast.Submodule] = []
        for part in (*block.round_inputs, *block.inputs):
            self.names[part] = self.scope.fresh(part.name, "in")
        self.member_names = tuple(self._declare(member) for member in block.members)
        self.calls = dict(self._declare_blocks())
        blocks = [item for item in block.body if isinstance(item, LayerDraft)]
        paths = (self.calls[id(item)] for item in blocks)
        self.block_names = tuple(base if n is None else f"{base}.{n}" for base, n in paths)

    # Members

    def _declare(self, member: ModelMember) -> str:
        is_param = member.layer is None
        hint = self._parameter_name(member.name) if is_param else member.name
        name = self._fresh_member(hint, "param" if is_param else "layer")
        self.names[member] = name
        self.declarations.append(member.declaration(name))
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

    def _declare_blocks(self) -> Iterator[tuple[int, tuple[str, int | None]]]:
        """Blocks `h.0`, `h.1` … of one type are a list."""
        blocks = [item for item in self.block.body if isinstance(item, LayerDraft)]
        lists = _lists(blocks, self.model)
        for base, held in lists.items():
            name = self.scope.fresh(f"{base}s" if is_keyword(base) else base, "layers")
            self._declare_block(name, held[0], len(held))
            yield from ((id(block), (name, place)) for place, block in enumerate(held))
        listed = {id(block) for held in lists.values() for block in held}
        for block in blocks:
            if id(block) not in listed:
                hint = f"part_{block.name}" if block.name.isdigit() else block.name
                name = self._fresh_member(hint, "layer")
                self._declare_block(name, block, None)
                yield id(block), (name, None)

    def _declare_block(self, name: str, block: LayerDraft, count: int | None) -> None:
        size = ast.ListSize(NOWHERE, None, ast.Int(NOWHERE, count)) if count is not None else None
        made = constructor(self.model.type_of(block).name)
        own = identifier(name)
        self.declarations.append(ast.Submodule(NOWHERE, False, False, own, size, made, None))

    # Statements

    def forward(self) -> ast.Function:
        """The function of a layer: of the block, or of one round of a loop."""
        if self.block.loop is not None:
            return self._round()
        inputs = [argument(self.names[part], type_of(part)) for part in self.block.inputs]
        body = self.statements()
        returned = tuple(self.expression(value) for value in self.block.outputs)
        whole = [*body, ast.Return(NOWHERE, returned)]
        return function("forward", inputs, types_of(self.block.outputs), whole)

    def statements(self) -> list[ast.Statement]:
        statements: list[ast.Statement] = []
        for item in lines_of(self.block, self.calls):
            if isinstance(item, Chain):
                statements += self._chain(item)
            elif isinstance(item, LayerDraft):
                statements.append(self._call(item))
            else:
                statements.append(self._line(item))
        return statements

    def _line(self, line: Line) -> ast.Bind:
        value = self.with_names(line.tree)
        for output in line.outputs:
            self._bind(output)
        targets = line.targets or tuple(Leaf(NOWHERE, output) for output in line.outputs)
        return self._remark(
            bind([self.with_names(target) for target in targets], value), line.nodes
        )

    def _call(self, block: LayerDraft) -> ast.Bind:
        base, place = self.calls[id(block)]
        layer: Any = name(base)
        if place is not None:
            layer = ast.Index(NOWHERE, layer, (ast.Int(NOWHERE, place),))
        if block.loop is not None:
            return self._scan(block, layer)
        value = call(layer, *map(self.expression, block.inputs))
        return bind([self._bind(output) for output in block.outputs], value)

    def _chain(self, chain: Chain) -> list[ast.Statement]:
        """`for block in h { x = block(x) }`."""
        first, last = chain.blocks[0], chain.blocks[-1]
        start = self.expression(first.inputs[chain.place])
        result = self._bind(last.outputs[0])
        item = self.scope.fresh("block")
        given = [self.expression(part) for part in first.inputs]
        given[chain.place] = result
        body = ast.Block(NOWHERE, (bind([result], call(item, *given)),))
        loop = ast.For(NOWHERE, None, identifier(item), name(chain.name), body)
        return [bind([result], start), loop]

    def _remark(self, statement: ast.Bind, nodes: Sequence[str]) -> ast.Bind:
        """Remarks the names that the nodes of a statement have in the ONNX file."""
        if remark := ", ".join(node.rpartition("/")[2] for node in nodes):
            self.model.remarks[statement] = remark
        return statement

    def _bind(self, value: Computed) -> ast.Name:
        self.names[value] = self.scope.fresh(value.name)
        return name(self.names[value])

    def expression(self, part: Computed | ModelMember) -> ast.Name:
        return name(self.names[part])

    def with_names(self, tree: ast.Syntax) -> Any:
        """A tree with names in place of tensors and members."""

        def change(node: ast.Syntax) -> ast.Syntax | None:
            if isinstance(node, Leaf):
                return self.expression(node.part)
            return replace_infinity(node) if isinstance(node, ast.Float) else None

        return rewrite(tree, change)

    # Loops: a round knows only what it gets, so that values from outside travel with the states.

    def _round(self) -> ast.Function:
        body = self.block.loop.body if self.block.loop else None
        assert body is not None
        carried = [*body.states, *self.block.inputs]
        unpacked: list[ast.Statement] = []
        state = self._unpack("carry", carried, unpacked)
        item = self._unpack("items", body.items, unpacked)
        states = types_of(carried) if carried else NO_STATE[0]
        values = [argument(state, states), argument(item, types_of(body.items))]
        statements = [*unpacked, *self.statements()]
        after = [self.expression(part) for part in (*body.after, *self.block.inputs)]
        after = after or [name(state)]
        results = [self.expression(value) for value in body.results] or after[:1]
        # A loop without results returns a state again.
        given = types_of(body.results or carried[:1]) if body.results or carried else NO_STATE[0]
        kept = types_of([*body.after, *self.block.inputs]) if carried else NO_STATE[0]
        returned = ast.Return(NOWHERE, (_join(after), _join(results)))
        return function("forward", values, _joined_types([kept, given]), [*statements, returned])

    def _unpack(
        self, wanted: str, parts: Sequence[Computed | ModelMember], unpacked: list[ast.Statement]
    ) -> str:
        """The name of an argument; several parts are unpacked in the first lines."""
        if len(parts) == 1:
            return self.names[parts[0]]
        own = self.scope.fresh(wanted)
        if parts:
            unpacked.append(bind([self.expression(part) for part in parts], name(own)))
        return own

    def _scan(self, block: LayerDraft, layer: ast.Expr) -> ast.Bind:
        """`(h, c), ys = scan(body, (h0, c0), xs)`"""
        loop = block.loop
        assert loop is not None and loop.body is not None and isinstance(loop.tree, ast.Call)
        count = len(loop.body.states)
        given = [self.with_names(item.value) for item in loop.tree.arguments if item.name is None]
        options = [item for item in loop.tree.arguments if item.name is not None]
        starts = [*given[:count], *map(self.expression, block.inputs)] or [NO_STATE[1]]
        states = [self._bind(value) for value in loop.outputs[:count]]
        states += [name("_")] * len(block.inputs)
        results = [self._bind(value) for value in loop.outputs[count:]]
        targets = [_join(items or [name("_")]) for items in (states, results)]
        value = call("scan", layer, _join(starts), _join(given[count:]))
        whole = ast.Call(NOWHERE, value.function, (*value.arguments, *options))
        return self._remark(bind(targets, whole), (loop.node,) if loop.node else ())


def _lists(blocks: Sequence[LayerDraft], model: ModelWriter) -> dict[str, list[LayerDraft]]:
    groups: dict[str, list[LayerDraft]] = {}
    for block in blocks:
        if block.name.isdigit():
            groups.setdefault("parts", []).append(block)
        elif numbered := NUMBERED.fullmatch(block.name):
            groups.setdefault(numbered[1], []).append(block)
    return {
        base: held
        for base, held in groups.items()
        if len(held) >= (2 if base == "parts" or "." in held[0].name else FEWEST_NUMBERED)
        and len({model.type_of(block).name for block in held}) == 1
        and len({block.name for block in held}) == len(held)
    }


def collect_weights(
    block: LayerDraft, kind: WrittenLayer, prefix: str, model: ModelWriter
) -> dict[str, Array]:
    weights: dict[str, Array] = {}
    for member, own in zip(block.members, kind.member_names, strict=True):
        for key, array in member.arrays.items():
            weights[f"{prefix}{own}.{key}" if key else f"{prefix}{own}"] = array
    inner = [item for item in block.body if isinstance(item, LayerDraft)]
    for child, own in zip(inner, kind.block_names, strict=True):
        weights |= collect_weights(child, model.type_of(child), f"{prefix}{own}.", model)
    return weights
