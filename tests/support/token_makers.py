"""Tokenizers of the kinds that models use, trained by the `tokenizers` package on this repository's
text, and strings in many languages to compare them on."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from functools import cache

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    processors,
    trainers,
)
from tokenizers import pre_tokenizers as pre

from adapters import ROOT

LANGUAGES = (
    "Grüße aus Köln, naïve café. Привет мир! 你好，世界。こんにちは世界 안녕하세요 "
    "مرحبا بالعالم שלום עולם नमस्ते दुनिया 🙂👍🏽 ελληνικά"
)
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]


@cache
def corpus() -> list[str]:
    paths = sorted([*(ROOT / "grammar").glob("*.md"), *(ROOT / "wgcc").glob("*.md")])
    return [*(path.read_text(encoding="utf-8") for path in paths), *[LANGUAGES] * 20]


def _trained(
    tokenizer: Tokenizer, size: int, special: list[str], alphabet: bool = False
) -> Tokenizer:
    letters = pre.ByteLevel.alphabet() if alphabet else []
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=letters, special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def gpt2() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre.ByteLevel(add_prefix_space=False)
    tokenizer.decoder, tokenizer.post_processor = decoders.ByteLevel(), processors.ByteLevel()
    return _trained(tokenizer, 600, ["<|endoftext|>"], True)


def roberta() -> Tokenizer:
    tokenizer = gpt2()
    tokenizer.pre_tokenizer = pre.ByteLevel(add_prefix_space=True)
    return tokenizer


def llama3() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    split = pre.Split(Regex(LLAMA3), "isolated")
    tokenizer.pre_tokenizer = pre.Sequence([split, pre.ByteLevel(False, use_regex=False)])
    tokenizer.decoder, tokenizer.normalizer = decoders.ByteLevel(), normalizers.NFC()
    _trained(tokenizer, 600, ["<|begin|>", "<|end|>"], True)
    start = processors.TemplateProcessing("<|begin|> $A", special_tokens=[("<|begin|>", 0)])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(), start])
    return tokenizer


def llama2() -> Tokenizer:
    """Trained on single words, because Llama 2 has merges of single words only."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    space, end = decoders.Replace("▁", " "), decoders.Strip(" ", 1, 0)
    tokenizer.decoder = decoders.Sequence([space, decoders.ByteFallback(), decoders.Fuse(), end])
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        limit_alphabet=80,
        special_tokens=["<unk>", "<s>", "</s>", *BYTE_TOKENS],
        show_progress=False,
    )
    words = [word for text in corpus() for word in text.split(" ")]
    tokenizer.train_from_iterator(words, trainer)
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = file["added_tokens"][:3]
    tokenizer = Tokenizer.from_str(json.dumps(file))
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def metaspace() -> Tokenizer:
    tokenizer = llama2()
    tokenizer.normalizer = None
    tokenizer.pre_tokenizer = pre.Metaspace(prepend_scheme="first")
    spaces = decoders.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), spaces])
    tokenizer.add_tokens([AddedToken("<pad>", lstrip=True, rstrip=True, normalized=False)])
    return tokenizer


def padded() -> Tokenizer:
    """Added tokens that are looked for in normalized text."""
    tokenizer = llama2()
    tokenizer.add_tokens(
        [
            AddedToken("<pad>", lstrip=True, normalized=True),
            AddedToken("<pad> x", rstrip=True, normalized=True),
        ]
    )
    return tokenizer


def mixed() -> Tokenizer:
    """Every other kind of step."""
    tokenizer = Tokenizer(models.BPE(unk_token="?", fuse_unk=True))
    spaces = normalizers.Replace(Regex(r"\s+"), " ")
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip(), spaces]
    )
    tokenizer.pre_tokenizer = pre.Sequence(
        [
            pre.WhitespaceSplit(),
            pre.Digits(individual_digits=True),
            pre.Punctuation("merged_with_previous"),
            pre.Split("e", "merged_with_next"),
            pre.Split(Regex("[aou]"), "contiguous"),
        ]
    )
    _trained(tokenizer, 500, ["?", "[X]"])
    tokenizer.add_tokens([AddedToken("Foo", normalized=True)])
    return tokenizer


