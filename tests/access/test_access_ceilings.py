"""What the kernels of the golden models do to a GPU, by the access model: none gets much worse.

Ceilings are for all kernels of a model together, so that other kernels that do the same work need
no other figures.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest

from adapters import ROOT
from wgcc.cli.commands.show.kernel_facts import kernel_facts

GOLDEN = ROOT / "tests" / "golden"
MOST_CONFLICTS = 2
MARGIN = 1.01


@dataclass(frozen=True)
class Ceilings:
    """Bytes through the caches in all entries; of any kernel registers, and sectors per ideal one;
    the share of the multiply-adds that is no padding, which is small for tiny products."""

    moved: int
    registers: int
    sectors: float
    useful: float = 1.0


CEILINGS = {
    "attention": Ceilings(11_520, 104, 1.65),
    "halves": Ceilings(153_216, 32, 1.87),
    "lookups": Ceilings(11_847_520, 24, 6.79),
    "loops": Ceilings(29_880, 24, 2.55, 0.32),
    "memory": Ceilings(3_040, 24, 2.0),
    "regression": Ceilings(14_472, 32, 2.55, 0.18),
    "tokens": Ceilings(53_248, 32, 4.38, 0.6),
}


def facts_of(model: str, **changed: str) -> list[dict[str, Any]]:
    """Of each kernel that an entry runs; `changed` replaces texts of kernels."""
    folder = GOLDEN / model
    plan = json.loads((folder / "plan.json").read_text())
    texts = {k["name"]: (folder / "kernels" / k["file"]).read_text() for k in plan["kernels"]}
    facts = (kernel_facts(plan, name, text) for name, text in {**texts, **changed}.items())
    return [item for item in facts if item["dispatches"]]


def check(facts: list[dict[str, Any]], ceilings: Ceilings) -> None:
    dispatches = [dispatch for item in facts for dispatch in item["dispatches"]]
    assert all(dispatch["access"] for dispatch in dispatches), "a kernel cannot be modelled"
    accesses = [dispatch["access"] for dispatch in dispatches]
    assert sum(access["moved"] for access in accesses) <= MARGIN * ceilings.moved
    assert max(item["registers"] for item in facts) <= ceilings.registers
    assert max(access["sectors"] for access in accesses) <= MARGIN * ceilings.sectors
    assert max(access["bank_conflicts"] for access in accesses) <= MOST_CONFLICTS
    products = [item for item in dispatches if item["access"]["useful"]]
    made = sum(item["flops"] / item["access"]["useful"] for item in products)
    assert sum(item["flops"] for item in products) * MARGIN >= ceilings.useful * made


@pytest.mark.parametrize("model", sorted(path.parent.name for path in GOLDEN.glob("*/plan.json")))
def test_no_model_gets_worse(model: str) -> None:
    check(facts_of(model), CEILINGS[model])


def test_loads_that_are_not_coalesced_are_noticed() -> None:
    """Neighbouring lanes read elements that are eight apart: each needs a sector of its own."""
    folder = GOLDEN / "halves" / "kernels"
    texts = {path.stem: path.read_text() for path in folder.glob("*.wgsl")}
    strided = {
        name: re.sub(r"(= x0\[)(.+?)(\];)", r"\1 8u * (\2)\3", t) for name, t in texts.items()
    }
    assert strided != texts
    with pytest.raises(AssertionError):
        check(facts_of("halves", **strided), CEILINGS["halves"])
