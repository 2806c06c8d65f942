"""The rules that names follow: how to make one, and whether a word is one.

A name has two or three syllables, each a consonant or two and a vowel. Its vowels are all from
(a, e, i) or all from (a, o, u). The last syllable may end with n, r, l or th.
"""

from __future__ import annotations

import random
import re

ONSETS = [*"bdfghklmnrstv", "br", "dr", "gr", "kr", "tr", "st", "sh", "th"]
VOWELS = {"bright": "aaeei", "dark": "aaoou"}
ENDINGS = ["", "", "", "n", "r", "l", "th"]

_ONSET = "|".join(sorted(ONSETS, key=len, reverse=True))
_NAMES = [
    re.compile(f"(?:(?:{_ONSET})[{''.join(sorted(set(vowels)))}]){{2,3}}(?:n|r|l|th)?")
    for vowels in VOWELS.values()
]


def make_name(rng: random.Random) -> str:
    vowels = rng.choice(sorted(VOWELS.values()))
    syllables = rng.choice([2, 2, 3])
    stem = "".join(rng.choice(ONSETS) + rng.choice(vowels) for _ in range(syllables))
    return stem + rng.choice(ENDINGS)


def is_name(word: str) -> bool:
    return any(pattern.fullmatch(word) for pattern in _NAMES)
