"""Checks the arguments of `encode` and `decode`."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any, Literal

from wgcc_runtime.errors import WgccError

# Whether a text gets the tokens that begin and end one, or only those that begin it.
Special = bool | Literal["before"]


def check_text(text: Any) -> None:
    if not isinstance(text, str):
        raise WgccError("text", f"a text to encode is a str, not {type(text).__name__}", "text")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        place = f"half of a surrogate pair at character {error.start}"
        raise WgccError("text", f"the text holds {place}, which is no character", "text") from error


def whole_ids(ids: Any) -> list[int]:
    """Ids as int; numpy's integers are ids, too."""
    if not isinstance(ids, Iterable):
        text = f"ids to decode are a list of whole numbers, not {type(ids).__name__}"
        raise WgccError("text", text, "ids")
    try:
        return [index(id_) for id_ in ids]
    except TypeError as error:
        text = f"ids to decode are whole numbers ({error})"
        raise WgccError("text", text, "ids") from error
