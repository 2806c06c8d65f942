"""JSON as JavaScript's JSON.stringify writes it: where both languages must give the same bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Any


def as_javascript(value: Any) -> str:
    """The text that JavaScript's JSON.stringify gives for a value."""
    if isinstance(value, Mapping):
        items = (f"{as_javascript(key)}:{as_javascript(item)}" for key, item in value.items())
        return "{" + ",".join(items) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(as_javascript, value)) + "]"
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, str):
        return encode_basestring(value)
    return json.dumps(value)


def number_text(value: float) -> str:
    """Python and JavaScript print the same digits, but use an exponent in different cases."""
    if value == 0:
        return "0"
    mantissa, _, exponent = f"{abs(value)!r}e0".partition("e")
    whole, _, fraction = mantissa.partition(".")
    power = int(exponent.partition("e")[0]) + len(whole)
    digits = (whole + fraction).rstrip("0")
    power -= len(digits) - len(digits.lstrip("0"))
    digits = digits.lstrip("0")
    sign = "-" if value < 0 else ""
    # The value is 0.digits times ten to the power.
    if -6 < power <= 0:
        return f"{sign}0.{'0' * -power}{digits}"
    if 0 < power <= 21:
        head, tail = digits[:power].ljust(power, "0"), digits[power:]
        return f"{sign}{head}.{tail}" if tail else sign + head
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{power - 1:+d}"


def with_sorted_keys(value: Any) -> Any:
    """The same value; the keys of all objects in it are in order."""
    if isinstance(value, Mapping):
        return {key: with_sorted_keys(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [with_sorted_keys(item) for item in value]
    return value
