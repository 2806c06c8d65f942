"""Records tests/token_cases: vocabularies as bundles hold them, with texts and their ids.

Both runtimes are tested on them. Ids are those of the `tokenizers` package; for llama2.c's file,
those of `tests/support/llama2c_encoding.py`.

    python tests/support/record_token_cases.py
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from adapters import ROOT
from llama2c_encoding import Llama2cFile
from token_makers import LANGUAGES, MAKERS, llama2c_file, random_texts
from wgcc.tokens.read import read_tokens

FOLDER = ROOT / "tests" / "token_cases"
TEXTS = (
    *(
        "",
        " ",
        "  ",
        "Hello world",
        " Hello  world ",
        "it's IT'S we'll",
        "12345 6.78",
        "a\r\n\r\n b\n",
    ),
    *(
        LANGUAGES,
        "🙂",
        "👨‍👩‍👧",
        "e\u0301",
        "Σας ΣΑΣ",
        "<s>x</s>",
        "a <|end|> b<|endoftext|>",
        "x <pad>  y",
    ),
    *("a ▁ b", "\u00a0\u3000x", "foo Foo", "don\u2019t", "x" * 50, "\t\tif x:\n\t\t\treturn 1"),
)


def record(name: str, source: bytes, encode: Callable[[str, bool], list[int]], decode: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(source)
        text = read_tokens([path]).text
    (FOLDER / f"{name}.tokenizer.json").write_text(text, encoding="utf-8")
    cases = [_case(one, encode, decode) for one in (*TEXTS, *random_texts(20, 7))]
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    head = f'{{"tokenizer": "{name}.tokenizer.json", "cases": [\n'
    (FOLDER / f"{name}.json").write_text(f"{head}{lines}\n]}}\n", encoding="utf-8")


def _case(text: str, encode: Callable[[str, bool], list[int]], decode: Any) -> dict[str, Any]:
    ids = encode(text, True)
    return {"text": text, "ids": ids, "plain": encode(text, False), "decoded": decode(ids)}


def main() -> None:
    for name, make in MAKERS.items():
        tokenizer: Tokenizer = make()

        def encode(text: str, special: bool, tokenizer: Tokenizer = tokenizer) -> list[int]:
            return list(tokenizer.encode(text, add_special_tokens=special).ids)

        record(name, tokenizer.to_str().encode(), encode, tokenizer.decode)
    file = Llama2cFile(llama2c_file())
    record("llama2c", llama2c_file(), file.encode, file.decode)


if __name__ == "__main__":
    main()
