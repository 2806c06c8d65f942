"""A GGUF file as a folder: the model's text, packed weights, vocabulary, and a bundle of them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wgcc.bundle.content import Content
from wgcc.bundle.folder import write_files
from wgcc.compiler import compile_file
from wgcc.errors import Diagnostics, Source, WgError
from wgcc.from_gguf.architecture import Decoder, describe
from wgcc.from_gguf.evaluate import scores
from wgcc.from_gguf.read import GgufFile
from wgcc.from_gguf.tokenizer import tokenizer_json
from wgcc.from_gguf.weights import Weights
from wgcc.from_gguf.write import TokenCounts, model_name, model_text
from wgcc.lazy_numpy import Array, np
from wgcc.syntax.layout import format_source
from wgcc.tokens.huggingface import from_huggingface
from wgcc.tokens.token_file import Unusable

MODEL, WEIGHTS, TOKENS, BUNDLE = "model.wg", "weights.safetensors", "tokenizer.json", "bundle"
TEMPLATE = "chat_template.txt"
# In the metadata of the weights: files of adapters name it.
ARCHITECTURE = "architecture"
LONGEST_PROMPT = 16
# Sums of a few thousand products in f32, through all blocks, against f64.
TOLERANCE = 2e-3
# Weights that were rounded to 8 bits have errors of up to 0.4 %.
ROUNDED = 0.1


@dataclass(frozen=True, slots=True)
class ImportedDecoder:
    """The files of a folder. `difference`: how far scores are, as a share of the largest."""

    files: dict[str, Content]
    parameters: int
    difference: float | None
    notes: list[str] = field(default_factory=list)


def import_gguf(path: Path, sizes: Mapping[str, int], compares: bool = True) -> ImportedDecoder:
    """Nothing is written but to a temporary folder."""
    with GgufFile(path) as file, tempfile.TemporaryDirectory() as name:
        decoder, folder = describe(file), Path(name)
        weights = Weights(file, decoder)
        title = _title(file)
        tokens = _tokens(file, weights.notes)
        layers = {role: str(layer) for role, layer in weights.layers.items()}
        own = _sizes(sizes, decoder)
        text = model_text(decoder, layers, title, path.name, own, TOKENS if tokens else "")
        text = format_source(Source(MODEL, text), Diagnostics()) or text
        contents: dict[str, Content] = {MODEL: text.encode(), **tokens, **_chat_template(file)}
        for member, content in contents.items():
            (folder / member).write_bytes(bytes(content))
        compiled = compile_file(folder / MODEL)
        arrays = dict(weights.checked_parameters())
        bundle = compiled.files(arrays)
        difference = _difference(file, decoder, bundle, folder, own) if compares else None
        _refuse_difference(path, difference, ROUNDED if weights.notes else TOLERANCE)
        contents[WEIGHTS] = _weights_file(arrays, decoder.architecture)
        contents["README.md"] = _readme(path.name, title, decoder, weights, difference).encode()
        contents |= {f"{BUNDLE}/{member}": data for member, data in bundle.items()}
    count = sum(tensor.type.size for tensor in compiled.program.params.values())
    return ImportedDecoder(contents, count, difference, weights.notes)


def _sizes(given: Mapping[str, int], decoder: Decoder) -> TokenCounts:
    """The sizes that the user gave, else our own, which no model's context is too short for."""
    own = TokenCounts()
    names = {"T": own.sequence, "S": own.cache, "C": own.chunk}
    wrong = sorted(set(given) - set(names))
    if wrong:
        raise WgError(f"--set {wrong[0]}: the model has sizes {', '.join(names)} to set")
    for name, size in given.items():
        if not 1 <= size <= decoder.context:
            raise WgError(f"--set {name}={size}: the model reads up to {decoder.context} tokens")
    chosen = {name: given.get(name, min(size, decoder.context)) for name, size in names.items()}
    return TokenCounts(chosen["T"], chosen["S"], chosen["C"])


