"""The same training steps in wgcc, jax-js, tfjs and PyTorch, measured alternately on this machine.

    python tests/bench/run.py [--models a,b,c] [--setups 'node-*,python-*'] [--json FILE]

All libraries get the same shapes, batch and Adam, and read the loss at every step; wgcc also tests
its inputs and, after each step, for NaN. jax-js and tfjs also start from the same weights. WebGPU
runs on SwiftShader (Chromium) and lavapipe (Python), WebAssembly in one thread unless the name of a
setup ends in another number. Blocks of steps of all of them alternate, so that noise affects them
alike; figures are medians. The other libraries are installed into .cache/peers.

The examples are measured with wgcc alone: the WebAssembly twin beside the WGSL kernels of the same
bundle.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from shutil import copy
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
for place in (ROOT, ROOT / "runtime_py", ROOT / "tests" / "support", FOLDER):
    sys.path.insert(0, str(place))

from batches import write_batch  # noqa: E402
from builds import measure_builds  # noqa: E402
from peers import CACHE, need_npm, say  # noqa: E402
from report import report  # noqa: E402
from setups import NODE, SETUPS, WGCC, Running, Setup, start  # noqa: E402

from adapters import use_software_drivers  # noqa: E402

# The entry of each model that is measured.
MODELS = {"a": "train", "b": "train", "c": "train", "matmul": "multiply"}
EXAMPLES = {"cnn": "train", "mamba": "train", "gqa_decode": "decode", "lora": "train"}
ENTRIES = MODELS | EXAMPLES
BUILT = ("a", "b", "c")


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    use_software_drivers()
    found: dict[str, Any] = {"models": {}, "builds": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build_pages({setup.library for setup in options.setups}, folder)
        for model in options.models:
            prepare(model, folder)
            found["models"][model] = measure(model, folder, options)
        for model in [name for name in BUILT if name in options.models and options.builds]:
            say(f"{model}: wgcc build with and without the twin")
            source = source_of(model)
            found["builds"][model] = measure_builds(source, folder / "built", options.builds)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    print(report(found))
    return 0


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", type=_models, default=list(ENTRIES))
    parser.add_argument("--setups", type=_setups, default=list(SETUPS), help="names or patterns")
    parser.add_argument("--steps", type=int, default=200, help="most timed steps of a setup")
    parser.add_argument("--rounds", type=int, default=5, help="blocks of steps per setup")
    parser.add_argument("--seconds", type=float, default=1.5, help="time of a block")
    parser.add_argument("--opens", type=int, default=3, help="pages opened to time their start")
    parser.add_argument("--builds", type=int, default=5, help="builds of each model; 0: none")
    parser.add_argument("--kernels", action="store_true", help="also tables of wgcc's kernels")
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    return parser.parse_args(arguments)


def _models(text: str) -> list[str]:
    chosen = [name for name in text.split(",") if name]
    for name in chosen:
        if name not in ENTRIES:
            raise argparse.ArgumentTypeError(f"no {name}; there are {', '.join(ENTRIES)}")
    return chosen


def _setups(text: str) -> list[Setup]:
    patterns = text.split(",")
    chosen = [one for one in SETUPS if any(fnmatch(one.name, pattern) for pattern in patterns)]
    if not chosen:
        names = ", ".join(one.name for one in SETUPS)
        raise argparse.ArgumentTypeError(f"no {text}; there are {names}")
    return chosen


# ---- what the setups load


def source_of(model: str) -> Path:
    if model in EXAMPLES:
        return ROOT / "examples" / model / "model.wg"
    return FOLDER / "models" / f"{model}.wg"


def prepare(model: str, folder: Path) -> None:
    """The bundle as a site would serve it, with the runtime minified; and the batch."""
    from web_stacks import build_web

    bundle = build_web(source_of(model), folder / "bundles" / model)
    scripts = [str(path) for path in bundle.rglob("*.js")]
    places = (f"--outdir={bundle}", f"--outbase={bundle}")
    esbuild(*scripts, "--minify", *places, "--allow-overwrite")
    write_batch(model, ENTRIES[model], folder)


def build_pages(libraries: set[str], folder: Path) -> None:
    """One script per library, as a bundler makes it: for pages, and for Node."""
    chosen = sorted(libraries & {"wgcc", "jax", "tfjs"})
    if set(chosen) - {"wgcc"}:
        need_npm()
        (folder / "tfjs").mkdir()
        for path in CACHE.glob("node_modules/@tensorflow/tfjs-backend-wasm/dist/*.wasm"):
            copy(path, folder / "tfjs")
    scripts = [str(FOLDER / "pages" / f"{name}.js") for name in chosen]
    settings = ("--bundle", "--minify", "--splitting", "--format=esm")
    esbuild(*scripts, *settings, f"--outdir={folder}")
    # tfjs looks for Node's older names.
    names = "import {createRequire} from 'module';const require=createRequire('/'),__dirname='/';"
    node = ("--platform=node", "--main-fields=module,main", f"--banner:js={names}")
    esbuild(*scripts, *settings, *node, f"--outdir={folder / 'node'}")
    (folder / "node" / "package.json").write_text('{"type": "module"}')
    for name in chosen:
        script = f'<script type="module" src="{name}.js"></script>'
        (folder / f"{name}.html").write_text(f"<!doctype html><title>{name}</title>{script}")
    (folder / "empty.html").write_text("<!doctype html><title>empty</title>")


def esbuild(*arguments: str) -> None:
    program = NODE / "node_modules" / ".bin" / "esbuild"
    paths = {"NODE_PATH": str(CACHE / "node_modules")}
    subprocess.run(
        [str(program), *arguments, "--log-level=warning"], check=True, env={**os.environ, **paths}
    )


# ---- measuring


def measure(model: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What each setup did: all of them are open at the same time, and alternate."""
    entry = ENTRIES[model]
    chosen = [one for one in options.setups if model in MODELS or one in WGCC]
    first = first_steps(model, folder, chosen, options.opens - 1)
    with opened(chosen, folder, model, entry) as setups:
        say(f"{model}: {', '.join(running.setup.name for running in setups)}")
        for round_number in range(-1, options.rounds):
            for running in setups:
                if not _is_done(running, options.seconds):
                    measure_block(running, round_number, options)
        if options.kernels:
            add_kernels(setups, folder / "bundles" / model, entry)
    found = {running.setup.name: running.seen for running in setups}
    for name, times in first.items():
        found[name]["firstSteps"] = [*times, found[name].get("firstStep", 0.0)]
    return found


