"""The array operations that compiling a model needs, in pure Python.

`wgcc.lazy_numpy` takes them where numpy is missing, as in a page. Names and results are numpy's, so
that a compiled model has the same bytes with both; what is not here raises `NeedsNumpyError`.
Arrays here are small: a flat list with a shape and an element type.
"""

from wgcc.small_arrays.array import (
    SmallArray,
    asarray,
    broadcast_to,
    errstate,
    full,
    where,
)
from wgcc.small_arrays.elementwise import ELEMENTWISE, clip, polyval, vectorize
from wgcc.small_arrays.element_types import (
    ELEMENT_TYPES,
    ElementKind,
    NeedsNumpyError,
    dtype,
    floating,
    issubdtype,
    promote,
)
from wgcc.small_arrays.rearranging import (
    arange,
    concatenate,
    flip,
    frombuffer,
    moveaxis,
    ndindex,
    ones,
    repeat,
    reshape,
    roll,
    stack,
    transpose,
    zeros,
)

array = ascontiguousarray = asarray
ndarray = SmallArray
result_type = promote

__all__ = sorted(name for name in globals() if not name.startswith("_"))


def __getattr__(name: str) -> object:
    if name in ELEMENTWISE:
        return ELEMENTWISE[name]
    if name in ELEMENT_TYPES:
        return ELEMENT_TYPES[name]
    if name.startswith("__"):
        raise AttributeError(name)
    raise NeedsNumpyError(f"numpy.{name}")
