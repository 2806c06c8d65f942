"""Random programs made from the grammar: every text parses, hardly any is meaningful."""

from __future__ import annotations

import functools
import random

from wgcc.elaborate.builtins import BUILTINS
from wgcc.syntax.grammar import grammar
from wgcc.syntax.tables import tables

NAMES = (
    "x", "y", "w", "h", "B", "D", "N", "T", "a", "b", "opt", "loss", "body", "Net", "Main", "l1",
    "Linear", "Embedding", "RMSNorm", "Dropout", "Attention", "step", "lr", "betas", "axis", "keep",
    "adam", "sgd", "normal", "zeros", "kaiming_uniform", "seed", "precision", "forward", "training",
    "_", "pi", "none", "__proto__", "constructor", "weight_decay",
)  # fmt: skip
TOKENS = {
    "INT": ("0", "1", "2", "3", "4", "8", "32", "1_000", "99999999999999999999"),
    "FLOAT": ("0.0", "1.0", "0.5", "1e-3", "2.5e38", "1e-46"),
    "STRING": ('"a b -> b a"', '"x.wg"', '"*"', '"body.w"', '""', '"a b, b c -> a c"'),
    "DTYPE": ("f32", "f32", "i32", "bool", "f16", "u32", "u8", "i8"),
    "CMP": ("==", "!=", "<", "<=", ">", ">="),
    "MULOP": ("*", "/", "%", "@"),
}  # fmt: skip
DEEPEST = 26


def derive(chance: random.Random) -> str:
    """One file; its parts get simpler with depth."""
    start = chance.choice(("start", "start", "model", "function", "layer"))
    return _Deriver(chance).text(start)


@functools.cache
def _rules() -> dict[str, list[tuple[str, ...]]]:
    rules: dict[str, list[tuple[str, ...]]] = {}
    for rule in tables().rules:
        rules.setdefault(rule.origin, []).append(rule.expansion)
    return rules


@functools.cache
def _heights() -> dict[str, int]:
    """The depth of the shallowest text of each symbol."""
    heights: dict[str, int] = {}
    changed = True
    while changed:
        changed = False
        for name, expansions in _rules().items():
            best = min((_height(e, heights) for e in expansions), default=10**6)
            if best < heights.get(name, 10**6):
                heights[name], changed = best, True
    return heights


def _height(expansion: tuple[str, ...], heights: dict[str, int]) -> int:
    inner = [0 if name.isupper() else heights.get(name, 10**6) for name in expansion]
    return 1 + max(inner, default=0)


@functools.cache
def _shallowest(symbol: str) -> list[tuple[str, ...]]:
    heights, expansions = _heights(), _rules()[symbol]
    least = min(_height(e, heights) for e in expansions)
    return [e for e in expansions if _height(e, heights) == least]


class _Deriver:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.budget = chance.choice((40, 120, 400))

    def text(self, symbol: str) -> str:
        parts: list[str] = []
        self._expand(symbol, 0, parts)
        return " ".join(parts)

    def _expand(self, symbol: str, depth: int, parts: list[str]) -> None:
        ends = depth > DEEPEST or len(parts) > self.budget
        expansions = _shallowest(symbol) if ends else _rules()[symbol]
        for item in self.chance.choice(expansions):
            if item.isupper():
                parts.append(self._token(item))
            else:
                self._expand(item, depth + 1, parts)

    def _token(self, name: str) -> str:
        if name == "NAME":
            some = NAMES if self.chance.random() < 0.7 else tuple(BUILTINS)
            return self.chance.choice(some)
        if name in TOKENS:
            return self.chance.choice(TOKENS[name])
        return "\n" if name == "_NL" else grammar().texts.get(name, name)
