"""The same training steps in wgcc, jax-js, tfjs and PyTorch, measured alternately on this machine.

    python tests/bench/run.py [--models a,b,c] [--json]

Chromium on SwiftShader runs wgcc, jax-js and tfjs with the same shapes, initial values, batch and
Adam, and reads the loss at every step. Blocks of steps of the libraries alternate, so that noise
affects them alike. CPU time is the sum over all processes of the browser, so it hardly depends on
other load. Then wgcc runs from Python on lavapipe, and PyTorch on the CPU if it is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
for place in (ROOT, ROOT / "runtime_py", FOLDER.parent, FOLDER):
    sys.path.insert(0, str(place))

from adapters import environment, use_software_drivers  # noqa: E402

MODELS = ("a", "b", "c", "matmul")
LIBRARIES = ("wgcc", "jax", "tfjs")
PEERS = (
    "@jax-js/jax@0.1.25",
    "@tensorflow/tfjs-core@4.22.0",
    "@tensorflow/tfjs-backend-webgpu@4.22.0",
)
CACHE = ROOT / ".cache" / "peers"
NODE = ROOT / ".cache" / "node"


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    use_software_drivers()
    models: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build_pages(options.libraries, folder)
        for model in options.models:
            build_bundle(model, folder / "bundles" / model)
            say(f"{model}: Chromium on SwiftShader")
            models[model] = in_chromium(model, folder, options)
            if model != "matmul" and not options.web:
                models[model] |= beside(model, folder / "bundles" / model, options.seconds)
    if options.json:
        print(json.dumps({"models": models}, indent=1))
    else:
        from report import report

        print(report(models))
    return 0


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", type=_names(MODELS), default=list(MODELS))
    parser.add_argument("--libraries", type=_names(LIBRARIES), default=list(LIBRARIES))
    parser.add_argument("--steps", type=int, default=100, help="most timed steps of a library")
    parser.add_argument("--rounds", type=int, default=4, help="blocks of steps per library")
    parser.add_argument("--seconds", type=float, default=2.0, help="time of a block")
    parser.add_argument("--kernels", action="store_true", help="also a table of wgcc's kernels")
    parser.add_argument("--web", action="store_true", help="without lavapipe and PyTorch")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


def _names(allowed: tuple[str, ...]) -> Any:
    def parse(text: str) -> list[str]:
        chosen = [name for name in text.split(",") if name]
        for name in chosen:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"no {name}; there are {', '.join(allowed)}")
        return chosen

    return parse


def say(text: str) -> None:
    print(f"· {text}", file=sys.stderr, flush=True)


def build_bundle(name: str, bundle: Path) -> None:
    """As a site would serve it: with the runtime minified."""
    from web_stacks import build_web

    build_web(FOLDER / "models" / f"{name}.wg", bundle)
    scripts = [str(path) for path in bundle.rglob("*.js")]
    places = (f"--outdir={bundle}", f"--outbase={bundle}")
    esbuild(*scripts, "--minify", *places, "--allow-overwrite")


def build_pages(libraries: list[str], folder: Path) -> None:
    """One script per library, as a bundler makes it."""
    if {"jax", "tfjs"} & set(libraries):
        install_peers()
    scripts = [str(FOLDER / "pages" / f"{name}.js") for name in libraries]
    settings = ("--bundle", "--minify", "--splitting", "--format=esm", "--external:/bundles/*")
    esbuild(*scripts, *settings, f"--outdir={folder}")
    for name in libraries:
        script = f'<script type="module" src="{name}.js"></script>'
        (folder / f"{name}.html").write_text(f"<!doctype html><title>{name}</title>{script}")
    (folder / "empty.html").write_text("<!doctype html><title>empty</title>")


def install_peers() -> None:
    stamp, wanted = CACHE / "installed", "\n".join(PEERS)
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    say(f"installing {', '.join(PEERS)} into .cache/peers")
    CACHE.mkdir(parents=True, exist_ok=True)
    quiet = ("--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--loglevel=error")
    subprocess.run(["npm", "install", *quiet, "--prefix", str(CACHE), *PEERS], check=True)
    stamp.write_text(wanted)


def esbuild(*arguments: str) -> None:
    program = NODE / "node_modules" / ".bin" / "esbuild"
    paths = {"NODE_PATH": str(CACHE / "node_modules")}
    subprocess.run(
        [str(program), *arguments, "--log-level=warning"], check=True, env={**os.environ, **paths}
    )


def in_chromium(model: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    task = {
        "model": model,
        "libraries": options.libraries,
        "folder": str(folder),
        "rounds": options.rounds,
        "seconds": options.seconds,
        "most": max(1, options.steps // options.rounds),
        "profile": ("multiply" if model == "matmul" else "train") if options.kernels else None,
    }
    done = subprocess.run(
        ["node", str(FOLDER / "drive.mjs")],
        input=json.dumps(task),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "NODE_FOLDER": str(NODE), **environment("swiftshader")},
    )
    found: dict[str, Any] = json.loads(done.stdout)
    for library, seen in found.items():
        if "failed" in seen:
            say(f"{library} failed: {seen['failed']}")
        elif "kernels" in seen:
            _add_flops(seen["kernels"], folder / "bundles" / model)
    return found


def _add_flops(profile: dict[str, Any], bundle: Path) -> None:
    plan = json.loads((bundle / "plan.json").read_text(encoding="utf-8"))
    dispatches = plan["entries"][profile["entry"]]["dispatches"]
    for row, dispatch in zip(profile["rows"], dispatches, strict=True):
        row["flops"] = dispatch.get("flops", 0)


def beside(model: str, bundle: Path, seconds: float) -> dict[str, Any]:
    """wgcc from Python on lavapipe; PyTorch on the CPU, if it is installed."""
    from baselines import lavapipe_steps, torch_steps

    say(f"{model}: Python on lavapipe, PyTorch")
    found = {"lavapipe": {"ms": lavapipe_steps(bundle, seconds)}}
    times = torch_steps(model, seconds)
    return {**found, **({"torch": {"ms": times}} if times else {})}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
