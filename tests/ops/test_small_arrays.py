"""Small arrays, which compile models where numpy is missing, give numpy's numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from op_samples import every_sample, input_arrays, reference_of
from wgcc import lazy_numpy, small_arrays
from wgcc.ops import Op
from wgcc.ops.registry import FromIndex, Pointwise, Reduce, Sample, View
from wgcc.small_arrays.array import SmallArray
from wgcc.small_arrays.element_types import NeedsNumpyError
from wgcc.small_arrays.elementwise import ELEMENTWISE

# Functions of the C library and of numpy may differ in the last bit of a float64.
LAST_BITS = 4e-16


@contextmanager
def without_numpy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(lazy_numpy, "has_numpy", lambda: False)
        kept = dict(vars(lazy_numpy.np))
        vars(lazy_numpy.np).clear()
        try:
            yield
        finally:
            vars(lazy_numpy.np).clear()
            vars(lazy_numpy.np).update(kept)


def small(array: Any) -> SmallArray:
    return SmallArray(array.reshape(-1).tolist(), array.shape, array.dtype.name)


def is_folded(op: Op, sample: Sample) -> bool:
    """Functions that users write in WGSL are computed by numpy alone."""
    return isinstance(op.lower, (Pointwise, View, FromIndex, Reduce)) and op.name != "wgsl"


@pytest.mark.parametrize(("op", "sample"), every_sample(is_folded))
def test_references_give_the_same_numbers(
    op: Op, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = input_arrays(op, sample)
    expected = reference_of(op, sample, arrays)
    with without_numpy(monkeypatch):
        results = op.reference(*map(small, arrays), **sample.attrs)
    listed = results if isinstance(results, (tuple, list)) else (results,)
    for result, wanted in zip(listed, expected, strict=True):
        assert result.shape == wanted.shape
        np.testing.assert_allclose(result.tolist(), wanted, rtol=8 * LAST_BITS, atol=3e-15)


BORDERS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-320, 1e308, -1e308, np.inf, -np.inf, np.nan)


@pytest.mark.parametrize("name", sorted(ELEMENTWISE))
def test_functions_agree_at_the_borders(name: str) -> None:
    function, original = ELEMENTWISE[name], getattr(np, name)
    if name in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"):
        x, z = np.arange(32, dtype=np.uint32), np.arange(32, dtype=np.uint32)[::-1].copy()
        operands = [(x, z)]
    elif original.nin == 1 if hasattr(original, "nin") else True:
        with np.errstate(over="ignore"):
            operands = [(np.array(BORDERS),), (np.array(BORDERS, np.float32),)]
    else:
        x, z = np.meshgrid(np.array(BORDERS), np.array(BORDERS))
        operands = [(x, z)]
    if name == "floor_divide":
        operands = [(np.arange(-9, 9), np.full(18, 4))]
    for given in operands:
        with np.errstate(all="ignore"):
            wanted = original(*given)
        result = function(*map(small, given))
        assert result.dtype.name == wanted.dtype.name
        rtol = 2e-7 if wanted.dtype == np.float32 else LAST_BITS
        np.testing.assert_allclose(result.tolist(), wanted, rtol=rtol)


@pytest.mark.parametrize("dtype", ["uint32", "int32", "uint8", "int64"])
def test_lanes_of_integers_are_those_of_numpy(dtype: str) -> None:
    """What the access model computes with: numbers wrap around at the same places."""
    rng = np.random.default_rng(9)
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max, 40, dtype)
    y, counted = small(x), rng.integers(0, 9, 40)
    pairs = [
        (~y, ~x),
        (y * y + y, x * x + x),
        (small_arrays.pad(y, (0, 3), constant_values=1), np.pad(x, (0, 3), constant_values=1)),
        (small_arrays.bincount(small(counted), 12), np.bincount(counted, minlength=12)),
        (y.astype("int32"), x.astype("int32")),
        (y.astype("uint32"), x.astype("uint32")),
    ]
    for result, wanted in pairs:
        assert result.tolist() == wanted.tolist() and result.dtype.name == wanted.dtype.name
    assert small_arrays.array_equal(y, y) and not small_arrays.array_equal(y, y[1:])


def test_random_arrays_are_rearranged_and_summed_alike() -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        shape = tuple(rng.integers(1, 7, rng.integers(1, 5)))
        x = rng.normal(size=shape)
        axes = tuple(int(a) for a in rng.permutation(len(shape)))
        axis, start = axes[0], int(rng.integers(0, shape[0]))
        place = (slice(start, None, 2), Ellipsis)
        y = small(x)
        pairs = [
            (small_arrays.transpose(y, axes), np.transpose(x, axes)),
            (small_arrays.flip(y, axes), np.flip(x, axes)),
            (small_arrays.roll(y, 3, axis), np.roll(x, 3, axis)),
            (small_arrays.repeat(y, 2, axis), np.repeat(x, 2, axis)),
            (small_arrays.concatenate([y, y], axis), np.concatenate([x, x], axis)),
            (small_arrays.broadcast_to(y, (3, *shape)), np.broadcast_to(x, (3, *shape))),
            (y[place], x[place]),
            (y.max(axis), x.max(axis)),
            (small_arrays.sort(y), np.sort(x)),
            (y.max(initial=2.0), x.max(initial=2.0)),
        ]
        for result, wanted in pairs:
            assert result.shape == wanted.shape
            assert result.tolist() == wanted.tolist()
        np.testing.assert_allclose(y.sum(axis).tolist(), x.sum(axis), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("count", [1, 7, 8, 100, 129, 1000, 4097])
def test_sums_are_rounded_as_in_numpy(count: int) -> None:
    x = np.random.default_rng(count).normal(size=count)
    assert small(x).sum().item() == x.sum()
    assert small(np.full(count, 0.1)).sum().item() == np.full(count, 0.1).sum()


def test_what_is_missing_is_named() -> None:
    with pytest.raises(NeedsNumpyError, match=r"numpy\.einsum"):
        _ = small_arrays.einsum