def _title(file: GgufFile) -> str:
    name = file.metadata.get("general.name")
    return name.strip() if isinstance(name, str) and name.strip() else file.path.stem


def _tokens(file: GgufFile, notes: list[str]) -> dict[str, Content]:
    try:
        vocabulary, why = tokenizer_json(file.metadata)
        if vocabulary is not None:
            from_huggingface(vocabulary)
    except (Unusable, WgError) as error:
        vocabulary, why = None, str(error)
    if vocabulary is None:
        notes.append(f"no vocabulary was imported: {why}; entries take and give ids")
        return {}
    return {TOKENS: json.dumps(vocabulary, ensure_ascii=False).encode()}


def _chat_template(file: GgufFile) -> dict[str, Content]:
    template = file.metadata.get("tokenizer.chat_template")
    return {TEMPLATE: template.encode()} if isinstance(template, str) else {}


def _weights_file(arrays: Mapping[str, Array], architecture: str) -> bytes:
    from safetensors.numpy import save

    return save({name: arrays[name] for name in sorted(arrays)}, {ARCHITECTURE: architecture})


def _difference(
    file: GgufFile,
    decoder: Decoder,
    bundle: Mapping[str, Content],
    folder: Path,
    sizes: TokenCounts,
) -> float:
    """The largest difference of a score to numpy's, as a share of the largest score."""
    from wgcc_runtime.loader import load

    (folder / BUNDLE).mkdir()
    write_files(bundle, folder / BUNDLE)
    ids = [(7919 * position + 1) % decoder.vocabulary for position in range(sizes.sequence)]
    length = min(LONGEST_PROMPT, sizes.sequence)
    with load(folder / BUNDLE, device="wasm") as model:
        given = model.call("score", ids=np.array([ids], np.int32))["scores"][0, :length]
    wanted = scores(file, decoder, ids[:length])
    return float(np.abs(given - wanted).max() / np.abs(wanted).max())


def _refuse_difference(path: Path, difference: float | None, tolerance: float) -> None:
    if difference is not None and not difference <= tolerance:
        text = f"{path}: its scores differ from numpy's by {difference:.2g} of the largest"
        raise WgError(f"{text}; nothing was written")


def _readme(
    file: str, title: str, decoder: Decoder, weights: Weights, difference: float | None
) -> str:
    compared = (
        "It was not compared with the file."
        if difference is None
        else f"Its scores (WebAssembly twin) are those of the file (numpy, f64) to {difference:.1g}"
        " of the largest."
    )
    return "\n".join([
        f"# {title}, imported from {file}",
        "",
        f"`{MODEL}` is the model ({decoder.architecture}, {decoder.blocks} blocks), `{WEIGHTS}`",
        f"its weights in blocks as in the file, `{BUNDLE}/` what `wgcc build` makes of both.",
        compared,
        "",
        *(f"- {note}" for note in weights.notes),
        *([""] if weights.notes else []),
        "```bash",
        f"wgcc build {MODEL} --weights {WEIGHTS} --set T=128 -o {BUNDLE}/",
        f'wgcc run {BUNDLE}/ decode --prompt "Once upon a time" -n 50',
        "```",
        "",
        f"Entries of `{model_name(title)}`: `score` takes a whole sequence; `prefill` and `decode`",
        "read a chunk and a token with a cache; `forget` empties it.",
        "",
    ])  # fmt: skip


def architecture_of(folder: Path) -> str:
    """That of an imported folder's model, as GGUF files name it."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / WEIGHTS, "numpy") as file:
            name = (file.metadata() or {}).get(ARCHITECTURE)
    except (SafetensorError, OSError) as error:
        raise WgError(f"cannot read {folder / WEIGHTS}: {error}") from None
    if not name:
        raise WgError(f"{folder / WEIGHTS} does not say its architecture: import the model again")
    return str(name)


def record(output: Path, imported: ImportedDecoder) -> dict[str, Any]:
    """The object that `--json` prints."""
    return {
        "folder": str(output),
        "parameters": imported.parameters,
        "difference": imported.difference,
        "notes": imported.notes,
    }
