"""What GPU compilers make of the kernels of whole models: the table of tests/GROWTH.md.

`python tests/bench/isa.py` prints it in Markdown; names of models (`square gpt`) print these
alone, `--kernels` each kernel. Nothing runs on a GPU. Dawn is taken from .cache/node.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from wgcc.access.model import access_or_none
from wgcc.bundle.plan import all_dispatches, times_run
from wgcc.compiler import compile_file
from wgcc.isa.report import CompilerReport, report
from wgcc.kernel.parse import parse_module

ROOT = Path(__file__).parent.parent.parent
BENCH, EXAMPLES = ROOT / "tests" / "bench" / "models", ROOT / "examples"
GPT = {"L": 12, "D": 768, "H": 12, "V": 32_000, "T": 512, "P": 512, "B": 4}
# As large as GPT-2, with its vocabulary; keys and values are shared by three heads.
DECODER = {"L": 12, "D": 768, "H": 12, "KH": 4, "F": 3072, "V": 50_257, "S": 1024, "B": 1}
# A model, its sizes, and the entries that are compiled.
MODELS: Mapping[str, tuple[Path, Mapping[str, float], tuple[str, ...]]] = {
    "square": (BENCH / "square.wg", {}, ("train",)),
    "chargpt": (EXAMPLES / "chargpt" / "model.wg", {}, ("train",)),
    "cnn": (EXAMPLES / "cnn" / "model.wg", {}, ("train",)),
    "mamba": (EXAMPLES / "mamba" / "model.wg", {}, ("train",)),
    "gpt": (BENCH / "gpt2.wg", GPT, ("train",)),
    "decode": (EXAMPLES / "gqa_decode" / "model.wg", DECODER, ("decode",)),
}
WAYS = (("rdna2", "naga"), ("rdna2", "trusted"), ("rdna2", "tint"), ("rdna3", "naga"),
        ("rdna3", "tint"), ("sm_89", "nvrtc"))  # fmt: skip
HEAD = (
    "model", "card", "by", "kernels", "spills", "most registers", "below 4 waves",
    "FMA of products, %", "least, %", "model's registers within 12, %",
)  # fmt: skip
CLOSE = 12


def main(arguments: Sequence[str]) -> None:
    os.environ.setdefault("NODE_PATH", str(ROOT / ".cache" / "node" / "node_modules"))
    names = [name for name in arguments if name in MODELS] or list(MODELS)
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * 3}{'--:|' * (len(HEAD) - 3)}")
    for name in names:
        path, sizes, entries = MODELS[name]
        planned = compile_file(path, sizes=sizes, entries=entries, twin=False).planned
        texts = {kernel.name: kernel.text for kernel in planned.kernels}
        work = work_of(planned.plan)
        modelled = {key: registers_of(texts[key]) for key in texts}
        for target, route in WAYS:
            reports = report(texts, target, [route])
            print(f"| {name} | {' | '.join(row(reports, work, modelled))} |", flush=True)
            if "--kernels" in arguments:
                print_kernels(reports, work, modelled)


def work_of(plan: Mapping[str, Any]) -> dict[str, int]:
    """Operations of each kernel in all entries."""
    names, work = [kernel["name"] for kernel in plan["kernels"]], dict[str, int]()
    for entry in plan["entries"].values():
        times = times_run(entry)
        for number, dispatch in enumerate(all_dispatches(entry)):
            name = names[dispatch["kernel"]]
            done = times[number] * dispatch.get("flops", 0)
            work[name] = work.get(name, 0) + done
    return work


def registers_of(text: str) -> int | None:
    """By the access model, which needs no compiler."""
    access = access_or_none(parse_module(text), (1, 1, 1))
    return access.registers if access else None


def row(
    reports: Sequence[CompilerReport], work: Mapping[str, int], modelled: Mapping[str, int | None]
) -> Iterator[str]:
    good = [item for item in reports if not item.error]
    products = [(item, work.get(item.kernel, 0)) for item in good if item.tile is not None]
    total = sum(done for _, done in products)
    share = sum((item.tile or 0) * done for item, done in products) / max(total, 1)
    # Small ones do not matter.
    large = [item.tile or 0 for item, done in products if done > total / 100]
    compared = [item for item in good if modelled[item.kernel] is not None]
    close = [abs(item.registers - (modelled[item.kernel] or 0)) <= CLOSE for item in compared]
    yield from (reports[0].target, reports[0].route, str(len(good)))
    yield str(sum(item.spills for item in good))
    yield str(max(item.registers for item in good))
    yield str(sum(item.waves < 4 for item in good))
    yield f"{100 * share:.0f}" if products else "–"
    yield f"{100 * min(large):.0f}" if large else "–"
    yield f"{100 * sum(close) / max(len(close), 1):.0f}"


def print_kernels(
    reports: Sequence[CompilerReport], work: Mapping[str, int], modelled: Mapping[str, int | None]
) -> None:
    for item in reports:
        tile = "-" if item.tile is None else f"{item.tile:.2f}"
        print(
            f"    {item.kernel:40} {item.registers:4} ({modelled[item.kernel]}) {item.waves:3} "
            f"{item.shared:6} {tile:>5} {work.get(item.kernel, 0):.2g} {item.causes} {item.error}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
