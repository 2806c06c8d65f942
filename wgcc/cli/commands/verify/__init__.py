"""`wgcc verify`: runs the self-test recorded in a bundle, one line per stack."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wgcc.cli.bundles import compile_again, stored_plan
from wgcc.cli.failures import CHECK_FAILED, PROBLEM, failures
from wgcc.cli.options import device_option, json_option, sizes_option
from wgcc.cli.printing import say, show_json
from wgcc.cli.progress import Loading
from wgcc.errors import WgError

if TYPE_CHECKING:
    import wgcc_runtime


PYTHON = ("python", "wasm")
STACKS = (*PYTHON, "node", "deno", "chrome", "firefox")
# What compiles the WGSL of a stack, and what runs the twin there.
COMPILERS = {"python": "naga", "node": "Tint", "deno": "naga", "chrome": "Tint", "firefox": "naga"}
ENGINES = {"python": "wasmtime", "wasm": "wasmtime", "firefox": "SpiderMonkey"}


@click.command("verify")
@click.argument("bundle", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--on",
    "stacks",
    default="python",
    show_default=True,
    help="python, wasm, node, deno, chrome, firefox; several with commas.",
)
@device_option
@sizes_option
@click.option("--profile", help="Which kernels, such as gpu; default: tuned ones, if there are.")
@json_option
def command(
    bundle: Path,
    stacks: str,
    device: str | None,
    sizes: dict[str, float],
    profile: str | None,
    as_json: bool,
) -> None:
    """Compare BUNDLE with the outputs recorded when it was built.

    A bundle has its code twice: as WGSL for GPUs, and as its WebAssembly twin. Without --on and
    --device both are run, the WGSL on the best adapter; each line says what ran where, and the last
    one what did not.

    Of a large model none are recorded: python and wasm then compare one call with numpy, which
    computes it from the source in the bundle; repeat --set as the bundle was built. Exit code 3
    if an output is wrong.
    """
    code = _check_kernels(bundle)
    results: list[dict[str, Any]] = []
    for stack in dict.fromkeys(stacks.split(",")):
        if stack not in STACKS:
            raise click.BadParameter(
                f"{stack} is not one of {', '.join(STACKS)}", param_hint="--on"
            )
        for run in _runs(stack, sizes, bundle, device, profile):
            try:
                with failures():
                    result = run()
            # The other stacks are still checked.
            except WgError as error:
                say(str(error), style="error")
                code = max(code, PROBLEM)
                continue
            except click.exceptions.Exit as refused:
                code = max(code, refused.exit_code)
                continue
            results.append(result)
            code = max(code, 0 if result["passed"] else CHECK_FAILED)
    _say_rest(bundle, results)
    if as_json:
        show_json(results)
    raise click.exceptions.Exit(code)


def _runs(
    stack: str, sizes: dict[str, float], bundle: Path, device: str | None, profile: str | None
) -> Iterator[Callable[[], dict[str, Any]]]:
    """The runs of a stack: in Python, both forms of the code unless one is chosen."""
    if stack not in PYTHON:
        yield partial(_on_web, stack, bundle, device, profile)
        return
    on_python = partial(_on_python, stack, sizes, bundle)
    chosen = device or os.environ.get("WGCC_DEVICE")
    if stack == "wasm":
        yield partial(on_python, "wasm", None)
    elif chosen and chosen != "auto":
        yield partial(on_python, chosen, profile)
    else:
        if _has_twin(bundle) and profile is None:
            yield partial(on_python, "wasm", None)
        if _has_adapter(bundle) or not _has_twin(bundle):
            yield partial(on_python, "webgpu", profile)


def _has_twin(bundle: Path) -> bool:
    import wgcc_runtime

    with failures():
        return wgcc_runtime.load_plan(bundle).twin is not None


def _check_kernels(bundle: Path) -> int:
    """The exit code: all kernels must be what the plan says, also where no GPU will read them."""
    import wgcc_runtime
    from wgcc_runtime.bundle_files import open_bundle, read_kernel

    with failures():
        read = open_bundle(bundle)
    try:
        with failures():
            for kernel in wgcc_runtime.load_plan(bundle).kernels:
                read_kernel(read, kernel)
    except click.exceptions.Exit as refused:
        return refused.exit_code
    return 0


def _has_adapter(bundle: Path) -> bool:
    """Whether the best adapter can run the bundle's WGSL."""
    import wgcc_runtime
    from wgcc_runtime.device import adapters, can_run
    from wgcc_runtime.errors import WgccError

    try:
        best = adapters()[:1]
    except WgccError:
        # A broken or missing driver.
        return False
    return any(can_run(adapter, wgcc_runtime.load_plan(bundle)) for adapter in best)


