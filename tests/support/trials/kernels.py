"""Kernels with one wrong operator that load without error: the self-test of a bundle must fail."""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import wgcc_runtime
from adapters import NAMES, ROOT
from building import build
from wgcc.bundle.edited import accept
from wgcc.bundle.folder import write_files
from wgcc_runtime import WgccError, WgccWarning

OTHER = {" + ": " - ", " - ": " + ", " * ": " + ", " / ": " * ", "fma(": "0.5 * fma("}
# Operators of the code; comments, declarations, bounds checks and strides of loops are left
# unchanged, because many changes of a check or a stride have no effect.
CODE = re.compile(r"^ +(?! |//|if \(|for \().*", re.MULTILINE)
OPERATOR = re.compile(r" [-+*/] (?!0u)|\bfma\(")


# Some changes have no effect (an edge that no element is on), or none yet (the tenth digit of a
# correction in the first three steps).
MOST_SURVIVORS = 0.1


@dataclass(frozen=True)
class Mutant:
    kernel: int
    name: str
    text: str
    line: str


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--examples", nargs="*", default=["sin", "digits"])
    parser.add_argument("--each", type=int, default=3, help="mutants of each kernel")
    parser.add_argument("--adapter", default="lavapipe", choices=NAMES)
    parser.add_argument("--seed", type=int, default=0, help="of the choice of mutants")


def run(options: argparse.Namespace) -> int:
    tried = survived = 0
    for name in options.examples:
        with tempfile.TemporaryDirectory(prefix="wgcc-kernels-") as folder:
            bundle = build(ROOT / "examples" / name / "model.wg", Path(folder) / "bundle")
            verdicts = try_mutants(bundle, options.adapter, options.each, options.seed)
        found = Counter(verdict for _, verdict in verdicts)
        tried, survived = tried + len(verdicts), survived + found["survived"]
        print(f"{name}: {dict(found)}", flush=True)
    return 1 if survived > MOST_SURVIVORS * tried else 0


def try_mutants(bundle: Path, adapter: str, each: int, seed: int) -> list[tuple[Mutant, str]]:
    """The result of the self-test for each mutant; those that survive are printed."""
    verdicts = [(m, _verdict(bundle, adapter, m)) for m in mutants(bundle, each, seed)]
    for mutant, verdict in verdicts:
        if verdict != "caught":
            print(f"  {verdict}: {mutant.name}: {mutant.line.strip()}", flush=True)
    return verdicts


def mutants(bundle: Path, each: int, seed: int) -> Iterator[Mutant]:
    plan = json.loads((bundle / "plan.json").read_text())
    for number, kernel in enumerate(plan["kernels"]):
        text = (bundle / "kernels" / kernel["file"]).read_text()
        chance = random.Random(f"{seed} {kernel['name']}")
        places = [
            (line.start() + operator.start(), operator.group())
            for line in CODE.finditer(text)
            for operator in OPERATOR.finditer(line.group().split("//")[0])
        ]
        for place, old in sorted(chance.sample(places, min(each, len(places)))):
            changed = text[:place] + OTHER[old] + text[place + len(old) :]
            start = text.rfind("\n", 0, place) + 1
            line = changed[start : changed.find("\n", start)]
            yield Mutant(number, kernel["name"], changed, line)


def write_mutant(bundle: Path, mutant: Mutant, folder: Path) -> Path:
    """The bundle with that kernel, accepted as `wgcc accept` does."""
    shutil.copytree(bundle, folder)
    plan = json.loads((bundle / "plan.json").read_text())
    (folder / "kernels" / plan["kernels"][mutant.kernel]["file"]).write_text(mutant.text)
    files, edited = accept(folder)
    assert len(edited) == 1
    write_files(files, folder)
    return folder


def _verdict(bundle: Path, adapter: str, mutant: Mutant) -> str:
    with tempfile.TemporaryDirectory(prefix="wgcc-mutant-") as folder:
        wrong = write_mutant(bundle, mutant, Path(folder) / "bundle")
        try:
            with warnings.catch_warnings():
                # That it was edited.
                warnings.simplefilter("ignore", WgccWarning)
                wgcc_runtime.load(wrong, device=NAMES[adapter], verify=True).close()
        except WgccError as error:
            return "caught" if error.code in ("selftest", "nan") else f"refused ({error.code})"
    return "survived"
