"""Checks a JSON value against the part of JSON Schema that plan.schema.json uses.

The schema file is the only definition of plan.json's form; errors name the field that violates it.
Stricter than the standard in one point: an integer is written without a decimal point.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from wgcc_runtime.errors import WgccError, did_you_mean

Schema = dict[str, Any]
SCHEMA_FILE = Path(__file__).with_name("plan.schema.json")


@lru_cache(maxsize=1)
def plan_schema() -> Schema:
    schema: Schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    return schema


def check_form(value: Any, schema: Schema, root: Schema, field: str = "") -> None:
    """Raises a `WgccError` with code `plan` that names the first field of the wrong form."""
    if "$ref" in schema:
        check_form(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, field)
    for keyword, (is_valid, complaint) in _VALUE_CHECKS.items():
        if keyword in schema and not is_valid(value, schema[keyword]):
            _refuse(complaint(value, schema[keyword]), field)
    if isinstance(value, dict):
        _check_object(value, schema, root, field)
    elif isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            check_form(item, schema["items"], root, f"{field}[{i}]")
    if "anyOf" in schema:
        _check_any(value, schema["anyOf"], root, field)


def _refuse(complaint: str, field: str) -> NoReturn:
    raise WgccError("plan", f"plan.json: `{field or 'the plan'}` {complaint}", field)


def _check_object(value: dict[str, Any], schema: Schema, root: Schema, field: str) -> None:
    known = schema.get("properties", {})
    extra = schema.get("additionalProperties", True)
    names = schema.get("propertyNames")
    for name in schema.get("required", ()):
        if name not in value:
            _refuse(f"lacks the key `{name}`", field)
    for key, item in value.items():
        inner = f"{field}.{key}" if field else key
        if names:
            check_form(key, names, root, inner)
        if key in known:
            check_form(item, known[key], root, inner)
        elif extra is False:
            _refuse(f"is not a key of plan version 1{did_you_mean(key, known)}", inner)
        elif isinstance(extra, dict):
            check_form(item, extra, root, inner)


def _check_any(value: Any, choices: list[Schema], root: Schema, field: str) -> None:
    complaints = []
    for choice in choices:
        try:
            return check_form(value, choice, root, field)
        except WgccError as error:
            complaints.append(error)
    # The alternative of the same JSON type gives the most useful message.
    kinds = {"array": list, "object": dict}
    same = (i for i, c in enumerate(choices) if isinstance(value, kinds.get(c["type"], ())))
    raise complaints[next(same, 0)]


def _is_type(value: Any, name: str) -> bool:
    if isinstance(value, bool) or value is None:
        return name == ("null" if value is None else "boolean")
    return isinstance(value, _TYPES[name])


_TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": (),
}


def _show(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@lru_cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # `$` would also match before a final newline, which is not allowed in names.
    return re.compile(pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") else pattern)


# Keyword -> the test of a value, and the message if it fails; both take the value and the keyword's
# argument in the schema. A keyword accepts values of another type; `type` refuses those.
_VALUE_CHECKS: dict[str, tuple[Callable[[Any, Any], bool], Callable[[Any, Any], str]]] = {
    "type": (_is_type, lambda v, name: f"is {_show(v)}, not of type {name}"),
    "const": (
        lambda v, c: v == c and type(v) is type(c),
        lambda v, c: f"is {_show(v)}, not {_show(c)}",
    ),
    "enum": (
        lambda v, all_: v in all_,
        lambda v, all_: f"is {_show(v)}, not one of {', '.join(map(str, all_))}",
    ),
    "not": (lambda v, s: v not in s["enum"], lambda v, s: f"must not be {_show(v)}"),
    "minimum": (lambda v, n: not _number(v) or v >= n, lambda v, n: f"is {_show(v)}, below {n}"),
    "maximum": (lambda v, n: not _number(v) or v <= n, lambda v, n: f"is {_show(v)}, above {n}"),
    "multipleOf": (
        lambda v, n: not _number(v) or v % n == 0,
        lambda v, n: f"is {v}, not a multiple of {n}",
    ),
    "maxLength": (
        lambda v, n: not isinstance(v, str) or len(v) <= n,
        lambda v, n: f"is longer than {n}",
    ),
    "pattern": (
        lambda v, p: not isinstance(v, str) or bool(_compiled(p).search(v)),
        lambda v, p: f"is {_show(v)}, which is not an allowed name (pattern {p})",
    ),
    "minItems": (
        lambda v, n: not isinstance(v, list) or len(v) >= n,
        lambda v, n: f"has fewer than {n} items",
    ),
    "maxItems": (
        lambda v, n: not isinstance(v, list) or len(v) <= n,
        lambda v, n: f"has more than {n} items",
    ),
    "maxProperties": (
        lambda v, n: not isinstance(v, dict) or len(v) <= n,
        lambda v, n: f"has more than {n} keys",
    ),
}
