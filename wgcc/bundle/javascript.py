"""Tokens of JavaScript, scripts without comments and blanks, and JSON as readable literals.

The source is trusted, because it is ours: what is unclear is refused.

Also filled templates of web files, and the seal. It tells the JavaScript runtime that the bundle
was checked when it was built, with the Python runtime's code; any other bundle is checked in the
page, field by field. It protects against accidents (files that were truncated, mixed or edited),
not against somebody who can write index.js, which is code.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from wgcc.bundle.content import read_header, words_header
from wgcc.files import data_dir
from wgcc_runtime.bundle_files import code_of
from wgcc_runtime.strict_json import as_javascript

_TOKEN = re.compile(
    r"(\s*)(?:(?P<comment>//[^\n]*|/\*[\s\S]*?\*/)"
    r"|(?P<string>'(?:[^'\\\n]|\\[\s\S])*'|\"(?:[^\"\\\n]|\\[\s\S])*\")"
    r"|(?P<number>0[xXbBoO]\w+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?n?)"
    r"|(?P<name>#?[\w$]+)"
    r"|(?P<sign>\.\.\.|>>>=|===|!==|\*\*=|<<=|>>=|>>>|&&=|\|\|=|\?\?=|=>|==|!=|<=|>=|&&|\|\||\?\?"
    r"|\?\.(?!\d)|\+\+|--|[-+*/%&|^]=|\*\*|<<|>>|[][{}();,<>+*/%&|^!~?:=.@-])|(?P<other>))"
)
# One part of a template literal: to its end, or to an expression inside it.
_TEMPLATE = re.compile(r"[`}](?:[^`\\$]|\\[\s\S]|\$(?!\{))*(?:`|\$\{)")
_REGEX = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/\w*")
# A slash after one of these words starts a regular expression; after another word it divides.
_BEFORE_REGEX = frozenset((
    "await", "case", "delete", "do", "else", "in", "instanceof", "new", "of", "return", "throw",
    "typeof", "void", "yield",
))  # fmt: skip
_BEFORE_CONDITION = frozenset(("if", "while", "for", "with"))
_CLOSING = {")": "(", "]": "[", "}": "{"}
_BRACKETED = frozenset(("sign", "template"))
# Ends of one token and beginnings of the next that would be read as something else if joined.
_APART = re.compile(r"[\w$][\w$#]|\+\+|--|//|/\*|<!|\?\.|\d\.")
_OPENING = frozenset("([{")


class JavaScriptError(Exception):
    """Text that is not read: a mistake in the source of the runtime."""


class ScriptToken(NamedTuple):
    """`depth` counts the brackets around it; `is_new_line`: whether a line break precedes it.

    `kind` is comment, string, number, name, sign, regex, or template, for a part of a literal.
    """

    kind: str
    text: str
    start: int
    depth: int
    is_new_line: bool

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def tokenize(text: str) -> Iterator[ScriptToken]:
    """All tokens, comments included, in their order."""
    scopes = _Scopes()
    opened = scopes.opened
    at, length = 0, len(text.rstrip())
    while at < length:
        match = _TOKEN.match(text, at)
        assert match and match.lastgroup
        blank, kind, start = match[1], match.lastgroup, match.end(1)
        if kind == "sign" or kind == "other":
            kind, match = scopes.special(text, start, kind, match)
        if match is None or kind == "other":
            line = text.count("\n", 0, start) + 1
            raise JavaScriptError(f"line {line}: this is not read: {text[start : start + 40]!r}")
        at = match.end()
        token = text[start:at]
        depth = scopes.count(kind, token) if kind in _BRACKETED else len(opened)
        yield ScriptToken(kind, token, start, depth, "\n" in blank)
        if kind != "comment":
            scopes.before, scopes.last, scopes.last_kind = scopes.last, token, kind
    if opened:
        raise JavaScriptError(f"{opened[-1]!r} is never closed")


class _Scopes:
    """The brackets that are open, and the last tokens: the meaning of a slash depends on them."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        # For each open parenthesis, whether it is that of a condition, as in `if (…)`.
        self._conditions: list[bool] = []
        self._ends_condition = False
        self.before = self.last = self.last_kind = ""

    def special(
        self, text: str, at: int, kind: str, match: re.Match[str]
    ) -> tuple[str, re.Match[str] | None]:
        """A template or regular expression where one begins or goes on; else what was matched."""
        first = text[at]
        if first == "`" or (first == "}" and self.opened[-1:] == ["${"]):
            return "template", _TEMPLATE.match(text, at)
        if first == "/" and self._starts_regex():
            return "regex", _REGEX.match(text, at)
        return kind, match

    def count(self, kind: str, text: str) -> int:
        """Counts a token's brackets; returns how many are open around it."""
        if kind == "template":
            return self._count_template(text)
        if text in _CLOSING:
            if not self.opened or self.opened.pop() != _CLOSING[text]:
                raise JavaScriptError(f"{text!r} closes nothing")
            if text == ")":
                self._ends_condition = self._conditions.pop()
            return len(self.opened)
        if text in _OPENING:
            self.opened.append(text)
            if text == "(":
                self._conditions.append(self.last in _BEFORE_CONDITION and not self._is_property())
            return len(self.opened) - 1
        return len(self.opened)

    def _count_template(self, text: str) -> int:
        if text[0] == "}":
            self.opened.pop()
        depth = len(self.opened)
        if text.endswith("${"):
            self.opened.append("${")
        return depth

    def _is_property(self) -> bool:
        return self.before in (".", "?.")

    def _starts_regex(self) -> bool:
        """Whether a slash starts a regular expression; otherwise it divides."""
        if self.last_kind == "name":
            return self.last in _BEFORE_REGEX and not self._is_property()
        if self.last_kind == "template":
            return self.last.endswith("${")
        if self.last_kind != "sign":
            return not self.last
        if self.last == "}":
            raise JavaScriptError("a slash after a brace can mean two things: write it otherwise")
        return self._ends_condition if self.last == ")" else self.last not in ("]", "++", "--")


