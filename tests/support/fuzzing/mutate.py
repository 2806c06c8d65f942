"""Damages texts, by words and by bytes."""

from __future__ import annotations

import random
import re

from wgcc.elaborate.builtins import BUILTINS

TOKEN = re.compile(r'"[^"\n]*"|[A-Za-z_]\w*|\d+\.\d+|\d+|\n|\S')
STRANGE = (
    "0", "-1", "1", "99999999999", "2147483648", "1e40", "1e-40", "0.0", '""', "none", "x", "{",
    "}", ")", "(", "[0]", "fn", "..", "model", "entry", "param", "state", "::", "+:", ":=", "|>",
    "__proto__", "constructor", "_", "self", "array", "var", "main", "f16", "u8", "bool", "new",
    "inf", "training", "@", "**", "%", "true", "if", "then", "else", "for", "return", "~", "4096",
    "1 / 0", "0 ** -1", "2 ** 99", "-x", "[..]", "[1, 0]", '"a b -> b a"', "\x00", "é", "×", "'",
    "#", "\\", "\u202e", "\ufeff", "𝟙", "grad(x, x)", "minimize x with opt", "rand(f32[9])",
)  # fmt: skip

OPERATORS = ("+", "-", "*", "/", "%", "@", "<", ">", ",")


def words(text: str, others: list[str], chance: random.Random) -> str:
    """Words removed, doubled, swapped, replaced by unusual ones or by words of another text."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        places = list(TOKEN.finditer(text))
        if not places:
            return chance.choice(STRANGE)
        place = chance.choice(places)
        new = _replacement(place.group(), [p.group() for p in places], others, chance)
        text = text[: place.start()] + new + text[place.end() :]
    return text


def _replacement(old: str, own: list[str], others: list[str], chance: random.Random) -> str:
    kind = chance.randrange(7)
    if kind == 0:
        return ""
    if kind == 1:
        return f"{old} {old}"
    if kind == 2:
        return chance.choice(STRANGE)
    if kind == 3:
        return f"{old} {chance.choice(STRANGE)}"
    if kind == 4:
        other = chance.choice(others)
        found = TOKEN.findall(other) or ["x"]
        start = chance.randrange(len(found))
        return " ".join(found[start : start + chance.randrange(1, 12)])
    if kind == 5 and old.isdigit():
        return str(int(old[:9]) + chance.choice((-1, 1, 7, 10**6)))
    return chance.choice(own)


def gently(text: str, others: list[str], chance: random.Random) -> str:
    """A number, name, operator or function replaced by another of its kind: often still valid."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = [place for place in TOKEN.finditer(text) if _kind(place.group())]
        if not places:
            return text
        place = chance.choice(places)
        new = _similar(place.group(), [p.group() for p in places], chance)
        text = text[: place.start()] + new + text[place.end() :]
    return text


def _kind(word: str) -> str:
    if word in BUILTINS:
        return "function"
    if word.isdigit():
        return "number"
    if word.isidentifier():
        return "name"
    return "operator" if word in OPERATORS else ""


def _similar(word: str, own: list[str], chance: random.Random) -> str:
    kind = _kind(word)
    if kind == "function":
        return chance.choice(list(BUILTINS))
    if kind == "operator":
        return chance.choice(OPERATORS)
    if kind == "number":
        number = int(word[:12])
        return str(chance.choice((number + 1, max(0, number - 1), 2 * number, 1, 2, 3, 1000)))
    return chance.choice([other for other in own if _kind(other) == "name"])


def lines(text: str, others: list[str], chance: random.Random) -> str:
    """Whole lines removed, doubled, moved, or taken from another text."""
    found = text.split("\n")
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(found))
        kind = chance.randrange(4)
        if kind == 0 and len(found) > 1:
            del found[at]
        elif kind == 1:
            found.insert(at, chance.choice(found))
        elif kind == 2:
            found.insert(at, chance.choice(chance.choice(others).split("\n")))
        else:
            other = chance.randrange(len(found))
            found[at], found[other] = found[other], found[at]
    return "\n".join(found)


def raw_bytes(text: str, others: list[str], chance: random.Random) -> str:
    """Bytes changed, removed, inserted or cut off; decoded as a file would be, or byte by byte."""
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(chance.choice((1, 2, 4, 16))):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(5)
        if kind == 0:
            data[at : at + 1] = bytes([chance.randrange(256)])
        elif kind == 1:
            del data[at : at + chance.randrange(1, 9)]
        elif kind == 2:
            data[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 9)))
        elif kind == 3:
            other = chance.choice(others).encode("utf-8", "surrogatepass")
            start = chance.randrange(len(other) + 1)
            data[at:at] = other[start : start + chance.randrange(40)]
        else:
            del data[at + chance.randrange(200) :]
    encoding = chance.choice(("utf-8", "utf-8", "latin-1"))
    return bytes(data).decode(encoding, "surrogateescape")
