"""The tokens of a bundle: reads its `tokenizer.json` when they are first needed."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from wgcc_runtime.bundle_files import Read
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan_parts import TokenRecord
from wgcc_runtime.strict_json import parse_json
from wgcc_runtime.tokens.tokens import Tokens

MAX_BYTES = 128 << 20
# Of the part of the file that is wgcc's own.
VERSION = 1


@dataclass
class BundleTokens:
    """Called, it gives the tokens; they are read once."""

    record: TokenRecord
    read: Read
    tokens: Tokens | None = None

    def __call__(self) -> Tokens:
        if self.tokens is None:
            self.tokens = _open(self.record, self.read)
        return self.tokens


def tokens_of_text(text: str) -> Tokens:
    """The tokens of a `tokenizer.json` as bundles have it."""
    return _tokens(text.encode(), "tokenizer.json")


def _open(record: TokenRecord, read: Read) -> Tokens:
    data = read(record.file, MAX_BYTES)
    if data is None:
        raise WgccError("bundle", f"the bundle lacks {record.file}", record.file)
    if hashlib.sha256(data).hexdigest() != record.sha256:
        text = f"{record.file} was changed after the bundle was built (its SHA-256 differs from"
        raise WgccError("bundle", f"{text} plan.json): build the model again", record.file)
    return _tokens(data, record.file)


def _tokens(data: bytes, name: str) -> Tokens:
    file = parse_json(data, name, MAX_BYTES, "bundle")
    try:
        if file["model"]["wgcc"]["version"] != VERSION:
            text = f"{name} was written by another version of wgcc: build the model again"
            raise WgccError("bundle", text, name)
        return Tokens(file)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, re.error) as error:
        text = f"{name} is not in the form that wgcc writes ({error})"
        raise WgccError("bundle", f"{text}: build the model again", name) from error
