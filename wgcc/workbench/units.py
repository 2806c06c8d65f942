"""Places in a text as a page counts them: in UTF-16 units, not in characters."""

from __future__ import annotations

LAST_OF_ONE_UNIT = "\uffff"


class Units:
    """Converts offsets of one text; nearly all texts need no conversion."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._is_plain = not any(character > LAST_OF_ONE_UNIT for character in text)

    def of(self, offset: int) -> int:
        """The place at which a page sees the character at this offset."""
        if self._is_plain:
            return min(offset, len(self._text))
        return len(self._text[:offset].encode("utf-16-le")) // 2

    def offset(self, units: int) -> int:
        """The character that a page sees there."""
        if self._is_plain:
            return max(0, min(units, len(self._text)))
        data = self._text.encode("utf-16-le")[: 2 * max(0, units)]
        return len(data.decode("utf-16-le", errors="ignore"))