@lru_cache(maxsize=64)
def strip_javascript(text: str) -> str:
    """The same tokens without comments, blank lines and blanks that are not needed.

    Tokens that were on different lines are still on different lines, so that a missing semicolon
    means the same as before, and a stack trace points to a short line. Names stay, too.
    """
    parts: list[str] = []
    last, is_new_line = "", False
    for kind, token, _, _, follows_break in tokenize(text):
        is_new_line = is_new_line or follows_break
        if kind == "comment":
            is_new_line = is_new_line or "\n" in token
            continue
        if is_new_line and last:
            parts.append("\n")
        elif _APART.match(last[-1:] + token[:1]):
            parts.append(" ")
        parts.append(token)
        last, is_new_line = token, False
    return "".join(parts) + "\n"


def strip_css(text: str) -> str:
    """A style sheet of ours, which has no comment sign in a string."""
    lines = re.sub(r"/\*[\s\S]*?\*/", "", text).split("\n")
    return "\n".join(filter(None, map(str.strip, lines))) + "\n"


WIDTH = 100
_NAME = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)


def json_text(text: str) -> str:
    """The same JSON without the titles and descriptions of a JSON Schema."""
    return _literal(_without_prose(json.loads(text)), 0)


def _without_prose(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_prose(item) for item in value]
    if not isinstance(value, dict):
        return value
    # A property of the plan may have such a name, too, but then its value is an object.
    prose = ("$schema", "title", "description")
    kept = {k: v for k, v in value.items() if k not in prose or not isinstance(v, str)}
    return {key: _without_prose(item) for key, item in kept.items()}


def _literal(value: Any, indent: int) -> str:
    line = _line(value)
    if not isinstance(value, list | dict) or indent + len(line) <= WIDTH:
        return line
    inner = indent + 2
    if isinstance(value, list):
        items = [_literal(item, inner) for item in value]
    else:
        items = [f"{_key(key)}: {_literal(item, inner)}" for key, item in value.items()]
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


_PLACE = re.compile(r"__([A-Z][A-Z_]*[A-Z])__")


def template(name: str) -> str:
    """A file of runtime_js, where templates and the runtime itself are stored."""
    return (data_dir("runtime_js") / name).read_text(encoding="utf-8")


def script_template(name: str) -> str:
    """A script of runtime_js as pages load it: its first line, then code without comments."""
    text = template(name)
    first = text.partition("\n")[0]
    banner = f"{first}\n" if first.startswith("//") else ""
    return banner + strip_javascript(text)


def plan_literal(files: Mapping[str, bytes]) -> str:
    """plan.json without blanks."""
    return _without_blanks(files["plan.json"])


@lru_cache(maxsize=1)
def _without_blanks(text: bytes) -> str:
    return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))


