"""`wgcc import`: converts weights of another framework to weights of a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.commands.import_.gguf_models import import_decoder
from wgcc.cli.commands.import_.onnx_models import (
    comparing,
    import_model,
    model_settings,
    onnx_options,
    wishes,
)
from wgcc.cli.options import json_option, model_options
from wgcc.cli.printing import plural, say, show, show_json
from wgcc.errors import WgError
from wgcc.files import LARGEST_TEXT, read_bytes

if TYPE_CHECKING:
    from wgcc.importing.propose import Pair, Proposal, Rules, Undecided
    from wgcc.importing.transforms import FileWeights, Origin, Shape
    from wgcc.ir.program import Program


_HELP = """\
Import an ONNX model, a language model, or PyTorch weights for a model of yours.

wgcc import MODEL.onnx -o FOLDER writes a model file, its weights, a README and a bundle, after
comparing the bundle with the original on the same inputs, unless --no-compare is given. Sizes that
the file leaves open are given with --set, inputs that are to be constants with --input. What cannot
be imported is listed, and nothing is written.

wgcc import MODEL.gguf -o FOLDER does the same for language models (llama, mistral, qwen2, qwen3,
gemma, phi2, phi3 and gpt2): weights of 4 and 8 bits stay packed, the vocabulary and the chat
template come with them, and scores are compared with those of an evaluation in numpy. --set T=128
sets the tokens of a sequence, S those of the cache, C those of a chunk of the prompt.

wgcc import MODEL_FOLDER -o FOLDER reads a folder of Hugging Face's transformers: config.json,
*.safetensors, tokenizer.json. --quantise q4 "blocks.*" --quantise q8 "head" rounds layers to 4 or
8 bits, and says what that costs.

wgcc import WEIGHTS MODEL.wg converts weights of a .safetensors, .npz or .onnx file, of a .pt file
where PyTorch is installed, which reads them without running code, of a .weights.h5 or .keras file
where h5py is installed, or of a .bin file of llama2.c.

WEIGHTS.safetensors holds tensors as PyTorch names and stores them:
safetensors.torch.save_file(model.state_dict(), "weights.safetensors").

Prints a map with one rule per parameter of MODEL.wg. Names decide which tensor a parameter is;
how the model uses the parameter decides the order of its axes. A rule that is not decided is
printed as `?` with the possible choices: replace each `?`, or write your own rules, and give the
file with --map. State, such as a cache, is filled only by rules in that file, except for the
running statistics of batch norm.

Lines with `# assumed` state what the file could not show, such as how it stores square matrices.
Exit code 1, and nothing is written, if a parameter is undecided, or if one is not found and
--partial is not given.

\b
Rules, one per line:
  PARAMETER <- TENSOR            as it is stored
  PARAMETER <- TENSOR, CHANGES   changed, as in the examples
  PARAMETER                      keeps its initial values
  blocks.*.up.w <- h.*.fc.weight, transposed
                                 `*` stands for the same text on both sides

