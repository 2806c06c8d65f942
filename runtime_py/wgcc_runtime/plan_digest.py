"""The digest by which a plan is known to be what the compiler wrote. Mirrors plan_digest.js.

It covers the contents, not the text: blanks and the order of keys do not matter.
"""

from __future__ import annotations

import hashlib
from struct import pack
from typing import Any

from wgcc_runtime.errors import WgccError

KEY = "sha256"
WORDS = {None: b"n", True: b"t", False: b"f"}


def plan_digest(plan: dict[str, Any]) -> str:
    """SHA-256 of all of a plan but its digest."""
    content = {key: value for key, value in plan.items() if key != KEY}
    pieces: list[bytes] = []
    _append(pieces, content)
    return hashlib.sha256(b"".join(pieces)).hexdigest()


def check_plan_digest(plan: dict[str, Any]) -> None:
    """Refuses a plan that was changed; one without a digest was written by an older wgcc.

    Called last, so that a plan that cannot be right is refused for what is wrong with it.
    """
    if KEY in plan and plan[KEY] != plan_digest(plan):
        raise WgccError(
            "plan",
            "plan.json was changed after the bundle was built (its SHA-256 differs): build the "
            "model again, or run `wgcc accept` on the bundle if it was changed on purpose",
            KEY,
        )


def _append(pieces: list[bytes], value: Any) -> None:
    """Numbers as doubles, so that 1 and 1.0 are equal in all languages."""
    if isinstance(value, str):
        text = value.encode("utf-8", "surrogatepass")
        pieces += (b"s", pack(">I", len(text)), text)
    elif isinstance(value, dict):
        pieces.append(b"{")
        for key in sorted(value):
            _append(pieces, key)
            _append(pieces, value[key])
        pieces.append(b"}")
    elif isinstance(value, (list, tuple)):
        pieces.append(b"[")
        for item in value:
            _append(pieces, item)
        pieces.append(b"]")
    elif value is None or isinstance(value, bool):
        pieces.append(WORDS[value])
    else:
        pieces += (b"d", pack(">d", value))
