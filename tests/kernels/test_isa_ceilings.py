"""What GPU compilers make of the golden kernels and of large products: none gets worse.

`isa_ceilings.json` has registers, shares of multiply-adds in percent, and loads under way at once.
`python3 dev.py bless` records those of today: read the diff. A kernel that is not in it must not
spill.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from adapters import ROOT
from wgcc.compiler import compile_file
from wgcc.isa.report import CompilerReport, report

TABLE = Path(__file__).parent / "isa_ceilings.json"
GOLDEN = ROOT / "tests" / "golden"
SQUARE = ROOT / "tests" / "bench" / "models" / "square.wg"
DECODER = ROOT / "examples" / "gqa_decode" / "model.wg"
DECODER_SIZES = {"L": 1, "D": 768, "H": 12, "KH": 4, "F": 1024, "V": 1000, "S": 64, "B": 1}
MANY_WORKGROUPS, LEAST_LOADS = 32, 8
# Versions of Mesa and NVRTC differ by so much in what they make of one kernel; Radeons have
# registers in groups of eight.
REGISTERS, PERCENT, LOADS = 16, 6, 2
WAYS = (("rdna2", "naga"), ("rdna2", "tint"), ("sm_89", "nvrtc"))


@cache
def kernels() -> dict[str, str]:
    texts = {
        f"{path.parent.parent.name}/{path.stem}": path.read_text()
        for path in sorted(GOLDEN.glob("*/kernels/*.wgsl"))
    }
    planned = compile_file(SQUARE, twin=False).planned
    return texts | {f"square/{kernel.name}": kernel.text for kernel in planned.kernels}


def figures(item: CompilerReport) -> list[int]:
    share = item.share if item.tile is None else item.tile
    return [item.registers, round(100 * share), item.loads]


def worse(item: CompilerReport, recorded: list[int] | None) -> str:
    """What is worse than recorded, or ""."""
    if item.error or item.spills:
        return f"{item.kernel}: {item.error or f'{item.spills} registers are spilled'}"
    registers, share, loads = figures(item)
    if recorded and registers > recorded[0] + REGISTERS:
        return f"{item.kernel}: {registers} registers, not {recorded[0]}"
    if recorded and share < recorded[1] - PERCENT:
        return f"{item.kernel}: {share} % are multiply-adds, not {recorded[1]} %"
    if recorded and loads < recorded[2] - LOADS:
        return f"{item.kernel}: {loads} loads are under way at once, not {recorded[2]}"
    return ""


@pytest.mark.parametrize(("target", "route"), WAYS)
def test_no_kernel_gets_worse(
    target: str, route: str, bless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_PATH", str(ROOT / ".cache" / "node" / "node_modules"))
    reports = report(kernels(), target, [route])
    table = json.loads(TABLE.read_text()) if TABLE.is_file() else {}
    way = f"{target} by {route}"
    if bless:
        table[way] = {item.kernel: figures(item) for item in reports}
        TABLE.write_text(in_lines(table))
    recorded = table[way]
    assert [text for item in reports if (text := worse(item, recorded.get(item.kernel)))] == []


@pytest.mark.parametrize(("target", "route"), WAYS)
def test_products_of_one_row_load_several_rows_at_once(
    target: str, route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One token of a language model takes as long as its weights take to come."""
    monkeypatch.setenv("NODE_PATH", str(ROOT / ".cache" / "node" / "node_modules"))
    planned = compile_file(DECODER, sizes=DECODER_SIZES, entries=("decode",), twin=False).planned
    dispatches = planned.plan["entries"]["decode"]["dispatches"]
    products = {d["kernel"] for d in dispatches if d["grid"][0] >= MANY_WORKGROUPS}
    texts = {k.name: k.text for i, k in enumerate(planned.kernels) if i in products}
    loads = {item.kernel: item.loads for item in report(texts, target, [route])}
    assert len(loads) == 5
    assert {name: count for name, count in loads.items() if count < LEAST_LOADS} == {}


def in_lines(table: dict[str, dict[str, list[int]]]) -> str:
    """JSON with one kernel a line."""
    parts = (
        f'  "{way}": {{\n'
        + ",\n".join(f'    "{name}": {json.dumps(pair)}' for name, pair in sorted(rows.items()))
        + "\n  }"
        for way, rows in sorted(table.items())
    )
    return "{\n" + ",\n".join(parts) + "\n}\n"


def test_what_is_worse_is_noticed() -> None:
    plain = CompilerReport("k", "rdna2", "naga", registers=128, tile=0.8, loads=4)
    assert worse(plain, [128, 80, 4]) == worse(plain, None) == ""
    assert worse(plain, [104, 80, 4]) == "k: 128 registers, not 104"
    assert worse(plain, [128, 93, 4]) == "k: 80 % are multiply-adds, not 93 %"
    assert worse(plain, [128, 80, 16]) == "k: 4 loads are under way at once, not 16"
    spilled = CompilerReport("k", "rdna2", "naga", spills=3)
    assert worse(spilled, None) == "k: 3 registers are spilled"
