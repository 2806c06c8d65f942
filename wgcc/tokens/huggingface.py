"""Checks a `tokenizer.json` of Hugging Face's tokenizers and writes it in the form of bundles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wgcc.tokens.steps import Steps, removes_a_beginning, spaces
from wgcc.tokens.token_file import Unusable, UnusableMerge
from wgcc_runtime.tokens.pieces import normalizer

Json = dict[str, Any]

LARGEST_SIZE = 2**20
LONGEST_TOKEN = 2**16
ADDED = ("id", "content", "single_word", "lstrip", "rstrip", "normalized", "special")
FLAGS = ("byte_fallback", "fuse_unk", "ignore_merges")
AFFIXES = ("continuing_subword_prefix", "end_of_word_suffix")


def from_huggingface(file: Any) -> Json:
    """The file as bundles hold it; raises `Unusable` with everything that is wrong."""
    if not isinstance(file, dict) or not isinstance(file.get("model"), dict):
        raise Unusable("it is no tokenizer file: it has no `model`")
    steps = Steps()
    model = _model(file["model"], steps.unsupported)
    added = _added_tokens(file.get("added_tokens") or [], steps.unsupported)
    names = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
    parts = {name: file.get(name) for name in names}
    model["wgcc"] = _steps(steps, parts, added) | _ranks(file["model"], model["vocab"])
    if steps.unsupported:
        raise Unusable(
            "it uses what is not supported: " + "; ".join(dict.fromkeys(steps.unsupported))
        )
    _check_ids(model, added)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        **parts,
        "model": model,
    }


def size_of(file: Json) -> int:
    """The highest id, plus one."""
    ids = [*file["model"]["vocab"].values(), *(token["id"] for token in file["added_tokens"])]
    return int(max(ids)) + 1


def _steps(steps: Steps, parts: Mapping[str, Any], added: list[Json]) -> Json:
    made: Json = {
        "version": 1,
        "normalizer": steps.normalizer(parts["normalizer"]),
        "pre_tokenizer": steps.pre_tokenizer(parts["pre_tokenizer"]),
        "special": steps.special(parts["post_processor"]),
        "decoder": steps.decoder(parts["decoder"]),
    }
    firsts = [step for step in made["pre_tokenizer"] if step.get("prepend") == "first"]
    if firsts and removes_a_beginning(made["normalizer"]):
        steps.unsupported.append(
            "pre-tokenizer Metaspace with `first` after a normalizer that removes text"
        )
    if any(token["lstrip"] or token["rstrip"] for token in added):
        made["spaces"] = spaces()
    return made


def _ranks(model: Json, vocab: Mapping[str, int]) -> Json:
    """Ranks of tokens, in files from llama2.c (`llama2c.py`)."""
    extension = model.get("wgcc")
    ranks = extension.get("ranks") if isinstance(extension, dict) else None
    if ranks is None:
        return {}
    if not isinstance(ranks, list) or len(ranks) != max(vocab.values(), default=-1) + 1:
        raise Unusable("its `ranks` are no list of one number for each token")
    if not all(isinstance(rank, int) and -1 <= rank < LARGEST_SIZE for rank in ranks):
        raise Unusable(f"its `ranks` are no numbers from -1 to {LARGEST_SIZE - 1}")
    return {"ranks": ranks}


def _model(model: Json, unsupported: list[str]) -> Json:
    # Files of old versions do not name their model.
    kind = model.get("type", "BPE" if "merges" in model else None)
    if kind == "WordPiece":
        return _word_piece(model)
    if kind != "BPE":
        shown = kind if isinstance(kind, str) else "?"
        unsupported.append(f"model {shown} (only BPE and WordPiece are)")
        return {"vocab": {}, "merges": []}
    unsupported += [f"model BPE with {name}" for name in AFFIXES if model.get(name)]
    if model.get("dropout"):
        unsupported.append("model BPE with dropout")
    vocab = _vocab(model.get("vocab"))
    flags = {name: bool(model.get(name, False)) for name in FLAGS}
    unknown = model.get("unk_token")
    if unknown == "" and "" not in vocab:
        unknown = None
    if unknown is not None and not (isinstance(unknown, str) and unknown in vocab):
        raise Unusable(f"its `unk_token` {unknown!r:.60} is not in its vocabulary")
    merges = merge_pairs(model.get("merges"), vocab)
    nothing: Json = {"dropout": None, **dict.fromkeys(AFFIXES)}
    return {
        "type": "BPE",
        "unk_token": unknown,
        **nothing,
        **flags,
        "vocab": vocab,
        "merges": merges,
    }


def _word_piece(model: Json) -> Json:
    vocab, unknown = _vocab(model.get("vocab")), model.get("unk_token")
    if not isinstance(unknown, str) or unknown not in vocab:
        raise Unusable(f"its `unk_token` {unknown!r:.60} is not in its vocabulary")
    prefix, longest = model.get("continuing_subword_prefix"), model.get("max_input_chars_per_word")
    if not isinstance(prefix, str) or not isinstance(longest, int) or not 0 < longest <= 1000:
        raise Unusable("its prefix or `max_input_chars_per_word` (1 to 1000) is missing")
    return {
        "type": "WordPiece",
        "unk_token": unknown,
        "continuing_subword_prefix": prefix,
        "max_input_chars_per_word": longest,
        "vocab": vocab,
    }


def _vocab(vocab: Any) -> dict[str, int]:
    """A vocabulary in the order of its ids."""
    if not isinstance(vocab, dict) or not vocab:
        raise Unusable("it has no vocabulary")
    if len(vocab) > LARGEST_SIZE:
        raise Unusable(f"it has {len(vocab)} tokens; at most {LARGEST_SIZE} are supported")
    for token, number in vocab.items():
        if not _is_id(number):
            raise Unusable(
                f"the id of {token!r:.60} is {number!r:.60}, no number from 0 to {LARGEST_SIZE - 1}"
            )
        check_token(token)
    if len(set(vocab.values())) < len(vocab):
        raise Unusable("two of its tokens have the same id")
    return dict(sorted(vocab.items(), key=lambda item: item[1]))


def check_token(token: str) -> None:
    if len(token) > LONGEST_TOKEN or any(0xD800 <= ord(letter) < 0xE000 for letter in token):
        raise Unusable(f"the token {token[:40]!r} is no text of at most {LONGEST_TOKEN} characters")


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST_SIZE


def merge_pairs(merges: Any, vocab: Mapping[str, int]) -> list[list[str]]:
    """Merges as pairs; old files write `"a b"`."""
    if not isinstance(merges, list):
        raise Unusable("it has no list of merges")
    pairs = []
    for number, merge in enumerate(merges):
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not all(isinstance(t, str) for t in pair)
        ):
            raise UnusableMerge(f"merge {number} is no pair of tokens: {merge!r:.60}")
        for token in (*pair, pair[0] + pair[1]):
            if token not in vocab:
                text = f"merge {number} uses {token!r:.60}, which is not in the vocabulary"
                raise UnusableMerge(text)
        pairs.append(pair)
    return pairs


def _added_tokens(tokens: Any, unsupported: list[str]) -> list[Json]:
    if not isinstance(tokens, list) or len(tokens) > LARGEST_SIZE:
        raise Unusable("its `added_tokens` are no list")
    made = [_added_token(token) for token in tokens]
    if any(token["single_word"] for token in made):
        unsupported.append("added tokens with single_word")
    return made


def _added_token(token: Any) -> Json:
    if not isinstance(token, dict) or not _is_id(token.get("id")) or not token.get("content"):
        raise Unusable(f"an added token has no id or no content: {token!r:.80}")
    if not isinstance(token["content"], str):
        raise Unusable(f"an added token is no text: {token!r:.80}")
    check_token(token["content"])
    flags = {name: bool(token.get(name, False)) for name in ADDED[2:]}
    return {"id": token["id"], "content": token["content"], **flags}


def _check_order(vocab: Mapping[str, int], added: list[Json]) -> None:
    """The `tokenizers` package numbers added tokens itself, whatever ids the file gives them."""
    numbers = dict(vocab)
    for token in added:
        number = numbers.setdefault(token["content"], len(numbers))
        if number != token["id"]:
            raise Unusable(
                f"the added token {token['content']!r:.60} has id {token['id']}, but the"
                f" `tokenizers` package gives it {number}: ids of added tokens follow the"
                " vocabulary, in order"
            )


def _check_normalized(steps: list[Json], added: list[Json]) -> None:
    """Added tokens that are looked for in normalized text must still differ there."""
    normalize, originals = normalizer(steps), dict[str, str]()
    for token in added:
        if not token["normalized"]:
            continue
        content = token["content"]
        other = originals.setdefault(normalize(content), content)
        if other != content:
            raise Unusable(
                f"its normalizer makes added tokens equal: {other!r:.60}, {content!r:.60}"
            )
    if "" in originals:
        raise Unusable(f"its normalizer leaves nothing of the added token {originals['']!r:.60}")


def _check_ids(model: Json, added: list[Json]) -> None:
    known = {number: token for token, number in model["vocab"].items()}
    for token in added:
        number, content = token["id"], token["content"]
        if model["vocab"].get(content, number) != number or known.get(number, content) != content:
            raise Unusable(
                f"the added token {content!r:.60} and the vocabulary differ about its id"
            )
        known[number] = content
    _check_order(model["vocab"], added)
    _check_normalized(model["wgcc"]["normalizer"], added)
    special = model["wgcc"]["special"]
    ids = special["before"] + special["after"]
    wrong = [number for number in ids if not _is_id(number) or number not in known]
    if wrong:
        raise Unusable(f"its post-processor adds {wrong[0]!r:.40}, which is no id of a token")