def first_steps(
    model: str, folder: Path, setups: list[Setup], repeats: int
) -> dict[str, list[float]]:
    """Milliseconds from opening a page, with nothing cached, to the end of its first step."""
    pages = [setup for setup in setups if setup.where == "chromium"]
    times: dict[str, list[float]] = {setup.name: [] for setup in pages}
    for _ in range(repeats):
        for setup in pages:
            with opened([setup], folder, model, ENTRIES[model]) as (running,):
                if "failed" not in running.seen:
                    times[setup.name].append(running.seen["firstStep"])
    return times


@contextmanager
def opened(setups: list[Setup], folder: Path, model: str, entry: str) -> Iterator[list[Running]]:
    running: list[Running] = []
    try:
        for setup in setups:
            started = start(setup, folder, model, entry)
            if started:
                running.append(started)
        yield running
    finally:
        for one in running:
            one.close()


def measure_block(running: Running, round_number: int, options: argparse.Namespace) -> None:
    """The block before the first warms up; a slow setup makes fewer steps, but some in each."""
    if round_number < 0:
        running.block(options.seconds / 5, 20, counted=False)
    else:
        running.block(options.seconds, max(1, options.steps // options.rounds))


def _is_done(running: Running, seconds: float) -> bool:
    """One step of a very slow setup is enough."""
    seen = running.seen
    return "failed" in seen or any(time > 5000 * seconds for time in seen["ms"])


def add_kernels(setups: list[Running], bundle: Path, entry: str) -> None:
    plan = json.loads((bundle / "plan.json").read_text(encoding="utf-8"))
    dispatches = plan["entries"][entry]["dispatches"]
    for running in setups:
        if running.setup in WGCC and "failed" not in running.seen:
            profile = running.ask({"profile": entry})
            for row, dispatch in zip(profile["rows"], dispatches, strict=True):
                row["flops"] = dispatch.get("flops", 0)
            running.seen["kernels"] = profile


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
