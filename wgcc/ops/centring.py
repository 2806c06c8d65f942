"""Differences from the mean, and their mean square, accurate also far from zero.

A mean in f32 has a rounding error: where all numbers share a large offset, it may be larger than
their differences. So the mean of the differences is computed, too, and corrects them.
"""

from __future__ import annotations

from math import prod

from wgcc.ops.formula import Term

Axes = tuple[int, ...]


def centred(x: Term, axes: Axes) -> Term:
    """x without its mean over `axes`."""
    return _near(x, axes) - _rest(x, axes).spread(axes, x.shape)


def variance(x: Term, axes: Axes) -> Term:
    """The mean square of `centred(x)`, without `axes`.

    In two passes: mean((d - r)²) = mean(d²) - r² for differences d with the mean r, which is small.
    `relu` keeps NaN and removes negative results.
    """
    squares = mean(_near(x, axes).square(), axes)
    return (squares - _rest(x, axes).square()).apply("relu")


def mean(x: Term, axes: Axes) -> Term:
    """Written like the language's `mean`, so that CSE merges it with a `mean` in the program."""
    return x.sum(axes) * (1.0 / prod(x.shape[axis] for axis in axes))


def _near(x: Term, axes: Axes) -> Term:
    """Differences from a number near the mean."""
    return x - mean(x, axes).spread(axes, x.shape)


def _rest(x: Term, axes: Axes) -> Term:
    """The mean's difference from that number."""
    return mean(_near(x, axes), axes)
