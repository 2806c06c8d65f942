"""A GGUF file, or a folder of transformers, as a folder of ours: the model's text, packed weights,
vocabulary, and a bundle of them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wgcc.bundle.content import Content, safetensors_content
from wgcc.bundle.folder import write_files
from wgcc.compiler import compile_file
from wgcc.errors import Diagnostics, Source, WgError
from wgcc.from_gguf.architecture import Decoder, describe
from wgcc.from_gguf.evaluate import scores
from wgcc.from_gguf.huggingface import HuggingFaceFolder
from wgcc.from_gguf.quantise import QuantisedFile, Rules
from wgcc.from_gguf.read import GgufFile, TensorSource
from wgcc.from_gguf.weights import Weights
from wgcc.from_gguf.write import TokenCounts, model_name, model_text
from wgcc.ir.program import Program
from wgcc.lazy_numpy import Array, np
from wgcc.syntax.layout import format_source
from wgcc.tokens.huggingface import from_huggingface
from wgcc.tokens.token_file import Unusable

MODEL, WEIGHTS, TOKENS, BUNDLE = "model.wg", "weights.safetensors", "tokenizer.json", "bundle"
TEMPLATE = "chat_template.txt"
# Files of adapters name it.
ARCHITECTURE = "architecture.txt"
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


def import_model(
    path: Path, sizes: Mapping[str, int], compares: bool = True, rules: Rules = ()
) -> ImportedDecoder:
    """Nothing is written but to a temporary folder. `rules` say what is rounded to fewer bits."""
    with open_model(path) as original, tempfile.TemporaryDirectory() as name:
        decoder, folder = describe(original), Path(name)
        rounded = QuantisedFile(original, decoder, rules) if rules else None
        file: TensorSource = rounded or original
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
        notes = [*weights.notes, *(rounded.losses if rounded else ())]
        bundle = compiled.files(arrays)
        difference = None
        if compares:
            prompt = _prompt(decoder, own)
            given = _scores_of(bundle, arrays, folder / BUNDLE, prompt, own.sequence)
            difference = _difference(given, scores(file, decoder, prompt))
            _refuse_difference(path, difference, ROUNDED if weights.notes else TOLERANCE)
            if rounded:
                notes.append(_loss(given, scores(original, decoder, prompt)))
        contents[WEIGHTS] = _weights_content(compiled.program, arrays)
        contents[ARCHITECTURE] = f"{decoder.architecture}\n".encode()
        contents["README.md"] = _readme(path.name, title, decoder, notes, difference).encode()
        contents |= {f"{BUNDLE}/{member}": data for member, data in bundle.items()}
    count = sum(tensor.type.size for tensor in compiled.program.params.values())
    return ImportedDecoder(contents, count, difference, notes)


def open_model(path: Path) -> GgufFile | HuggingFaceFolder:
    return HuggingFaceFolder(path) if path.is_dir() else GgufFile(path)


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


def _title(file: TensorSource) -> str:
    name = file.metadata.get("general.name")
    return name.strip() if isinstance(name, str) and name.strip() else file.path.stem


def _tokens(file: TensorSource, notes: list[str]) -> dict[str, Content]:
    try:
        vocabulary, why = file.vocabulary()
        if vocabulary is not None:
            from_huggingface(vocabulary)
    except (Unusable, WgError) as error:
        vocabulary, why = None, str(error)
    if vocabulary is None:
        notes.append(f"no vocabulary was imported: {why}; entries take and give ids")
        return {}
    return {TOKENS: json.dumps(vocabulary, ensure_ascii=False).encode()}


def _chat_template(file: TensorSource) -> dict[str, Content]:
    template = file.chat_template()
    return {} if template is None else {TEMPLATE: template.encode()}


def _weights_content(program: Program, arrays: Mapping[str, Array]) -> Content:
    """Shares its memory with the bundle's."""
    dtypes = {name: tensor.type.dtype for name, tensor in program.params.items()}
    return safetensors_content({name: (dtypes[name], arrays[name]) for name in sorted(arrays)})


def _prompt(decoder: Decoder, sizes: TokenCounts) -> list[int]:
    length = min(LONGEST_PROMPT, sizes.sequence)
    return [(7919 * position + 1) % decoder.vocabulary for position in range(length)]


def _scores_of(
    bundle: Mapping[str, Content],
    arrays: Mapping[str, Array],
    folder: Path,
    prompt: list[int],
    sequence: int,
) -> Array:
    """Those of the bundle's twin, for the token after each of the prompt.

    It gets the weights from memory: a file of them would be read into a second copy.
    """
    from wgcc_runtime.loader import load

    folder.mkdir()
    write_files({name: data for name, data in bundle.items() if name != WEIGHTS}, folder)
    with load(folder, device="wasm", weights=dict(arrays)) as model:
        ids = np.zeros((1, sequence), np.int32)
        ids[0, : len(prompt)] = prompt
        scores: Array = model.call("score", ids=ids)["scores"][0, : len(prompt)]
    return scores


def _difference(given: Array, wanted: Array) -> float:
    """The largest difference of a score to numpy's, as a share of the largest score."""
    return float(np.abs(given - wanted).max() / np.abs(wanted).max())


def _loss(given: Array, original: Array) -> str:
    """How far the model is from that before its weights were rounded."""
    theirs, ours = (_log_softmax(part) for part in (original, given))
    divergence = float((np.exp(theirs) * (theirs - ours)).sum(axis=1).mean())
    same = int((given.argmax(axis=1) == original.argmax(axis=1)).sum())
    share = f"{_difference(given, original):.1g}"
    text = f"rounding changes scores by up to {share} of the largest (Kullback-Leibler divergence"
    return f"{text} {divergence:.2g}); the best token is the same {same} times of {len(given)}"


def _log_softmax(scores: Array) -> Array:
    shifted = scores - scores.max(axis=1, keepdims=True)
    logarithms: Array = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return logarithms


def _refuse_difference(path: Path, difference: float | None, tolerance: float) -> None:
    if difference is not None and not difference <= tolerance:
        text = f"{path}: its scores differ from numpy's by {difference:.2g} of the largest"
        raise WgError(f"{text}; nothing was written")


def _readme(
    file: str, title: str, decoder: Decoder, notes: list[str], difference: float | None
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
        *(f"- {note}" for note in notes),
        *([""] if notes else []),
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
    path = folder / ARCHITECTURE
    if not path.is_file():
        raise WgError(f"{folder} has no {ARCHITECTURE}: import the model again")
    return path.read_text(encoding="utf-8").strip()


def record(output: Path, imported: ImportedDecoder) -> dict[str, Any]:
    """The object that `--json` prints."""
    return {
        "folder": str(output),
        "parameters": imported.parameters,
        "difference": imported.difference,
        "notes": imported.notes,
    }
