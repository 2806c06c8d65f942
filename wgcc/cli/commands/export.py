"""`wgcc export`: a bundle's entries for other programs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli import shell_completion
from wgcc.cli.bundles import compile_again, stored_plan
from wgcc.cli.options import BundleFolder, sizes_option
from wgcc.cli.printing import say
from wgcc.errors import WgError
from wgcc.lazy_numpy import np

if TYPE_CHECKING:
    from wgcc.ir.program import Program


@click.command("export")
@click.argument("bundle", type=BundleFolder())
@click.option(
    "--to",
    "form",
    type=click.Choice(["onnx", "torch", "peft", "gguf"]),
    default="onnx",
    show_default=True,
)
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path),
    help="The file to write; with --to peft the folder.",
)  # fmt: skip
@click.option(
    "--entry",
    default="predict",
    show_default=True,
    shell_complete=shell_completion.entries,
    help="Which entry to export.",
)
@click.option(
    "--weights",
    type=click.Path(exists=True, path_type=Path),
    help="Parameters to export instead of the bundle's own, such as a checkpoint or an adapter.",
)
@click.option(
    "--source",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The model file, needed if it imports others.",
)
@sizes_option
def command(
    bundle: Path,
    form: str,
    output: Path,
    entry: str,
    weights: Path | None,
    source: Path | None,
    sizes: dict[str, float],
) -> None:
    """Write an entry of BUNDLE that only computes, with its weights, for other programs.

    --to onnx: a model of opset 20. It is checked by ONNX and run once: its outputs must be those of
    the bundle. --to torch: a PyTorch module as Python text, and beside it its state dict
    (.safetensors). --to peft, --to gguf: the corrections of a language model that `wgcc train
    FOLDER --lora` made, of the bundle FOLDER/lora, for PEFT and llama.cpp.
    """
    if output.is_dir() and form != "peft":
        raise click.BadParameter(f"{output} is a folder", param_hint="-o")
    if form in ("peft", "gguf"):
        _adapter(bundle, weights, form, output)
        return
    program = _program(bundle, source, sizes)
    if entry not in program.entries:
        raise WgError(f"there is no entry {entry}: the bundle has {', '.join(program.entries)}")
    if form == "torch":
        _to_torch(program, entry, _weights(bundle, weights), output)
    else:
        _to_onnx(bundle, weights, program, entry, output)


def _adapter(bundle: Path, weights: Path | None, form: str, output: Path) -> None:
    from wgcc.cli.adapters import head_size, load_with
    from wgcc.cli.failures import failures
    from wgcc.from_gguf.adapter_file import gguf_adapter
    from wgcc.from_gguf.folder import architecture_of
    from wgcc_runtime.replace_file import replace_file

    with failures(), load_with(bundle, weights, device="wasm") as model:
        adapter = model.adapter()
        if form == "peft":
            adapter.save(output)
        else:
            data = gguf_adapter(adapter, architecture_of(bundle.parent), head_size(model.plan))
            replace_file(output, data)
    rank = next(iter(adapter.layers.values())).rank
    say(f"{output}: corrections of {len(adapter.layers)} layers, of rank {rank}")


def _to_torch(program: Program, entry: str, weights: Mapping[str, Any], output: Path) -> None:
    from wgcc.to_torch.module_text import module_text, stored_names
    from wgcc_runtime.replace_file import replace_file
    from wgcc_runtime.weights import save_arrays

    if output.suffix != ".py":
        raise click.BadParameter(f"{output} is no .py file", param_hint="-o")
    file = output.with_suffix(".safetensors")
    text = module_text(program, entry, file.name)
    graph = program.entries[entry]
    save_arrays(file, {stored: weights[name] for name, stored in stored_names(graph).items()})
    replace_file(output, text.encode())
    say(f"{output}: a module of {len(text.splitlines())} lines; its state dict is {file}")


def _to_onnx(
    bundle: Path, weights: Path | None, program: Program, entry: str, output: Path
) -> None:
    from wgcc.from_onnx.model_file import need_onnx
    from wgcc.to_onnx.export import export_entry
    from wgcc_runtime.replace_file import replace_file

    need_onnx()
    model = export_entry(program, entry, _weights(bundle, weights))
    differences = _compare(bundle, weights, entry, model, program)
    replace_file(output, model.SerializeToString())
    for name, largest in differences.items():
        say(f"{name}: differs by at most {largest:.3g} from the bundle on random inputs")
    say(f"{output}: {len(model.graph.node)} nodes, opset {model.opset_import[0].version}")


def _program(bundle: Path, source: Path | None, sizes: Mapping[str, float]) -> Program:
    from wgcc.compiler import read_program

    plan = stored_plan(bundle)
    path = source or bundle / plan["model"]["source"]
    compile_again(path, plan, sizes)
    return read_program(path, sizes=dict(sizes), model=plan["model"]["name"], capture=None)[1]


def _weights(bundle: Path, given: Path | None) -> Mapping[str, Any]:
    """All parameters and state, as a runtime holds them."""
    import wgcc_runtime

    with wgcc_runtime.load(bundle, device="wasm", weights=given) as model:
        return {**model.params(), **model.state()}


def _compare(
    bundle: Path, weights: Path | None, entry: str, model: Any, program: Program
) -> dict[str, float]:
    """The largest difference of each output, on random inputs."""
    import wgcc_runtime
    from wgcc.from_onnx.compare import draw
    from wgcc.from_onnx.original import run_onnx
    from wgcc.to_onnx.emitter import NUMPY

    generator = np.random.default_rng(0)
    graph = program.entries[entry]
    inputs = {}
    for value in graph.inputs:
        limits = graph.entry.ranges[value.name][:2] if value.name in graph.entry.ranges else None
        drawn = draw(generator, value.dtype, value.shape, limits)
        inputs[value.name] = drawn.astype(NUMPY[value.dtype])
    with wgcc_runtime.load(bundle, device="wasm", weights=weights) as loaded:
        wanted = list(getattr(loaded, entry)(**inputs).values())
    outputs, runner = run_onnx(model, inputs)
    gaps = {}
    for (name, array), right in zip(outputs.items(), wanted, strict=True):
        gaps[name] = float(np.abs(array.astype(np.float64) - right).max(initial=0.0))
        if gaps[name] > 1e-4 * max(1.0, float(np.abs(right).max(initial=0.0))):
            text = f"{name} differs by {gaps[name]:.3g} in {runner}: nothing was written"
            raise WgError(text)
    return gaps
