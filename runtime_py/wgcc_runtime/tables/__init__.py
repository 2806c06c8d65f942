"""Tables that both runtimes read: `wgcc build` writes them into the scripts that use them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

TABLES = Path(__file__).parent


@cache
def table(name: str) -> Any:
    """The contents of a file here."""
    return json.loads((TABLES / f"{name}.json").read_text(encoding="utf-8"))
