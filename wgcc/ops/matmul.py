"""matmul(a, b): matrices [M, K] @ [K, N], or a batch of them [Z, M, K] @ [Z, K, N].

contract(a, b, "ijk,kl->ijl"): the sum of products of two terms whose axes have letters.

It is built as one matrix product (or a batch of them), or as a plain sum of products where the
matrices would be too thin.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from wgcc.ir.graph import FLOATS, Builder, Node, TensorType, Value
from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term
from wgcc.ops.registry import Op, Sample, ShapeError, SharedAxis, Special, check_dtype

# A batch of matrix products with fewer rows, columns or inner elements is a sum of products.
THIN = 4


def contract(a: Term, b: Term, pattern: str) -> Term:
    """Letters that both operands have and the result has not are summed over; each letter occurs
    at least twice."""
    operands, wanted = pattern.split("->")
    left, right = operands.split(",")
    sizes = dict(zip(left + right, a.shape + b.shape, strict=True))
    both = [letter for letter in left if letter in right]
    stack = [letter for letter in both if letter in wanted]
    summed = [letter for letter in both if letter not in wanted]
    rows = [letter for letter in left if letter not in both]
    cols = [letter for letter in right if letter not in both]
    z, m, k, n = (prod(sizes[c] for c in letters) for letters in (stack, rows, summed, cols))
    if z > 1 and min(m, k, n) < THIN:
        return _sum_of_products((a, left), (b, right), wanted, summed, sizes)
    lead = (z,) if z > 1 else ()
    first = _reorder(a, left, [*stack, *rows, *summed]).reshape((*lead, m, k))
    second = _reorder(b, right, [*stack, *summed, *cols]).reshape((*lead, k, n))
    order = [*stack, *rows, *cols]
    product = first.apply("matmul", second).reshape([sizes[letter] for letter in order])
    return _reorder(product, order, wanted)


def _sum_of_products(
    a: tuple[Term, str],
    b: tuple[Term, str],
    wanted: str,
    summed: Sequence[str],
    sizes: dict[str, int],
) -> Term:
    order = [*wanted, *summed]
    shape = [sizes[letter] for letter in order]
    terms = []
    for term, letters in (a, b):
        own = [letter for letter in order if letter in letters]
        kept = [sizes[letter] if letter in letters else 1 for letter in order]
        terms.append(_reorder(term, letters, own).reshape(kept).broadcast(shape))
    return (terms[0] * terms[1]).sum(tuple(range(len(wanted), len(order))))


def _reorder(term: Term, letters: Sequence[str], wanted: Sequence[str]) -> Term:
    perm = tuple(letters.index(letter) for letter in wanted)
    return term if perm == tuple(range(len(perm))) else term.apply("transpose", perm=perm)


def infer(a: TensorType, b: TensorType) -> TensorType:
    check_dtype("matmul", a, FLOATS)
    if a.rank not in (2, 3) or a.rank != b.rank:
        raise ShapeError(f"matmul takes two matrices or two batches of them, not {a} and {b}")
    if a.dtype != b.dtype:
        raise ShapeError(f"the operands of matmul differ: {a} and {b}")
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"matmul: the inner sizes of {a} and {b} differ")
    if a.shape[:-2] != b.shape[:-2]:
        raise ShapeError(f"matmul: {a} and {b} are batches of different sizes")
    return TensorType((*a.shape[:-1], b.shape[-1]), a.dtype)


def reference(a: Array, b: Array) -> Array:
    return np.asarray(np.matmul(a, b))


def grad(b: Builder, node: Node, gs: Sequence[Value | None]) -> Sequence[Value | None]:
    # da = g bᵀ, db = aᵀ g
    (g,), (left, right) = gs, node.inputs
    if g is None:
        return [None, None]
    swap = (1, 0) if g.type.rank == 2 else (0, 2, 1)
    right_t = b.apply("transpose", right, perm=swap)
    left_t = b.apply("transpose", left, perm=swap)
    return [b.apply("matmul", g, right_t), b.apply("matmul", left_t, g)]


def separate(node: Node) -> list[SharedAxis]:
    last = node.output.type.rank - 1
    batch: list[SharedAxis] = [((0, 0), (0,))] if last == 2 else []
    return [*batch, ((last - 1, None), (last - 1,)), ((None, last), (last,))]


def effort(node: Node) -> int:
    return node.output.type.size * (node.inputs[0].shape[-1] // 8)


_SIZES = ((1, 1, 1), (3, 5, 2), (17, 9, 11), (1, 65, 1), (64, 7, 63), (65, 33, 31), (2, 257, 3))


OPS = (
    Op(
        "matmul",
        infer,
        reference,
        Special("matmul", narrow=True),
        grad,
        [
            *(Sample([(m, k), (k, n)]) for m, k, n in _SIZES),
            Sample([(1, 3, 5), (1, 5, 2)]),
            Sample([(3, 7, 5), (3, 5, 9)]),
        ],
        effort=effort,
        separate=separate,
    ),
)
