"""Distances from the mean, and their mean square, exact also far from zero.

A mean in f32 is off by some of the last digits of what is added up: where all numbers share a large
offset, by more than they differ. So the mean of the distances is taken, too, and put right by it.
"""

from __future__ import annotations

from math import prod

from wgcc.ops.formula import Term

Axes = tuple[int, ...]


def centred(x: Term, axes: Axes) -> Term:
    """x without its mean over `axes`."""
    return _near(x, axes) - _rest(x, axes).spread(axes, x.shape)


def variance(x: Term, axes: Axes) -> Term:
    """The mean square of `centred(x)`; `axes` vanish. No third pass: mean((d - r)²) = mean(d²) - r²

    for distances d of mean r, which is small. `relu` keeps NaN, but nothing below zero.
    """
    squares = mean(_near(x, axes).square(), axes)
    return (squares - _rest(x, axes).square()).apply("relu")


def mean(x: Term, axes: Axes) -> Term:
    """Written as the language's `mean` is, so that a program that has the mean shares it."""
    return x.sum(axes) * (1.0 / prod(x.shape[axis] for axis in axes))


def _near(x: Term, axes: Axes) -> Term:
    """Distances from a number near the mean."""
    return x - mean(x, axes).spread(axes, x.shape)


def _rest(x: Term, axes: Axes) -> Term:
    """How far that number is from the mean."""
    return mean(_near(x, axes), axes)
