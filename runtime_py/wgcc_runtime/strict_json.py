"""JSON that both runtimes agree on: no key twice, no NaN or infinity, bounded depth and size.

plan.schema.json is the only definition of a plan's form; errors name the field that violates it. It
is stricter than the standard in one point: an integer is written without a decimal point. Printing
is that of JSON.stringify, where both languages must give the same bytes. A plan's digest covers its
contents, not the text: blanks and the order of keys do not matter.

Tables that both runtimes read are JSON files; `wgcc build` writes them into the scripts that use
them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from json.encoder import encode_basestring
from pathlib import Path
from struct import pack
from typing import Any, NoReturn

from wgcc_runtime.errors import WgccError, did_you_mean

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
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise ValueError(f"the key {key[:80]!r} appears twice")
        members[key] = value
    return members


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
def _compile(pattern: str) -> re.Pattern[str]:
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
        lambda v, p: not isinstance(v, str) or bool(_compile(p).search(v)),
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


TABLES = Path(__file__).parent / "tables"


@cache
def table(name: str) -> Any:
    """The contents of a table that both runtimes read."""
    return json.loads((TABLES / f"{name}.json").read_text(encoding="utf-8"))
