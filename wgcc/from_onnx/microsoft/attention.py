"""Attention with its projections, or of queries, keys and values."""

from __future__ import annotations

from dataclasses import dataclass

from wgcc.from_onnx.microsoft.body import Body, Definition
from wgcc.from_onnx.problems import CannotImport
from wgcc.lazy_numpy import np


@dataclass(frozen=True, slots=True)
class Sizes:
    rows: int
    queries: int
    keys: int
    heads: int
    width: int


def attention(body: Body) -> list[str]:
    """One product makes queries, keys and values. Caches are another form."""
    body.refuse(4, 6)
    if body.attribute("do_rotary", 0):
        raise CannotImport("it rotates queries and keys")
    rows, length, _ = body.shape(0)
    widths = list(body.attribute("qkv_hidden_sizes", [])) or [body.shape(1)[1] // 3] * 3
    if widths[0] != widths[1]:
        raise CannotImport(f"its queries and keys have different widths: {widths}")
    joined = body.add("MatMul", body.input(0), body.input(1))
    joined = body.add("Add", joined, body.input(2)) if body.has(2) else joined
    parts = body.add("Split", joined, body.whole(*widths), outputs=3, axis=-1)
    sizes = Sizes(rows, length, length, int(body.attribute("num_heads")), widths[0])
    return [_attended(body, parts, sizes, widths[2], mask=3, bias=5)]


def multi_head_attention(body: Body) -> list[str]:
    body.refuse(6, 7)
    if any(len(body.shape(place)) != 3 for place in range(3)):
        raise CannotImport("its queries, keys and values are not of three axes each")
    rows, queries, width = body.shape(0)
    keys, out = body.shape(1)[1], body.shape(2)[2]
    parts = [body.input(place) for place in range(3)]
    if body.has(3):
        biases = body.add("Split", body.input(3), body.whole(width, width, out), outputs=3)
        parts = [body.add("Add", x, b) for x, b in zip(parts, biases, strict=True)]
    sizes = Sizes(rows, queries, keys, int(body.attribute("num_heads")), width)
    return [_attended(body, parts, sizes, out, mask=4, bias=5)]


def _attended(body: Body, parts: list[str], sizes: Sizes, out: int, mask: int, bias: int) -> str:
    rows, heads = sizes.rows, sizes.heads
    q = _split(body, parts[0], rows, sizes.queries, heads, sizes.width)
    k = _split(body, parts[1], rows, sizes.keys, heads, sizes.width)
    v = _split(body, parts[2], rows, sizes.keys, heads, out)
    scale = float(body.attribute("scale", 0.0)) or (sizes.width // heads) ** -0.5
    scores = body.add("MatMul", q, body.add("Transpose", k, perm=[0, 1, 3, 2]))
    scores = body.add("Mul", scores, body.number(scale))
    scores = body.add("Add", scores, body.input(bias)) if body.has(bias) else scores
    scores = body.add("Add", scores, _mask(body, mask, sizes)) if body.has(mask) else scores
    if body.attribute("unidirectional", 0):
        later = np.triu(np.ones((sizes.queries, sizes.keys), bool), 1 + sizes.keys - sizes.queries)
        scores = body.add("Where", body.constant(later), body.number(-1e29), scores)
    mixed = body.add("MatMul", body.add("Softmax", scores, axis=-1), v)
    turned = body.add("Transpose", mixed, perm=[0, 2, 1, 3])
    y: str = body.add("Reshape", turned, body.whole(rows, sizes.queries, out))
    return y


def _split(body: Body, x: str, rows: int, length: int, heads: int, width: int) -> str:
    apart = body.add("Reshape", x, body.whole(rows, length, heads, width // heads))
    y: str = body.add("Transpose", apart, perm=[0, 2, 1, 3])
    return y


def _mask(body: Body, place: int, sizes: Sizes) -> str:
    """What is added to scores: the mask has 1 for keys that are seen, or lengths of rows."""
    shape = body.shape(place)
    shown = {
        (sizes.rows, sizes.keys): (sizes.rows, 1, 1, sizes.keys),
        (sizes.rows, sizes.queries, sizes.keys): (sizes.rows, 1, sizes.queries, sizes.keys),
    }.get(shape)
    if shape == (sizes.rows,):
        ends = body.add("Reshape", body.input(place), body.whole(sizes.rows, 1, 1, 1))
        ends = body.add("Cast", ends, to=7)
        places = body.constant(np.arange(sizes.keys).reshape(1, 1, 1, -1))
        seen = body.add("Less", places, ends)
    elif shown is not None:
        seen = body.add("Reshape", body.input(place), body.whole(*shown))
    else:
        raise CannotImport(f"its mask is {list(shape)}")
    hidden = body.add("Sub", body.number(1.0), body.add("Cast", seen, to=1))
    low = float(body.attribute("mask_filter_value", -10000.0))
    y: str = body.add("Mul", hidden, body.number(low))
    return y


DEFINITIONS: dict[str, Definition] = {
    "Attention": attention,
    "MultiHeadAttention": multi_head_attention,
}
