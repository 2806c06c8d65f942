"""Texts that are hard to encode: many languages, and characters of every kind."""

from __future__ import annotations

import random
from collections.abc import Callable

SENTENCES = (
    "The quick brown fox jumps over the lazy dog, doesn't it? I'LL say they've 12345 of them!",
    "Größe, Übermut und Straße: „Zwölf Boxkämpfer jagen Viktor quer über den Sylter Deich.“",
    "Le cœur déçu mais l'âme plutôt naïve, Louÿs rêva de crapaüter en canoë.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. 1 000 000 рублей",
    "Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία. ΟΔΥΣΣΕΥΣ",
    "我能吞下玻璃而不伤身体。今天是2026年11月17日，天气很好！",
    "いろはにほへと ちりぬるを 色は匂へど散りぬるを。カタカナ ｶﾀｶﾅ",
    "키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다.",
    "هذا نص عربي مع أرقام ١٢٣٤ و تشكيل مُحَمَّد",
    "זה כיף סתם לשמוע איך תנצח קרפד עץ טוב בגן.",
    "नमस्ते दुनिया, क्या हाल है? १२३",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า ๑๒๓",
    "Pchnąć w tę łódź jeża lub ośm skrzyń fig. Žluťoučký kůň.",
    "Tiếng Việt có dấu: Một con vịt xoè ra hai cái cánh.",
    "Emoji: 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪 ❤️ 😀😀😀",
    "Math: ∀x∈ℝ ⌈x⌉ = −⌊−x⌋, ½ ² ³ ⅷ Ⅷ ①②③ ﬁ ﬀ ㎞ Ａｂｃ",
    "def main(argv):\n\treturn {k: v for k, v in argv.items()}  # 0x1F\n\n\n",
    "Zalgo: H̷e̴l̶l̵o̸ é é \u0130 \u0131 ǅ",
    "<s>special <|endoftext|> tokens </s> and <unk> [MASK]  <pad>",
    "tabs\t\tand\r\nlines\r\n\r\n  trailing   ",
)
# Planes and blocks from which single characters are drawn; all were assigned long ago.
BLOCKS = (
    (0x20, 0x7E), (0x20, 0x7E), (0x00, 0x1F), (0xA0, 0x24F), (0x250, 0x2FF), (0x300, 0x36F),
    (0x370, 0x377), (0x391, 0x3A1), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x620, 0x64A), (0x660, 0x669),
    (0x904, 0x939), (0xE01, 0xE3A), (0x1E00, 0x1EFF), (0x2000, 0x206F), (0x20A0, 0x20B9),
    (0x2150, 0x2188), (0x2190, 0x21FF), (0x2460, 0x24FF), (0x2581, 0x2581), (0x3000, 0x303F),
    (0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0xE000, 0xE010),
    (0xFB00, 0xFB06), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFF01, 0xFF5E), (0xFFFD, 0xFFFD),
    (0x10330, 0x1034A), (0x1D400, 0x1D454), (0x1F300, 0x1F5FF), (0x1F600, 0x1F64F),
    (0x20000, 0x2A6D6),
)  # fmt: skip
BITS = (
    " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u2003", "\u3000", "\u0085", "'s",
    "'LL", "'re", "'", "’s", "0", "123", "1234567", "٣", "½", "▁", "▁▁", "<s>", "</s>",
    "<|endoftext|>", "<unk>", "[MASK]", "<0x41>", "\u200d", "\ufe0f", "...", "---", "aaaaaaaa",
    "\x00", "ſ", "K",
)  # fmt: skip


def hard_texts(count: int, seed: int) -> list[str]:
    """Sentences of many languages, parts of them, and random characters, in all mixtures."""
    draw = random.Random(seed)
    fixed = ["", " ", "  ", "\n", *SENTENCES, *(s.upper() for s in SENTENCES), " ".join(SENTENCES)]
    return [*fixed, *(_text(draw) for _ in range(count - len(fixed)))]


def _text(draw: random.Random) -> str:
    return "".join(draw.choice(_MAKERS)(draw) for _ in range(draw.randint(1, 8)))


def _part(draw: random.Random) -> str:
    sentence = draw.choice(SENTENCES)
    start = draw.randrange(len(sentence))
    return sentence[start : start + draw.randint(1, 30)]


def _letters(draw: random.Random) -> str:
    low, high = draw.choice(BLOCKS)
    return "".join(chr(draw.randint(low, high)) for _ in range(draw.randint(1, 6)))


def _bits(draw: random.Random) -> str:
    return "".join(draw.choice(BITS) for _ in range(draw.randint(1, 3)))


_MAKERS: tuple[Callable[[random.Random], str], ...] = (_part, _part, _letters, _bits)
