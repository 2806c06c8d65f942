"""Where a plan says that gradients are complete: what both runtimes refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest

import line_bundle
from changed_plans import change, encode
from web_stacks import run_node
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import read_plan

EXCHANGE = "entries.train.exchange"
GRADS = 6
GOOD: dict[str, Any] = {
    "dispatch": 2,
    "gradients": [
        {"buffer": GRADS, "offset": 0, "size": 16},
        {"buffer": GRADS, "offset": 32, "size": 32},
    ],
    "outputs": ["loss"],
    "state": [],
}
# What of it changes, what it becomes, the field the error must name ("" when it is the same place).
MALFORMED: list[tuple[str, Any, str]] = [
    ("dispatch", 0, ""),
    ("dispatch", 3, ""),
    ("dispatch", -1, ""),
    ("dispatch", 1.5, ""),
    ("gradients", [], ""),
    ("gradients", {}, ""),
    ("gradients.0.buffer", 0, "gradients[0].buffer"),
    ("gradients.0.buffer", 99, "gradients[0].buffer"),
    ("gradients.0.size", 36, "gradients[1]"),
    ("gradients.0.size", 6, "gradients[0].size"),
    ("gradients.1.offset", 0, "gradients[1]"),
    ("gradients.1.size", 64, "gradients[1]"),
    ("gradients.0.length", 4, "gradients[0].length"),
    ("outputs", ["p"], "outputs[0]"),
    ("outputs", ["toString"], "outputs[0]"),
    ("state", ["w"], "state[0]"),
    ("state", ["opt/opt/step"], "state[0]"),
    ("state", ["rng/seed"], "state[0]"),
    ("why", "updates are fused", "gradients"),
    ("why", 7, ""),
    ("reason", "none", ""),
]


def plan_with_exchange() -> dict[str, Any]:
    plan = line_bundle.make_plan()
    plan["buffers"].append({"name": "grads", "bytes": 64, "role": "grads"})
    plan["memory"].update(grads=64, peak=plan["memory"]["peak"] + 64)
    plan["entries"]["train"]["exchange"] = json.loads(json.dumps(GOOD))
    return plan


def malformed() -> list[tuple[dict[str, Any], str]]:
    cases = [
        (change(plan_with_exchange(), f"{EXCHANGE}.{path}", value), f"{EXCHANGE}.{field or path}")
        for path, value, field in MALFORMED
    ]
    in_loop = [{"first": 1, "count": 2, "rounds": 3}]
    looped = change(plan_with_exchange(), "entries.train.repeats", in_loop)
    untrained = change(plan_with_exchange(), "entries.train.training", False)
    return [*cases, (looped, f"{EXCHANGE}.dispatch"), (untrained, f"{EXCHANGE}.gradients")]


def test_sound_exchange_is_read() -> None:
    found = read_plan(encode(plan_with_exchange())).entries["train"].exchange
    assert found is not None
    assert (found.dispatch, found.gradients) == (2, ((GRADS, 0, 16), (GRADS, 32, 32)))
    assert (found.outputs, found.state, found.bytes) == (("loss",), (), 48)
    without = change(plan_with_exchange(), EXCHANGE, {"why": "it cannot"})
    other = read_plan(encode(without)).entries["train"].exchange
    assert other is not None and other.why == "it cannot"


@pytest.mark.parametrize(("plan", "field"), malformed())
def test_malformed_exchange_is_refused(plan: dict[str, Any], field: str) -> None:
    with pytest.raises(WgccError) as caught:
        read_plan(encode(plan))
    assert (caught.value.code, caught.value.field) == ("plan", field)


def test_both_runtimes_refuse_alike() -> None:
    plans = [plan_with_exchange(), *(plan for plan, _ in malformed())]
    sound, *answers = run_node("mirror.mjs", data={"plans": [json.dumps(x) for x in plans]})[
        "plans"
    ]
    assert sound == {"value": "Line"}
    fields = [field for _, field in malformed()]
    assert answers == [{"code": "plan", "field": field} for field in fields]
