"""NaN and infinity in every parameter, moment, float input and gradient of the examples."""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import wgcc_runtime
from adapters import NAMES, ROOT
from building import build
from example_runs import EXAMPLES, draw_batch
from line_training import everything
from poisoned_bundles import BAD, floats, poisoned
from web_stacks import build_web, run_job
from wgcc_runtime.arrays import check_batch

WORDS = (0x7FC00000, 0x7F800000, 0xFF800000)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--examples", nargs="*", default=EXAMPLES, help="default: all")
    parser.add_argument("--adapter", default="lavapipe", choices=NAMES)
    parser.add_argument("--node", action="store_true", help="parameters and moments in Node")


def run(options: argparse.Namespace) -> int:
    missed = 0
    for name in options.examples:
        source = ROOT / "examples" / name / "model.wg"
        with tempfile.TemporaryDirectory(prefix="wgcc-nan-") as folder:
            found = list(_trials(source, Path(folder), options))
        wrong = [what for what, is_right in found if not is_right]
        missed += len(wrong)
        print(f"{name}: {len(found)} damaged, {len(wrong)} missed {wrong}", flush=True)
    return 1 if missed else 0


def _trials(source: Path, folder: Path, options: argparse.Namespace) -> Iterator[tuple[str, bool]]:
    if options.node:
        for one in run_job("node", build_web(source, folder / "web"), "nan", {}):
            right = one["named"] and one["same"] and one["bad"] == 1 and one["steps"] == 2
            yield one["id"], bool(right)
        return
    bundle = build(source, folder / "bundle")
    device = NAMES[options.adapter]
    with wgcc_runtime.load(bundle, device=device) as model:
        if "train" not in model.plan.entries:
            return
        yield from _tensors(model)
        yield from _inputs(model)
        params = [t.name for t in floats(model) if t.role == "param"]
    for number, name in enumerate(params):
        damaged = poisoned(bundle, folder / str(number), name, WORDS[number % 3])
        with wgcc_runtime.load(damaged, device=device) as model:
            yield f"d.{name}", _is_reported(model, f"step 1: .*`d.{name}` .kernel poison", "")


def _tensors(model: wgcc_runtime.Model) -> Iterator[tuple[str, bool]]:
    model.train(**draw_batch(model.entry("train"), 0))
    before = everything(model)
    for number, tensor in enumerate(floats(model)):
        values = before[tensor.name].copy()
        values.reshape(-1)[(7 * number) % values.size] = BAD[number % 3]
        model._machine.write(tensor, values)
        said = f"step 2: .*`{tensor.name}` was not finite before the step"
        yield tensor.name, _is_reported(model, said, tensor.name)
        model._machine.write(tensor, before[tensor.name])


def _inputs(model: wgcc_runtime.Model) -> Iterator[tuple[str, bool]]:
    """`call` refuses them; here its check is bypassed."""
    entry = model.entry("train")
    for name, tensor in entry.inputs.items():
        if tensor.is_float:
            given = dict(check_batch(draw_batch(entry, 1), entry))
            given[name] = given[name].copy()
            given[name].reshape(-1)[-1] = np.nan
            said = f"`train/{name}` was not finite before the step"
            yield name, _is_reported(model, said, "", given)


def _is_reported(model: wgcc_runtime.Model, said: str, damaged: str, given: Any = None) -> bool:
    """Whether one step reports it, and all but the corrupted tensor keep their last good values."""
    entry, before = model.entry("train"), everything(model)
    try:
        if given is None:
            model.train(**draw_batch(entry, 1))
        else:
            model.runner("train", entry.outputs).run([given])
    except wgcc_runtime.WgccError as error:
        is_said = error.code == "nan" and re.search(said, error.message) is not None
    else:
        is_said = False
    after = everything(model)
    same = (name == damaged or np.array_equal(after[name], before[name]) for name in before)
    return is_said and all(same)
