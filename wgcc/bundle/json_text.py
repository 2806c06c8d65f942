"""JSON as a readable JavaScript literal: a value that fits into a line is written on one."""

from __future__ import annotations

import json
import re
from typing import Any

WIDTH = 100
_NAME = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)


def json_text(text: str) -> str:
    """The same JSON without the titles and descriptions of a JSON Schema."""
    return _written(_without_prose(json.loads(text)), 0)


def _without_prose(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_prose(item) for item in value]
    if not isinstance(value, dict):
        return value
    # A property of the plan may have such a name, too, but then its value is an object.
    prose = ("$schema", "title", "description")
    kept = {k: v for k, v in value.items() if k not in prose or not isinstance(v, str)}
    return {key: _without_prose(item) for key, item in kept.items()}


def _written(value: Any, indent: int) -> str:
    line = _line(value)
    if not isinstance(value, list | dict) or indent + len(line) <= WIDTH:
        return line
    inner = indent + 2
    if isinstance(value, list):
        items = [_written(item, inner) for item in value]
    else:
        items = [f"{_key(key)}: {_written(item, inner)}" for key, item in value.items()]
    body = "".join(f"{' ' * inner}{item},\n" for item in items)
    opening, closing = "[]" if isinstance(value, list) else "{}"
    return f"{opening}\n{body}{' ' * indent}{closing}"


def _line(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_line, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_key(key)}: {_line(item)}' for key, item in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def _key(key: str) -> str:
    """Names need no quotes."""
    return key if _NAME.fullmatch(key) else json.dumps(key)
