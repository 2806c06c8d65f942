"""How alike two names are: `blocks.0.attn.wq.w` and `layers.0.self_attn.q_proj.weight`."""

from __future__ import annotations

import re
from functools import lru_cache

# Words that frameworks use for the same thing, under one name.
_MEANINGS = {
    "tok": "tok token tokens wte emb embed embedding embeddings word vocab",
    "pos": "pos position positions wpe positional",
    "norm": "norm ln layernorm rmsnorm bn batchnorm",
    "attn": "attn attention mha",
    "q": "q wq query queries",
    "k": "k wk key keys",
    "v": "v wv value values",
    "o": "o wo out output dense",
    "mlp": "mlp ffn ff feed forward feedforward swiglu",
    "up": "up fc1 cfc intermediate",
    "down": "down fc2",
    "block": "block blocks layer layers h stage stages",
    "head": "head classifier lm logits",
    "conv": "conv conv1d conv2d",
    "weight": "weight w g gamma scale kernel",
    "bias": "bias b beta",
    "mean": "mean runmean runningmean",
    "var": "var runvar runningvar variance",
    "last": "last final f",
}
_MEANING_OF = {word: meaning for meaning, words in _MEANINGS.items() for word in words.split()}
# Words that say nothing about which tensor it is.
_EMPTY = {"module", "model", "transformer", "backbone", "net", "proj", "self", "run", "running"}
# Which last words can be the same kind of tensor.
_LEAVES = {"w": "weight", "g": "weight", "b": "bias", "weight": "weight", "bias": "bias"}
_LEAVES |= {"gamma": "weight", "scale": "weight", "kernel": "weight", "beta": "bias"}
_LEAVES |= {"run_mean": "mean", "running_mean": "mean", "run_var": "var", "running_var": "var"}
_LEAVES |= {"in_proj_weight": "weight", "in_proj_bias": "bias"}


def likeness(ours: str, theirs: str) -> float:
    """0 … 1: shared meanings, and places in lists that agree."""
    mine, other = meanings(ours), meanings(theirs)
    shared = 2 * len(mine & other) / max(len(mine) + len(other), 1)
    places = numbers(ours)
    return 0.5 * shared + 0.5 * (numbers(theirs)[: len(places)] == places)


def same_kind(ours: str, theirs: str) -> bool:
    """May the last words name the same kind of tensor (a weight is never a bias)?"""
    words = [name.rsplit(".", 1)[-1] for name in (ours, theirs)]
    mine, other = (_LEAVES.get(word) for word in words)
    if any("lora" in word.lower() for word in words):
        return all("lora" in word.lower() for word in words)
    if mine is None and other is None:
        return bool(meanings(words[0]) & meanings(words[1]))
    return mine is None or other is None or mine == other


def leaf_order(name: str) -> int:
    """Weights come before what belongs to them."""
    return 0 if _LEAVES.get(name.rsplit(".", 1)[-1]) == "weight" else 1


@lru_cache(maxsize=4096)
def meanings(name: str) -> frozenset[str]:
    """What the words of a name say; a number at the end of a word counts as one of its own."""
    found = set()
    for part in name.lower().split("."):
        if part.isdigit():
            continue
        whole = part.replace("_", "")
        words = [whole] if whole in _MEANING_OF else re.findall(r"[a-z]+|\d+", part)
        found |= {_MEANING_OF.get(word, word) for word in words if word not in _EMPTY}
    return frozenset(found)


@lru_cache(maxsize=4096)
def numbers(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split(".") if part.isascii() and part.isdigit())


def module_of(name: str) -> str:
    return name.rpartition(".")[0]


def in_order(name: str) -> tuple[tuple[int, str], ...]:
    """A sorting key that puts `h.2` before `h.10`."""
    return tuple(
        (int(part), "") if part.isascii() and part.isdigit() else (-1, part)
        for part in name.split(".")
    )
