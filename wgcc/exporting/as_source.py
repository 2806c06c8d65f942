"""A program of the IR as a program of the language: what `wgcc show --stage STAGE --as wg` prints.

One statement for each node, under the name that it has in the graph. Ops that the language does not
have are written out by simpler ones; what then is left cannot be said, and is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from wgcc.elaborate.builtins import BUILTINS
from wgcc.errors import WgError
from wgcc.evaluate import from_words
from wgcc.exporting.compositions import written_out
from wgcc.exporting.op_table import ALONG, EXPRESSIONS, REDUCTIONS
from wgcc.ir.dtypes import DTYPE_TABLE, FLOATS
from wgcc.ir.graph import Graph, Node, Value
from wgcc.ir.program import ModelTensor, Program
from wgcc.lazy_numpy import np
from wgcc.ops import OPS
from wgcc.ops.attention import optional
from wgcc.syntax import ast
from wgcc.syntax.grammar import grammar
from wgcc.syntax.print_source import print_source
from wgcc.syntax.templates import (
    NOWHERE,
    bind,
    call,
    fill_form,
    identifier,
    name,
    tree_of,
    type_expr,
)

# The tree of a node, of the trees of its operands.
Rule: TypeAlias = Callable[[Node, "list[ast.Expr]"], ast.Expr]
# Constants of more elements would not be read by anybody.
MOST_ELEMENTS = 4096
LETTERS = "abcdefghijklmnop"


def program_source(program: Program) -> str:
    """The text of the program; its parameters are `external`."""
    names = _Names()
    params = [_member(tensor, names) for tensor in program.params.values()]
    state = [_member(tensor, names) for tensor in program.state.values()]
    functions = {
        names.of(_own_key(node)): node
        for graph in program.entries.values()
        for node in graph.nodes
        if node.op == "wgsl"
    }
    entries = [_entry(graph, names.inside()) for graph in program.entries.values()]
    own = identifier(_word(program.name) or "Model")
    model = ast.Layer(NOWHERE, True, own, (), (), (*params, *state, *entries))
    written = (_own_function(own, node) for own, node in functions.items())
    return print_source(ast.File(NOWHERE, (ast.Edition(NOWHERE, 1), *written, model)))


def _own_key(node: Node) -> str:
    """A function in WGSL is declared once for each list of element types."""
    dtypes = [value.dtype for value in (*node.inputs, node.output)]
    other = [dtype for dtype in dtypes if dtype not in ("f32", "i32", "u32", "bool")]
    return "_".join([node.attrs["function"].call, *(dtypes if other else ())])


def _own_function(own: str, node: Node) -> ast.Function:
    """`fn own_f(a: f32[..]) -> f32[..] = wgsl("f.wgsl", "f")`."""
    kinds = [
        ast.TypeExpr(NOWHERE, identifier(value.dtype), (ast.Rest(NOWHERE),))
        for value in (*node.inputs, node.output)
    ]
    values = tuple(
        ast.ValueParam(NOWHERE, identifier(letter), kind, None)
        for letter, kind in zip(LETTERS, kinds[:-1], strict=False)
    )
    function = node.attrs["function"]
    body = fill_form("wgsl({0}, {1})", function.file, function.name)
    return ast.Function(NOWHERE, False, identifier(own), (), values, kinds[-1], body)


@dataclass(slots=True)
class _Names:
    """Names of values as the language can write them: `fc.w` is `fc_w`."""

    taken: set[str] = field(default_factory=lambda: set(_reserved_words()))
    known: dict[str, str] = field(default_factory=dict)

    def of(self, value: str) -> str:
        if value not in self.known:
            base, number = _word(value), 1
            own = base
            while own in self.taken:
                number += 1
                own = f"{base}_{number}"
            self.taken.add(own)
            self.known[value] = own
        return self.known[value]

    def inside(self) -> _Names:
        return _Names(set(self.taken), dict(self.known))


def _reserved_words() -> frozenset[str]:
    return frozenset([*BUILTINS, *DTYPE_TABLE, "pi", "e", "inf", *grammar().keywords])


def _word(text: str) -> str:
    word = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")
    return f"v{word}" if not word or word[0].isdigit() else word


def _member(tensor: ModelTensor, names: _Names) -> ast.Param | ast.State:
    own, kind = identifier(names.of(tensor.name)), type_expr(tensor.type.dtype, tensor.type.shape)
    if tensor.init.kind == "value" and not any(tensor.init.values):
        zeros = call("zeros", kind)
        if not tensor.trainable:
            return ast.State(NOWHERE, own, kind, zeros, None)
    drawn = ast.Init(NOWHERE, True, name("external"))
    return ast.Param(NOWHERE, not tensor.trainable, own, kind, drawn, None)


def _entry(graph: Graph, names: _Names) -> ast.Function:
    graph = written_out(graph, has_rule)
    unknown = sorted({node.op for node in graph.nodes if not has_rule(node)})
    kept = {value.name for value in graph.state}
    if unknown or not kept.issuperset(graph.writes):
        missing = ", ".join(unknown) or "parameters that it changes"
        raise WgError(f"entry {graph.name} cannot be said in the language at this stage: {missing}")
    values = [ast.ValueParam(NOWHERE, identifier(names.of(item.name)), _type(item), None)
              for item in graph.inputs]  # fmt: skip
    statements: list[Any] = [
        bind([name(names.of(item.value.name))], _literal(from_words(item), item.value))
        for item in graph.constants
    ]
    for node in graph.nodes:
        operands: list[ast.Expr] = [name(names.of(value.name)) for value in node.inputs]
        own = node.op == "wgsl"
        tree = call(names.of(_own_key(node)), *operands) if own else RULES[node.op](node, operands)
        statements.append(bind([name(names.of(node.output.name))], tree))
    statements += [
        ast.Write(NOWHERE, name(names.of(key)), name(names.of(value.name)))
        for key, value in graph.writes.items()
    ]
    returned: list[Any] = [name(names.of(value.name)) for value in graph.outputs.values()]
    fields = [ast.TupleField(NOWHERE, identifier(key), _type(value))
              for key, value in graph.outputs.items()]  # fmt: skip
    body = ast.Block(NOWHERE, (*statements, ast.Return(NOWHERE, tuple(returned))))
    result = ast.TupleType(NOWHERE, tuple(fields))
    return ast.Function(NOWHERE, True, identifier(graph.name), (), tuple(values), result, body)


def _type(value: Value) -> ast.TypeExpr:
    return type_expr(value.dtype, value.shape)


def _literal(array: Any, value: Value) -> ast.Expr:
    """All numbers of a constant."""
    if value.type.size > MOST_ELEMENTS:
        raise WgError(f"a constant of {value.type.size:,} elements is too long to be written")
    numbers = [_number(item, value.dtype) for item in array.reshape(-1)]
    flat = call(ast.Dtype(NOWHERE, value.dtype), numbers if value.shape else numbers[0])
    return flat if len(value.shape) < 2 else call("reshape", flat, list(value.shape))


def _number(item: Any, dtype: str) -> ast.Syntax:
    if dtype == "bool":
        return tree_of(bool(item))
    return tree_of(float(item) if dtype in FLOATS else int(item))


# Rules


def _constant(node: Node, operands: list[ast.Expr]) -> ast.Expr:
    return _literal(np.asarray(OPS[node.op].reference(**node.attrs)), node.output)


def _reduction(function: str) -> Rule:
    def rule(node: Node, operands: list[ast.Expr]) -> ast.Expr:
        axes = tuple(int(axis) for axis in node.attrs["axes"])
        if not axes:
            return operands[0]
        return call(function, operands[0], axis=axes[0] if len(axes) == 1 else axes)

    return rule


def _transpose(node: Node, operands: list[ast.Expr]) -> ast.Expr:
    axes = [LETTERS[axis] for axis in range(len(node.inputs[0].shape))]
    after = [axes[axis] for axis in node.attrs["perm"]]
    return call("rearrange", operands[0], f"{' '.join(axes)} -> {' '.join(after)}")


def _slice(node: Node, operands: list[ast.Expr]) -> ast.Expr:
    items: list[Any] = []
    parts = zip(*(node.attrs[key] for key in ("starts", "sizes", "steps")), strict=True)
    for start, size, step in parts:
        end = start + (size - 1) * step + (1 if step > 0 else -1)
        numbers: list[Any] = [start, end if end >= 0 else None, step if step != 1 else None]
        ends: list[Any] = [None if n is None else tree_of(int(n)) for n in numbers]
        items.append(ast.Slice(NOWHERE, ends[0], ends[1], ends[2]))
    return ast.Index(NOWHERE, operands[0], tuple(items)) if items else operands[0]


def _pad(node: Node, operands: list[ast.Expr]) -> ast.Expr:
    tree, sizes = operands[0], node.inputs[0].shape
    places = zip(node.attrs["starts"], sizes, node.attrs["shape"], strict=True)
    for axis, (start, size, whole) in enumerate(places):
        if size != whole:
            tree = call("pad", tree, (int(start), int(whole - start - size)), axis=axis)
    return tree


def _flip(node: Node, operands: list[ast.Expr]) -> ast.Expr:
    tree = operands[0]
    for axis in node.attrs["axes"]:
        tree = call("flip", tree, axis=int(axis))
    return tree


def _call_with_attrs(function: str, *keys: str) -> Rule:
    """A function of the operands and of some attributes, by their own names."""

    def rule(node: Node, operands: list[ast.Expr]) -> ast.Expr:
        return call(function, *operands, **{key: int(node.attrs[key]) for key in keys})

    return rule


def _norm(function: str) -> Rule:
    return lambda node, operands: call(function, *operands, eps=float(node.attrs["eps"]))


def _attention(node: Node, operands: list[ast.Expr]) -> ast.Expr:
    attrs = node.attrs
    mask = operands[3] if len(operands) > 3 else None
    return call("attention", *operands[:3], mask=mask, causal=bool(attrs["causal"]) or None,
                scale=float(attrs["scale"]))  # fmt: skip


def _convolution(node: Node, operands: list[ast.Expr]) -> ast.Expr:
    attrs, rank = node.attrs, len(node.inputs[0].shape) - 2
    sizes = {key: tuple(map(int, attrs[key])) for key in ("stride", "pad", "dilation")}
    options = {key: held if rank > 1 else held[0] for key, held in sizes.items()}
    return call(f"conv{rank}d", *operands, **options, groups=int(attrs["groups"]))


def _is_plain_convolution(node: Node) -> bool:
    """Whether its windows are those that its padding, the same on both sides, gives."""
    attrs, kernel = node.attrs, node.inputs[1].shape[:-2]
    given = zip(node.inputs[0].shape[1:-1], attrs["pad"], attrs["dilation"], kernel,
                attrs["stride"], strict=True)  # fmt: skip
    full = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in given)
    return tuple(attrs["out"]) == full


def _is_plain_attention(node: Node) -> bool:
    offset, _ = optional(node.inputs[3:])
    return offset is None and node.attrs["window"] is None


def _call_with_shape(function: str) -> Rule:
    return lambda node, operands: call(function, operands[0], [int(n) for n in node.output.shape])


def _template(text: str) -> Rule:
    return lambda node, operands: fill_form(text, *operands)


def _cast(node: Node, operands: list[ast.Expr]) -> ast.Expr:
    if node.output.dtype == "bool":
        zero = _number(0, node.inputs[0].dtype)
        return fill_form("{0} != {1}", operands[0], zero)
    return call(ast.Dtype(NOWHERE, node.output.dtype), operands[0])


def has_rule(node: Node) -> bool:
    if node.op == "wgsl":
        return True
    if node.op not in RULES or len(node.outputs) != 1:
        return False
    return PLAIN[node.op](node) if node.op in PLAIN else True


# Ops of which only some forms can be said.
PLAIN: Mapping[str, Callable[[Node], bool]] = {
    "unslice": lambda node: all(step == 1 for step in node.attrs["steps"]),
    "conv": _is_plain_convolution,
    "attention": _is_plain_attention,
}


RULES: Mapping[str, Rule] = {
    **{op: _template(forms.language) for op, forms in EXPRESSIONS.items() if forms.language},
    **{op: _call_with_attrs(forms.language, "axis") for op, forms in ALONG.items()},
    **{op: _reduction(forms.language) for op, forms in REDUCTIONS.items()},
    "roll": _call_with_attrs("roll", "shift", "axis"),
    "argsort": lambda node, operands: call(
        "argsort",
        *operands,
        axis=int(node.attrs["axis"]),
        descending=bool(node.attrs.get("descending")) or None,
    ),
    "layer_norm": _norm("layer_norm"),
    "rms_norm": _norm("rms_norm"),
    "attention": _attention,
    "conv": _convolution,
    "cast": _cast,
    "const": _constant,
    "literal": _constant,
    "iota": _constant,
    "broadcast": _call_with_shape("expand"),
    "reshape": _call_with_shape("reshape"),
    "transpose": _transpose,
    "slice": _slice,
    "unslice": _pad,
    "flip": _flip,
    "concat": lambda node, operands: call("concat", operands, axis=int(node.attrs["axis"])),
    "take_along": lambda node, operands: call(
        "take_along_axis", *operands, axis=int(node.attrs["axis"])
    ),
}
