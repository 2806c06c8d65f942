"""Both shader compilers on one driver: naga (Python) and Tint (Node) on SwiftShader, bit by bit."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import wgcc_runtime
from adapters import NAMES, ROOT
from example_runs import EXAMPLES, draw_batch, training_entries
from web_stacks import as_lists, build_web, from_base64, run_job

PROFILES = ("gpu", "cpu", "swiftshader")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--examples", nargs="*", default=EXAMPLES, help="default: all")
    parser.add_argument("--steps", type=int, default=3)


def run(options: argparse.Namespace) -> int:
    different = 0
    for name in options.examples:
        with tempfile.TemporaryDirectory(prefix="wgcc-compilers-") as folder:
            bundle = build_web(ROOT / "examples" / name / "model.wg", Path(folder) / "bundle")
            plan = wgcc_runtime.load_plan(bundle)
            for profile in PROFILES:
                if profile != "gpu" and profile not in plan.profiles:
                    continue
                same = is_same(bundle, profile, options.steps)
                different += not same
                print(f"{name}, {profile} kernels: {'same' if same else 'other'} bits", flush=True)
    print(f"{different} differences")
    return 1 if different else 0


def is_same(bundle: Path, profile: str, steps: int) -> bool:
    """Whether both give the same losses, parameters, moments and state."""
    with wgcc_runtime.load(bundle, device=NAMES["swiftshader"], profile=profile) as model:
        (entry,) = training_entries(model.plan)
        batches = [draw_batch(entry, step) for step in range(steps)]
        losses = [float(model.call(entry.name, **batch)["loss"]) for batch in batches]
        model.save(bundle / "naga.safetensors")
    job = {"batches": [as_lists(batch) for batch in batches], "entry": entry.name}
    tint = run_job("node", bundle, "training", {**job, "profile": profile})
    saved = (bundle / "naga.safetensors").read_bytes()
    return bool(tint["losses"] == losses and from_base64(tint["checkpoint"]) == saved)