def words() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="?"))
    tokenizer.pre_tokenizer = pre.Whitespace()
    return _trained(tokenizer, 500, ["?"])


def bert() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer, tokenizer.decoder = pre.BertPreTokenizer(), decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=600, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    ends = [("[CLS]", 1), ("[SEP]", 2)]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=ends)
    return tokenizer


def cased_bert() -> Tokenizer:
    """Its other settings."""
    tokenizer = bert()
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.BertNormalizer(lowercase=False, handle_chinese_chars=False),
            normalizers.NFD(),
            normalizers.StripAccents(),
        ]
    )
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    return tokenizer


MAKERS: dict[str, Callable[[], Tokenizer]] = {
    make.__name__: make
    for make in (
        *(gpt2, llama3, llama2, metaspace, padded, mixed, words, roberta),
        *(bert, cased_bert),
    )
}


def llama2c_file() -> bytes:
    """llama2.c's `tokenizer.bin` with the tokens of `llama2`, as its export writes it."""
    vocab = json.loads(llama2().to_str())["model"]["vocab"]
    tokens = sorted(vocab, key=vocab.__getitem__)
    pieces = ["<unk>", "\n<s>\n", "\n</s>\n", *tokens[3:]]
    data = [piece.replace("▁", " ").encode() for piece in pieces]
    scores = [0.0 if number < 259 else 259.0 - number for number in range(len(data))]
    records = (
        struct.pack("<fi", score, len(piece)) + piece
        for score, piece in zip(scores, data, strict=True)
    )
    return struct.pack("<i", max(map(len, data))) + b"".join(records)


ALPHABETS = (
    *("abcdefghijklmnopqrstuvwxyz   ", "ABC'sdtrevml ", "0123456789.,", "\n\r\t  ", "äöüßéñç"),
    *("αβγδΣς ", "абвгд ", "你好世界。，", "あいうカタ", "한국어", "مرحبا", "שלום", "नमस्ते"),
    *("🙂👍🏽👨‍👩‍👧🇩🇪", "\u00a0\u2003\u3000▁", "e\u0301 a\u0308 \u1100\u1161\u200c\u200d"),
    "<s></s> <pad> Foo foo <|end|><|endoftext|>",
)
CODES = ((0x20, 0x7F), (0xA0, 0x2FFF), (0x3000, 0xD7FF), (0xE000, 0x1FBFF))
# Characters that this Python and the `tokenizers` package normalise or lower by tables of different
# versions of Unicode: those that were added later.
NEWER = {0x32FF, 0xA7F2, 0xA7F3, 0xA7F4, 0xAB69, 0x11938, *range(0x10780, 0x107C0)}
NEWER |= {0x1C89, *range(0xA7C0, 0xA7DD), *range(0x10D50, 0x10D66), *range(0x16EA0, 0x16EB9)}


def random_texts(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [_random_text(draw) for _ in range(count)]


def _random_text(draw: random.Random) -> str:
    kind = draw.random()
    if kind < 0.15:
        codes = (draw.randrange(*draw.choice(CODES)) for _ in range(draw.randrange(30)))
        return "".join(chr(code) for code in codes if code not in NEWER)
    if kind < 0.5:
        text = draw.choice(corpus())
        start = draw.randrange(len(text))
        return text[start : start + draw.randrange(80)]
    return "".join(_letters(draw, some) for some in draw.choices(ALPHABETS, k=draw.randrange(8)))


def _letters(draw: random.Random, alphabet: str) -> str:
    if draw.random() < 0.1:
        return alphabet
    return "".join(draw.choice(alphabet) for _ in range(draw.randrange(1, 6)))