def _say_rest(bundle: Path, results: list[dict[str, Any]]) -> None:
    """Which code of the bundle was not tested, and what somebody edited in it."""
    import wgcc_runtime

    if not results:
        return
    plan = wgcc_runtime.load_plan(bundle)
    codes = {result["code"] for result in results}
    if "WGSL" not in codes:
        why = "" if _has_adapter(bundle) else ", because no WebGPU adapter here can run them"
        say(f"the WGSL kernels were not run{why}: this says nothing about them", style="dim")
    if "twin" not in codes and (plan.twin or plan.no_twin):
        why = "; --on wasm runs it" if plan.twin else f": {plan.no_twin}"
        say(f"the WebAssembly twin was not run{why}", style="dim")
    if plan.edited:
        text = f"edited by hand: {', '.join(plan.edited)}"
        say(f"{text}; the twin and the recorded outputs are those of the build", style="dim")


def _on_python(
    stack: str, sizes: dict[str, float], bundle: Path, device: str, profile: str | None
) -> dict[str, Any]:
    import wgcc_runtime

    # Before the model takes its memory.
    test = _large_selftest_or_none(bundle, sizes)
    with wgcc_runtime.load(bundle, device=device, profile=profile, on_bytes=Loading()) as model:
        results = wgcc_runtime.run_selftest(model, test)
        where = f"{model.device_name}, {model.profile_name} kernels{_reductions(model)}"
        code = "twin" if model.is_twin else "WGSL"
    outputs = [
        {"entry": r.entry, "output": r.output, "error": r.error, "tolerance": r.tolerance}
        for r in results
    ]
    return _report(stack, code, where, outputs)


def _reductions(model: wgcc_runtime.Model) -> str:
    """How lanes of a workgroup combine what they found, on a GPU."""
    if model.is_twin:
        return ""
    return f", {'subgroup' if model.has_subgroups else 'barrier'} reductions"


def _large_selftest_or_none(bundle: Path, sizes: dict[str, float]) -> dict[str, Any] | None:
    """A bundle may lack a part of its source, or options that it was built with."""
    try:
        return _large_selftest(bundle, sizes)
    except WgError as error:
        problems = [item.message for item in error.diagnostics][:1] or [str(error)]
        say(f"no self-test is recorded, and none can be computed: {problems[0]}", style="dim")
        return None


def _large_selftest(bundle: Path, sizes: dict[str, float]) -> dict[str, Any] | None:
    """Made now, of a bundle that has its source and its values, but no self-test."""
    import wgcc_runtime
    from wgcc.bundle.owned import WEIGHTS

    plan = wgcc_runtime.load_plan(bundle)
    is_drawn, file = "seed" in plan.weights, bundle / WEIGHTS
    if plan.selftest.get("entries") or not bundle.is_dir() or not (is_drawn or file.is_file()):
        return None
    raw = stored_plan(bundle)
    path = bundle / raw["model"]["source"]
    if not path.is_file():
        return None
    from wgcc.bundle.emit import InitialValues, read_weights
    from wgcc.bundle.selftest import make_large_selftest

    again, made = compile_again(path, raw, sizes, plan.weights.get("seed"))
    say(f"no self-test is recorded; numpy computes one call of {plan.model}", style="dim")
    values = InitialValues(again.program) if is_drawn else read_weights(file, again.program)
    return make_large_selftest(again.program, made, values)


def _on_web(stack: str, bundle: Path, device: str | None, profile: str | None) -> dict[str, Any]:
    """Runs on the platform's WebGPU; with `device` wasm, runs the twin in JavaScript."""
    from wgcc.cli.commands.verify.stacks import run_on
    from wgcc.files import data_dir
    from wgcc_runtime.device import uses_subgroups

    job = data_dir("runtime_js") / "stacks" / "selftest.js"
    asked = {"profile": profile, "device": "wasm" if device == "wasm" else None}
    given: dict[str, Any] = {name: value for name, value in asked.items() if value}
    if not uses_subgroups():
        given["subgroups"] = False
    answer = run_on(stack, bundle, job, given)
    code = "twin" if device == "wasm" else "WGSL"
    return _report(stack, code, answer["on"], answer["outputs"])


def _report(stack: str, code: str, on: str, outputs: list[dict[str, Any]]) -> dict[str, Any]:
    """Prints one line for the stack, or one per wrong output."""
    by = ENGINES.get(stack, "V8") if code == "twin" else COMPILERS[stack]
    where = f"twin in {by}, {on}" if code == "twin" else f"WGSL through {by}, {on}"
    bad = [output for output in outputs if not output["error"] <= output["tolerance"]]
    if not outputs:
        say(f"{stack:8} {where}: the bundle records no self-test")
    for output in bad:
        say(f"{stack:8} {where}: wrong  {_text(output)}", style="error")
    if outputs and not bad:
        worst = max(outputs, key=lambda o: o["error"] / max(o["tolerance"], 1e-30))
        say(f"{stack:8} {where}: ok  {len(outputs)} outputs, worst {_text(worst)}", style="good")
    return {"stack": stack, "code": code, "by": by, "on": on, "passed": not bad, "outputs": outputs}


def _text(output: dict[str, Any]) -> str:
    error, most = output["error"], output["tolerance"]
    return f"{output['entry']}.{output['output']}: error {error:.2g} (tolerance {most:.2g})"
