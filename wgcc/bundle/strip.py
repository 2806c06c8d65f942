"""JavaScript without comments and blanks, for what pages load. Names and line breaks stay.

Tokens that were on different lines are still on different lines, so that a missing semicolon means
the same as before, and a stack trace points to a short line.
"""

from __future__ import annotations

import re
from functools import lru_cache

from wgcc.bundle.javascript import tokenize

# Ends of one token and beginnings of the next that would be read as something else if joined.
_APART = re.compile(r"[\w$][\w$#]|\+\+|--|//|/\*|<!|\?\.|\d\.")


@lru_cache(maxsize=64)
def strip_javascript(text: str) -> str:
    """The same tokens without comments, blank lines and blanks that are not needed."""
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
