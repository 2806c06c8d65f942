"""`wgcc import`: weights of another framework become weights of a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.options import json_option, model_file, model_options
from wgcc.cli.printing import plural, say, show, show_json
from wgcc.errors import WgError

if TYPE_CHECKING:
    from wgcc.importing.propose import Pair, Proposal
    from wgcc.ir.program import Program

# Files of pickled objects: reading them would run whatever code is in them.
PICKLES = (".pt", ".pth", ".bin", ".ckpt")


@click.command(name="import")
@click.argument(
    "weights",
    metavar="WEIGHTS.safetensors",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@model_file
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the weights for `wgcc build --weights` go; without it only the map is printed.",
)
@click.option(
    "--map",
    "map_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Corrections of the printed map, in its own form.",
)
@click.option("--partial", is_flag=True, help="Parameters that are not found keep first values.")
@model_options
@json_option
def command(
    weights: Path,
    model_file: Path,
    output: Path | None,
    map_file: Path | None,
    partial: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Turn WEIGHTS.safetensors, as PyTorch names and lays them out, into weights of MODEL.wg.

    Prints the map it proposes, one line per parameter; save it, correct it, give it back with
    --map. In PyTorch: safetensors.torch.save_file(model.state_dict(), "weights.safetensors").
    """
    from wgcc.importing.map_text import corrected, map_text, read_map
    from wgcc.importing.propose import Proposal, propose
    from wgcc.importing.roles import roles
    from wgcc.importing.turn import own_tensors, turn

    arrays, program = _read(weights), _program(model_file, options)
    tensors = own_tensors(program)
    shapes = {name: tensor.type.shape for name, tensor in tensors.items()}
    sources = {name: tuple(array.shape) for name, array in arrays.items()}
    proposal = propose(shapes, sources, roles(program))
    if map_file is not None:
        text = map_file.read_text(encoding="utf-8", errors="replace")
        said = read_map(text, map_file.name, shapes, sources)
        proposal = _settled(Proposal(corrected(proposal, said)), shapes, sources)
    turned = turn(proposal.pairs, tensors, arrays)
    if as_json:
        show_json(_record(proposal))
    else:
        show(map_text(proposal, shapes, sources))
    _complain(proposal, program, partial or output is None)
    if output is not None:
        _save(output, turned)
        say(f"{output}: {plural(len(turned), 'tensor')} of {program.name}")


def _settled(
    proposal: Proposal, targets: Mapping[str, Any], sources: Mapping[str, Any]
) -> Proposal:
    """With what is left over on both sides."""
    from wgcc.importing.propose import worth_reading

    order = {name: at for at, name in enumerate(targets)}
    proposal.pairs.sort(key=lambda pair: order[pair.target])
    found = {pair.target for pair in proposal.pairs}
    used = {pair.source for pair in proposal.pairs}
    proposal.missing = [name for name in targets if name not in found]
    proposal.unused = [name for name in worth_reading(sources) if name not in used]
    return proposal


def _read(path: Path) -> dict[str, Any]:
    if path.suffix in PICKLES:
        raise WgError(
            f"{path} is a pickle, which wgcc does not open; save it from PyTorch with "
            'safetensors.torch.save_file(model.state_dict(), "weights.safetensors")'
        )
    from wgcc_runtime.weights import load_weights

    return load_weights(path)[0]


def _program(path: Path, options: Mapping[str, Any]) -> Program:
    from wgcc.compiler import read_program

    return read_program(path, **options)[1]


def _complain(proposal: Proposal, program: Program, forgiving: bool) -> None:
    """Parameters must be found; state that is not starts as the model says."""
    missing = [name for name in proposal.missing if name in program.params]
    if missing and not forgiving:
        shown = ", ".join(missing[:5]) + (" …" if len(missing) > 5 else "")
        raise WgError(
            f"nothing in the file fits {shown}; name it in a map (--map), or give --partial to "
            "let it start as the model says"
        )
    unsure = [pair.target for pair in proposal.pairs if pair.others]
    if unsure:
        say(f"please check: {plural(len(unsure), 'line')} with `or …?` could be another tensor")


def _record(proposal: Proposal) -> dict[str, Any]:
    def record(pair: Pair) -> dict[str, Any]:
        turned = pair.transform.text()
        return {"tensor": pair.source, "turned": turned, "others": list(pair.others)}

    pairs = {pair.target: record(pair) for pair in proposal.pairs}
    return {"map": pairs, "missing": proposal.missing, "unused": proposal.unused}


def _save(path: Path, arrays: Mapping[str, Any]) -> None:
    from wgcc_runtime.weights import save_arrays

    save_arrays(path, arrays)
