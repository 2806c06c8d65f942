"""Numbers as the language writes them."""

from __future__ import annotations

from wgcc.lazy_numpy import Array, np

# A little below the largest 32-bit float, whose shortest text would be read as more than that.
LARGEST = 3.4028234e38


class Infinite(str):
    """The text of the largest float, in place of infinity."""

    __slots__ = ()


def float_text(number: float) -> str:
    """The shortest text that is the same 32-bit number."""
    text = str(np.float32(number))
    if abs(number) > LARGEST:
        text = "3.4028234e38" if number > 0 else "-3.4028234e38"
    whole = "." not in text and "e" not in text
    return f"{text}.0" if whole else text


def finite(array: Array) -> Array:
    """Infinity, as masks have it, is the largest number there is."""
    if array.dtype.kind in "iub":
        return array
    largest = np.finfo(np.float32).max
    return np.clip(array, -largest, largest)


def number_text(array: Array) -> str:
    """One number of any type."""
    item = array.reshape(-1)[0]
    if array.dtype.kind == "b":
        return "true" if item else "false"
    if array.dtype.kind in "iu":
        return str(int(item))
    text = float_text(float(item))
    return Infinite(text) if np.isinf(item) else text


def list_text(array: Array) -> str:
    return "[" + ", ".join(number_text(item) for item in array.reshape(-1, 1)) + "]"
