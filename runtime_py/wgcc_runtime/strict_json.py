"""JSON as this project accepts it: no key twice, no NaN or infinity, bounded depth and size."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from wgcc_runtime.errors import WgccError

MAX_DEPTH = 32


def parse_json(data: bytes, name: str, limit: int, code: str = "plan") -> Any:
    """The parsed value; every malformed input is a `WgccError` with this code."""
    if len(data) > limit:
        raise WgccError(code, f"{name} has {len(data):,} bytes; at most {limit:,} are read", name)
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_not_a_number,
            parse_float=_finite,
        )
    except RecursionError:
        raise WgccError(code, f"{name} is nested more than {MAX_DEPTH} deep", name) from None
    except ValueError as error:
        raise WgccError(code, f"{name} is not valid JSON: {error}", name) from None
    _check_depth(value, name, code)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key[:80]!r} appears twice")
        found[key] = value
    return found


def _not_a_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:40]} is too large")
    return value


def _check_depth(value: Any, name: str, code: str) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise WgccError(code, f"{name} is nested more than {MAX_DEPTH} deep", name)
        inside = [item for item in level if isinstance(item, (dict, list))]
        level = [v for item in inside for v in (item.values() if isinstance(item, dict) else item)]
