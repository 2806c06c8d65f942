"""The code of a kernel, without comments: what pages embed, and what a kernel's digest covers."""

from __future__ import annotations

import hashlib
import re

# A line that holds nothing but a comment; WGSL has seven line breaks.
_COMMENT_LINE = re.compile("(?<![^\n])[ \t]*//[^\n\v\f\r\x85\u2028\u2029]*\n")


def code_of(text: str) -> str:
    """The text of a kernel without lines that are comments."""
    return _COMMENT_LINE.sub("", text)


def code_digest(text: str) -> str:
    """SHA-256 of the code, so that comments may differ between a file and a page."""
    return hashlib.sha256(code_of(text).encode("utf-8")).hexdigest()
