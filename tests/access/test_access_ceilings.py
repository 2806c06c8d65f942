"""What the golden kernels do to a GPU, by the access model: no kernel gets worse unnoticed.

`--bless` writes the figures of today. A kernel that needs more sectors, conflicts or registers, or
wastes more arithmetic than written down, fails; what improves need not be written down at once.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import pytest

from adapters import ROOT
from wgcc.cli.commands.show.kernel_facts import kernel_facts

GOLDEN = sorted(path.parent.name for path in ROOT.glob("tests/golden/*/plan.json"))
CEILINGS = ROOT / "tests" / "access" / "access_ceilings.json"
# For figures that are ratios.
MARGIN = 1.01


@lru_cache
def written() -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = json.loads(CEILINGS.read_text())
    return found


def figures(model: str) -> dict[str, list[float]]:
    """[sectors, bank conflicts, registers, wasted arithmetic] of each kernel, the worst of each."""
    folder = ROOT / "tests" / "golden" / model
    plan = json.loads((folder / "plan.json").read_text())
    texts = {kernel["name"]: folder / "kernels" / kernel["file"] for kernel in plan["kernels"]}
    facts = (kernel_facts(plan, name, path.read_text()) for name, path in texts.items())
    return {item["kernel"]: _worst(item) for item in facts if item["dispatches"]}


def _worst(facts: dict[str, Any]) -> list[float]:
    found = [dispatch["access"] for dispatch in facts["dispatches"]]
    assert all(found), f"{facts['kernel']} cannot be modelled"
    return [
        round(max(a["sectors"] for a in found), 2),
        max(a["bank_conflicts"] for a in found),
        facts["registers"],
        round(max(1 - a["useful"] if a["useful"] else 0.0 for a in found), 3),
    ]


@pytest.mark.parametrize("model", GOLDEN)
def test_no_kernel_gets_worse(model: str, bless: bool) -> None:
    found = figures(model)
    if bless:
        # Models are blessed one after the other, perhaps by several processes: read again.
        everything = json.loads(CEILINGS.read_text()) if CEILINGS.exists() else {}
        known = {name: everything.get(name, {}) for name in GOLDEN} | {model: found}
        CEILINGS.write_text(_text(known))
        return
    known = written()[model]
    assert found.keys() == known.keys(), "other kernels than before: bless them, read the diff"
    for name, values in found.items():
        worse = [v > MARGIN * ceiling for v, ceiling in zip(values, known[name], strict=True)]
        assert not any(worse), f"{name}: {values}, not more than {known[name]} before"


def _text(known: dict[str, dict[str, list[float]]]) -> str:
    """One line per kernel, so that differences can be read."""
    parts = []
    for model, kernels in known.items():
        lines = [f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in kernels.items()]
        parts.append(f" {json.dumps(model)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(parts) + "\n}\n"
