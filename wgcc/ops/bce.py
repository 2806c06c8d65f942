"""bce(p, t): binary cross entropy of a probability p, -t log p - (1 - t) log(1 - p).

As in PyTorch, each logarithm is at least -100, and the gradient divides by p (1 - p), which is at
least 1e-12.
"""

from __future__ import annotations

from wgcc.lazy_numpy import Array, np
from wgcc.ops.formula import Term
from wgcc.ops.pointwise import binary
from wgcc.ops.registry import Sample

LEAST_LOG, LEAST_VARIANCE = -100.0, 1e-12


def reference(p: Array, t: Array) -> Array:
    with np.errstate(divide="ignore"):
        yes, no = (np.maximum(np.log(q), LEAST_LOG) for q in (p, 1 - p))
    return np.asarray(-t * yes - (1 - t) * no)


def derivative(g: Term, p: Term, t: Term, y: Term) -> tuple[Term, Term]:
    # dp = g (p - t) / max(p (1 - p), 1e-12); dt = g (log(1 - p) - log p)
    variance = p * (1 - p)
    dp = g * ((p - t) / variance.apply("maximum", p.like(LEAST_VARIANCE)))
    return dp, g * (_log(-p, "log1p") - _log(p, "log"))


def _log(x: Term, op: str) -> Term:
    return x.apply(op).apply("maximum", x.like(LEAST_LOG))


OPS = (
    binary(
        "bce",
        "wg_bce({0}, {1})",
        reference,
        derivative,
        functions=("bce", "log", "log1p"),
        dtypes=("f32",),
        low=0.05,
        high=0.95,
        cheap=False,
        samples=[Sample([(257,), (257,)], low=0.0, high=1.0, differentiable=False)],
    ),
)