def fill(text: str, **values: str) -> str:
    """Replaces each `__NAME__` by its value; both must have exactly the same names."""
    wanted = set(_PLACE.findall(text))
    assert wanted == set(values), wanted ^ set(values)
    return _PLACE.sub(lambda match: values[match[1]], text)


def kernel_codes(files: Mapping[str, bytes]) -> dict[str, str]:
    """The code of each kernel file, which pages embed; comments are in the file.

    Kernels whose `main` begins alike come one after the other, and both forms of a kernel: so they
    are compressed best.
    """
    codes = {
        name.removeprefix("kernels/"): code_of(data.decode("utf-8"))
        for name, data in files.items()
        if name.startswith(("kernels/", "subgroups/"))
    }

    def place(name: str) -> tuple[str, str, str]:
        file = name.removeprefix("subgroups/")
        return codes.get(file, "").partition("@compute")[2], file, name

    return {name: codes[name] for name in sorted(codes, key=place)}


def kernels_literal(files: Mapping[str, bytes]) -> str:
    """An object literal with the code of each kernel."""
    lines = ["{"]
    for name, code in kernel_codes(files).items():
        text = re.sub(r"[\\`]|\$\{", r"\\\g<0>", code)
        lines.append(f"'{name}':`{text}`,")
    return "\n".join([*lines, "}"])


def bytes_literal(data: bytes | None) -> str:
    """Bytes as a base64 string; `undefined` for none."""
    return f"'{base64_text(data)}'" if data else "undefined"


def base64_text(data: bytes | None) -> str | None:
    return base64.b64encode(data).decode() if data else None


def package_name(model: str) -> str:
    """The npm name of a bundle, in a scope to which nobody publishes by accident."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_+", "-", model).lower().strip("-")
    return f"@my-models/{plain or 'model'}"


Plan = Mapping[str, Any]
Files = Mapping[str, bytes]


def seal_text(files: Files) -> str:
    """An object literal with digests: of plan and constants, kernels and, if complete, weights.

    Not of large ones: their file holds a checksum (bundle/content.py).
    """
    if not _is_sound(files):
        return "undefined"
    plan = json.loads(files["plan.json"])
    constants = base64_text(files.get("constants.safetensors"))
    sealed = {"bundle": [plan["version"], plan, constants], "kernels": kernel_codes(files)}
    digests = {name: _digest(as_javascript(value).encode()) for name, value in sealed.items()}
    weights = files.get("weights.safetensors")
    if weights and _is_complete(plan, weights):
        digests["weights"] = _digest(weights)
    return json.dumps(digests, separators=(",", ":"))


def _is_sound(files: Files) -> bool:
    """Whether the runtimes would accept the plan, its kernels and its twin."""
    # Only here, because it takes time to import.
    from wgcc_runtime.bundle_files import guard_wgsl, read_forms, read_twin
    from wgcc_runtime.errors import WgccError
    from wgcc_runtime.plan import read_plan
    from wgcc_runtime.strict_json import KEY, plan_digest

    try:
        plan = read_plan(files["plan.json"])
    except WgccError:
        raw = json.loads(files["plan.json"])
        if raw.get(KEY) == plan_digest(raw):
            # Nobody edited it: this would be a bundle that the compiler wrote, and nobody can use.
            raise
        return False
    try:
        for kernel in plan.kernels:
            for text in read_forms(lambda name, _: files.get(name), kernel):
                guard_wgsl(text, kernel.file)
        if plan.twin:
            read_twin(lambda name, _: files.get(name), plan.twin)
    except WgccError:
        return False
    return True


def _is_complete(plan: Plan, weights: bytes) -> bool:
    """Whether each tensor is stored in the file as words, or starts as a copy of one or as zero."""
    lasting = {
        name: tensor
        for name, tensor in plan["tensors"].items()
        if tensor["role"] in ("param", "state")
    }
    stored = read_header(weights)
    if not isinstance(stored, dict) or not stored.keys() <= lasting.keys():
        return False
    inits = {name: tensor.get("init", {"kind": "zeros"}) for name, tensor in lasting.items()}
    return stored == words_header(
        {name: (lasting[name]["dtype"], lasting[name]["shape"]) for name in stored}
    ) and all(
        name in stored or init.get("of") in stored or _is_zero(init) for name, init in inits.items()
    )


def _is_zero(init: Plan) -> bool:
    return init["kind"] == "zeros" or (init["kind"] == "value" and not any(init.get("values", [1])))


def _digest(data: bytes) -> str:
    return base64.b64encode(hashlib.sha256(data).digest()).decode()
