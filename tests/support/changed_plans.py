"""Plans with one field changed, for tests that runtimes refuse them."""

from __future__ import annotations

import copy
import json
from typing import Any

# Stands for a field that is taken away.
REMOVED = object()


def encode(plan: dict[str, Any]) -> bytes:
    return json.dumps(plan).encode()


def change(plan: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of the plan with the value at a dotted path replaced, added or removed."""
    changed = copy.deepcopy(plan)
    *parents, last = path.split(".")
    inside: Any = changed
    for key in parents:
        inside = inside[int(key) if isinstance(inside, list) else key]
    key = int(last) if isinstance(inside, list) else last
    if value is REMOVED:
        del inside[key]
    else:
        inside[key] = value
    return changed