\b
Changes, separated by commas and applied in this order:
  rows 0:64, columns 0:64        a part of the first, of the second axis
  flipped                        all axes after the first two reversed (ConvTranspose)
  transposed, hwio, axes 2,1,0   axes in another order; hwio is axes 2,3,1,0 (Conv2d)
  reshaped                       the same elements in the parameter's shape
  gates zrn                      the file's order of the gates of a GRU (wgcc's is rzn), or of an
                                 LSTM (wgcc's is ifgo), along the last axis of the parameter
  rope 8                         queries or keys of 8 heads whose rotary positions turn neighbours
                                 (Meta, llama2.c), for `rope`, which turns halves

\b
Example of a file for --map:
  # a Linear, a Conv1d kept as [width, inputs, outputs], a third of nn.MultiheadAttention
  fc.w      <- classifier.weight, transposed
  conv.w    <- features.0.weight, axes 2,1,0
  attn.wk.w <- attn.in_proj_weight, rows 64:128, transposed

\b
Rules in a file rules.toml, the form that --propose rules.toml writes: the first two are those of
the example, the others show a split, an order of gates and a parameter that stays as it is:
  "classifier.weight" = { to = "fc.w", transpose = true }
  "features.0.weight" = { to = "conv.w", axes = [2, 1, 0] }
  "h.*.attn.c_attn.weight" = { to = ["h.*.q.w", "h.*.k.w", "h.*.v.w"], split = 1 }
  "rnn.weight_ih" = { to = "rnn.w_x", transpose = true, gates = "zrn" }
  keep = ["head.w"]
"""


@click.command(name="import", help=_HELP)
@click.argument(
    "weights",
    metavar="MODEL.onnx | MODEL.gguf | MODEL_FOLDER | WEIGHTS.safetensors",
    type=click.Path(exists=True, path_type=Path),
)
@click.argument(
    "model_file",
    metavar="[MODEL.wg]",
    required=False,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Folder for an imported model; or file for `wgcc build --weights`, without which only the "
    "map is printed.",
)
@click.option(
    "--map",
    "map_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Rules that correct or complete the printed map.",
)
@click.option(
    "--propose",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write the map to, for editing: as TOML if it ends in .toml, else as printed.",
)
@click.option(
    "--partial", is_flag=True, help="Parameters that are not found keep their initial values."
)
@click.option(
    "--quantise",
    type=(click.Choice(["q8", "q4"]), str),
    multiple=True,
    metavar="BITS LAYERS",
    help="Of a language model: rounds layers, such as `blocks.*.mlp.*`, to 8 or 4 bits.",
)
@onnx_options
@model_options
@json_option
def command(
    weights: Path,
    model_file: Path | None,
    output: Path | None,
    map_file: Path | None,
    propose: Path | None,
    partial: bool,
    quantise: tuple[tuple[str, str], ...],
    as_json: bool,
    **options: Any,
) -> None:
    """`_HELP` is what users read."""
    if model_file is None:
        given = {**options, "map_file": map_file, "propose": propose, "partial": partial}
        _import_whole(weights, output, {**given, "quantise": quantise}, as_json)
        return
    if weights.is_dir():
        raise click.UsageError(f"{weights} is a folder: give a file of weights for {model_file}")
    if quantise:
        raise click.UsageError("--quantise is for language models: a GGUF file or a folder")
    if output is not None and output.is_dir():
        raise click.BadParameter(f"{output} is a folder", param_hint="-o")
    if propose is not None and propose.exists():
        raise click.BadParameter(f"{propose} is there already", param_hint="--propose")
    from wgcc.importing.map_text import map_text
    from wgcc.importing.propose import join_attention
    from wgcc.importing.weight_files import convert, own_tensors

    program = _program(model_file, model_settings(options))
    tensors = own_tensors(program)
    shapes = {name: tensor.type.shape for name, tensor in tensors.items()}
    read = join_attention(_read(weights), shapes)
    arrays = read.arrays
    sources = {name: tuple(array.shape) for name, array in arrays.items()}
    proposal = _proposal(program, shapes, sources, map_file, read.origin)
    if propose is not None:
        _write_map(propose, proposal, shapes, sources)
    converted = convert(proposal.pairs, tensors, arrays)
    if as_json:
        show_json(_record(proposal))
    else:
        show(map_text(proposal, shapes, sources))
    for note in read.origin.notes:
        say(note)
    _complain(proposal, program, partial)
    if output is not None:
        _save(output, converted)
        say(f"{output}: {plural(len(converted), 'tensor')} of {program.name}")


def _import_whole(
    path: Path, output: Path | None, options: Mapping[str, Any], as_json: bool
) -> None:
    """A file or folder that holds a model, not weights alone."""
    from wgcc.from_gguf.huggingface import is_huggingface
    from wgcc.importing.weight_files import is_gguf

    if is_huggingface(path) if path.is_dir() else is_gguf(path):
        import_decoder(path, output, options, as_json)
        return
    if path.is_dir():
        text = "is a folder without config.json, as Hugging Face's transformers write it"
        raise click.UsageError(f"{path} {text}")
    if options["quantise"]:
        raise click.UsageError("--quantise is for language models: a GGUF file or a folder")
    import_model(path, output, wishes(options), comparing(options), as_json)


def _proposal(
    program: Program,
    shapes: Mapping[str, Shape],
    sources: Mapping[str, Shape],
    map_file: Path | None,
    origin: Origin,
) -> Proposal:
    from wgcc.importing.propose import Model, propose
    from wgcc.importing.uses import uses

    rules = _rules(map_file, shapes, sources) if map_file is not None else {}
    params = {name: shapes[name] for name in program.params}
    states = {name: shape for name, shape in shapes.items() if name not in params}
    return propose(Model(params, states, uses(program)), sources, rules, origin)


def _rules(map_file: Path, shapes: Mapping[str, Shape], sources: Mapping[str, Shape]) -> Rules:
    from wgcc.importing.map_text import read_map
    from wgcc.importing.map_toml import read_toml_map

    data = read_bytes(map_file, LARGEST_TEXT, "a map")
    text = data.decode("utf-8", errors="replace")
    if map_file.suffix.lower() != ".toml":
        return read_map(text, map_file.name, shapes, sources)
    toml_map = read_toml_map(text, map_file.name, shapes, sources)
    for note in toml_map.notes:
        say(note)
    return toml_map.rules


def _write_map(
    path: Path, proposal: Proposal, shapes: Mapping[str, Shape], sources: Mapping[str, Shape]
) -> None:
    from wgcc.importing.map_text import map_text
    from wgcc.importing.map_toml import toml_text
    from wgcc_runtime.replace_file import replace_file

    written = toml_text if path.suffix.lower() == ".toml" else map_text
    replace_file(path, (written(proposal, shapes, sources).rstrip() + "\n").encode())
    say(f"{path}: the map; edit it, and give it with --map")


def _read(path: Path) -> FileWeights:
    if path.suffix.lower() == ".onnx":
        from wgcc.from_onnx.model_file import initialisers, read_model
        from wgcc.importing.onnx_weights import named_weights

        graph = read_model(path).graph
        return named_weights(graph, initialisers(graph))
    from wgcc.importing.weight_files import read_weights

    return read_weights(path)


def _program(path: Path, options: Mapping[str, Any]) -> Program:
    from wgcc.compiler import read_program

    return read_program(path, **options)[1]


def _complain(proposal: Proposal, program: Program, partial: bool) -> None:
    """Parameters must be found; running statistics may be missing and keep their initial values."""
    from wgcc.importing.map_text import listing
    from wgcc.importing.matching import ORDER, SHAPE

    undecided = [item.target for item in proposal.undecided]
    if undecided:
        raise WgError(
            f"not decided: {listing(undecided)}; replace each `?` of the map, and give it with "
            "--map (a parameter without `<- …` keeps its initial values)"
        )
    missing = [name for name in proposal.missing if name in program.params]
    if missing and not partial:
        raise WgError(
            f"no tensor in the file fits {listing(missing)}; name it in a map (--map), or give "
            "--partial to keep its initial values"
        )
    for criterion, text in ((SHAPE, "by its shape only"), (ORDER, "by the order of layers only")):
        names = [pair.target for pair in proposal.pairs if pair.found == criterion]
        if names:
            say(f"please check: {listing(names)} matched {text}")
    assumed = [pair.target for pair in proposal.pairs if pair.assumed]
    if assumed:
        say(f"please check how the file stores {listing(assumed)}: see `# assumed`")


def _record(proposal: Proposal) -> dict[str, Any]:
    def record(pair: Pair) -> dict[str, Any]:
        changes = pair.transform.text()
        return {
            "tensor": pair.source, "changes": changes, "found": pair.found, "assumed": pair.assumed,
        }  # fmt: skip

    def choices(item: Undecided) -> dict[str, Any]:
        ways = [{"tensor": source, "changes": way.text()} for source, way in item.choices]
        return {"choices": ways, "reason": item.reason}

    return {
        "map": {pair.target: record(pair) for pair in proposal.pairs},
        "undecided": {item.target: choices(item) for item in proposal.undecided},
        "missing": list(proposal.missing),
        "kept": proposal.kept,
        "unused": proposal.unused,
        "idle": proposal.idle,
    }


def _save(path: Path, arrays: Mapping[str, Any]) -> None:
    from wgcc_runtime.weights import save_arrays

    save_arrays(path, arrays)
