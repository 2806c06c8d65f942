"""GPT-2's character for each byte: vocabularies of bytes are written as text with these."""

from __future__ import annotations

VISIBLE = {*range(33, 127), *range(161, 173), *range(174, 256)}
_hidden = [byte for byte in range(256) if byte not in VISIBLE]
CHARACTERS = [
    chr(byte) if byte in VISIBLE else chr(256 + _hidden.index(byte)) for byte in range(256)
]
BYTES = {letter: byte for byte, letter in enumerate(CHARACTERS)}
_BY_LATIN = dict(enumerate(CHARACTERS))


def to_characters(text: str) -> str:
    """Each byte of the text's UTF-8 as its character."""
    return text.encode().decode("latin-1").translate(_BY_LATIN)


def to_bytes(token: str) -> bytes:
    """The bytes of a token; a token with other characters is text."""
    if all(letter in BYTES for letter in token):
        return bytes(BYTES[letter] for letter in token)
    return token.encode()
