"""A summary of a bundle, from its plan."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from wgcc.bundle.plan import all_dispatches, run_count, times_run
from wgcc.cli.printing import dispatches, plural, size, table
from wgcc.ir.state_names import is_own_state

Plan = Mapping[str, Any]

MOST_TENSORS = 40


def overview(plan: Plan) -> str:
    parts = [_title(plan), _tensors(plan, "param"), _tensors(plan, "state")]
    parts += [_entries(plan), _kernels(plan), _memory(plan)]
    return "\n\n".join(part for part in parts if part)


def overview_facts(plan: Plan) -> dict[str, Any]:
    """The same as JSON."""
    return {
        "model": plan["model"]["name"],
        "source": plan["model"]["source"],
        "generator": plan["generator"],
        "parameters": _count(plan),
        "entries": {
            name: {
                "inputs": {key: _type(plan, tensor) for key, tensor in entry["inputs"].items()},
                "outputs": {key: _type(plan, tensor) for key, tensor in entry["outputs"].items()},
                "dispatches": run_count(entry),
                "training": entry["training"],
            }
            for name, entry in plan["entries"].items()
        },
        "kernels": [kernel["name"] for kernel in plan["kernels"]],
        "memory": plan["memory"],
        "requires": plan["requires"],
        **({"edited": list(plan["edited"])} if "edited" in plan else {}),
    }


def _title(plan: Plan) -> str:
    return (
        f"{plan['model']['name']} from {plan['model']['source']}, by {plan['generator']}: "
        f"{plural(_count(plan), 'parameter')}{_edited(plan)}"
    )


def _edited(plan: Plan) -> str:
    return f"\nedited by hand: {', '.join(plan['edited'])}" if "edited" in plan else ""


def _count(plan: Plan) -> int:
    return sum(
        prod(tensor["shape"]) for tensor in plan["tensors"].values() if tensor["role"] == "param"
    )


def _tensors(plan: Plan, role: str) -> str:
    """Parameters, or state; the state of optimizers is left out."""
    named = {
        name: tensor
        for name, tensor in plan["tensors"].items()
        if tensor["role"] == role and is_own_state(name)
    }
    if not named:
        return ""
    rows = [
        (f"  {name}", _shape(tensor), _first(tensor), "" if _is_trained(tensor, role) else "frozen")
        for name, tensor in list(named.items())[:MOST_TENSORS]
    ]
    more = len(named) - len(rows)
    title = "parameters" if role == "param" else "state"
    return f"{title}\n{table(rows)}" + (f"\n  … and {more} more" if more else "")


def _is_trained(tensor: Plan, role: str) -> bool:
    return role != "param" or bool(tensor["trainable"])


def _first(tensor: Plan) -> str:
    init = tensor["init"]
    if init["kind"] == "value":
        values = init.get("values", [])
        return f"= {values[0]:g}" if len(values) == 1 else f"= {len(values)} values"
    arguments = ", ".join(f"{name} = {value:g}" for name, value in init.get("args", {}).items())
    return f"~ {init['kind']}({arguments})"


def _entries(plan: Plan) -> str:
    lines = ["entries"]
    for name, entry in plan["entries"].items():
        inputs = ", ".join(f"{key}: {_type(plan, t)}" for key, t in entry["inputs"].items())
        outputs = ", ".join(f"{key}: {_type(plan, t)}" for key, t in entry["outputs"].items())
        count = dispatches(len(entry["dispatches"]), run_count(entry))
        optimizers = [
            f"{opt} ({record['kind']})"
            for opt, record in plan["optimizer"].items()
            if name in record["entry"]
        ]
        means = f" with {' and '.join(optimizers)}" if optimizers else " by gradients of its own"
        trains = f", trains{means}" if entry["training"] else ""
        lines += [f"  {name}({inputs}) -> ({outputs})", f"    {count}{trains}"]
    return "\n".join(lines)


def _kernels(plan: Plan) -> str:
    """The kernels that the shown entries use, with the number of dispatches."""
    uses: dict[int, int] = {}
    for entry in plan["entries"].values():
        for dispatch, times in zip(all_dispatches(entry), times_run(entry), strict=True):
            uses[dispatch["kernel"]] = uses.get(dispatch["kernel"], 0) + times
    rows = [
        (f"  {plan['kernels'][number]['name']}", f"× {count}", _first_place(plan, number))
        for number, count in uses.items()
    ]
    return f"kernels (wgcc show … --kernel NAME)\n{table(rows)}" if rows else ""


def _first_place(plan: Plan, kernel: int) -> str:
    for entry in plan["entries"].values():
        for dispatch in all_dispatches(entry):
            if dispatch["kernel"] == kernel:
                return str(dispatch["at"])
    return ""


def _memory(plan: Plan) -> str:
    rows = [(f"  {name}", size(count)) for name, count in plan["memory"].items() if count]
    return f"GPU memory\n{table(rows, right=(1,))}" if rows else ""


def _type(plan: Plan, tensor: str) -> str:
    return _shape(plan["tensors"][tensor])


def _shape(tensor: Plan) -> str:
    shape = ", ".join(map(str, tensor["shape"]))
    return f"{tensor['dtype']}[{shape}]" if shape else str(tensor["dtype"])
