"""Both shader compilers on one driver: naga (Python) and Tint (Node) on SwiftShader, bit by bit."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import wgcc_runtime
from adapters import NAMES, ROOT
from example_runs import EXAMPLES, draw_batch, training_entries
from web_stacks import as_lists, build_web, from_base64, run_job


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--examples", nargs="*", default=EXAMPLES, help="default: all")
    parser.add_argument("--steps", type=int, default=3)


def run(options: argparse.Namespace) -> int:
    different = 0
    for name in options.examples:
        with tempfile.TemporaryDirectory(prefix="wgcc-compilers-") as folder:
            bundle = build_web(ROOT / "examples" / name / "model.wg", Path(folder) / "bundle")
            same = is_same(bundle, options.steps)
            different += not same
            print(f"{name}: {'same' if same else 'other'} bits", flush=True)
    print(f"{different} differences")
    return 1 if different else 0


def is_same(bundle: Path, steps: int) -> bool:
    """Whether both give the same losses, parameters, moments and state."""
    with wgcc_runtime.load(bundle, device=NAMES["swiftshader"]) as model:
        (entry,) = training_entries(model.plan)
        batches = [draw_batch(entry, step) for step in range(steps)]
        losses = [float(model.call(entry.name, **batch)["loss"]) for batch in batches]
        model.save(bundle / "naga.safetensors")
    job = {"batches": [as_lists(batch) for batch in batches], "entry": entry.name}
    tint = run_job("node", bundle, "training", job)
    saved = (bundle / "naga.safetensors").read_bytes()
    return bool(tint["losses"] == losses and from_base64(tint["checkpoint"]) == saved)
