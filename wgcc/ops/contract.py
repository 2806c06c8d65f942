"""contract(a, b, "ijk,kl->ijl"): the sum of products of two terms whose axes have letters.

It is built as one matrix product (or a batch of them), or as a plain sum of products where the
matrices would be too thin.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from wgcc.ops.formula import Term

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
    first = _ordered(a, left, [*stack, *rows, *summed]).reshape((*lead, m, k))
    second = _ordered(b, right, [*stack, *summed, *cols]).reshape((*lead, k, n))
    order = [*stack, *rows, *cols]
    product = first.apply("matmul", second).reshape([sizes[letter] for letter in order])
    return _ordered(product, order, wanted)


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
        terms.append(_ordered(term, letters, own).reshape(kept).broadcast(shape))
    return (terms[0] * terms[1]).sum(tuple(range(len(wanted), len(order))))


def _ordered(term: Term, letters: Sequence[str], wanted: Sequence[str]) -> Term:
    perm = tuple(letters.index(letter) for letter in wanted)
    return term if perm == tuple(range(len(perm))) else term.apply("transpose", perm=perm)
