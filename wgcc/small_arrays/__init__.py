"""The array operations that compiling a model needs, in pure Python.

`wgcc.lazy_numpy` takes them where numpy is missing, as in a page. Names and results are numpy's, so
that a compiled model has the same bytes with both; what is not here raises `NeedsNumpyError`.
Arrays here are small: a flat list with a shape and an element type.
"""

from __future__ import annotations

from typing import Any

from wgcc.small_arrays import array, element_types, elementwise, rearranging
from wgcc.small_arrays.element_types import NeedsNumpyError

_OTHER_NAMES = {
    "array": "asarray",
    "ascontiguousarray": "asarray",
    "ndarray": "SmallArray",
    "result_type": "promote",
}
_TABLES: tuple[dict[str, Any], ...] = (
    elementwise.ELEMENTWISE,
    element_types.ELEMENT_TYPES,
    *map(vars, (array, element_types, elementwise, rearranging)),
)


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    known = _OTHER_NAMES.get(name, name)
    for table in _TABLES:
        if known in table:
            return table[known]
    raise NeedsNumpyError(f"numpy.{name}")
