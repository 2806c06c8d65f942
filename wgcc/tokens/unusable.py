"""The error of every reader of vocabularies."""

from __future__ import annotations


class Unusable(Exception):
    """A file of tokens cannot be used; the text is the part of the message after its name."""


class UnusableMerge(Unusable):
    """Of the list of merges, which may be a file of its own."""
