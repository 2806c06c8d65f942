"""Records what PyTorch computes for the expressions of pytorch_hints.py.

Run by hand (`python tests/support/record_pytorch_hints.py`, needs PyTorch); tests read only the
numbers in pytorch_hints_recorded.json.
"""

from __future__ import annotations

import json
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  as everybody calls it

from pytorch_hints import (
    LAYERS,
    RATE,
    RECORDED,
    SCHEDULES,
    SIZES,
    STEPS,
    expressions,
    inputs,
    lines,
)
from record_pytorch import first, kernel, last

# PyTorch's class numbers and indices have 64 bits.
WIDE = ("ids", "labels", "index")


def main() -> None:
    given = {name: torch.tensor(array) for name, array in inputs().items()}
    given |= {name: given[name].long() for name in WIDE}
    scope = {"F": F, "torch": torch, "first": first, "last": last, "turned": kernel, **SIZES}
    results = {ours: eval(theirs, scope, dict(given)) for ours, theirs in expressions().items()}
    facts: dict[str, Any] = {ours: record(result) for ours, result in results.items()}
    facts |= {layer: parameters(layer) for layer in lines(LAYERS)}
    facts |= {schedule: rates(schedule) for schedule in lines(SCHEDULES)}
    rows = [f"{json.dumps(text)}: {json.dumps(fact)}" for text, fact in facts.items()]
    RECORDED.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


def parameters(layer: str) -> int:
    return sum(weight.numel() for weight in eval(layer, {"nn": torch.nn}).parameters())


def rates(schedule: str) -> list[float]:
    """Of each step, if the scheduler makes a step after it."""
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
    scheduler = eval(schedule, {"opt": opt, **vars(torch.optim.lr_scheduler)})
    found = []
    for _ in range(STEPS):
        found.append(float(f"{opt.param_groups[0]['lr']:.7g}"))
        opt.step()
        scheduler.step()
    return found


def record(result: Any) -> dict[str, Any]:
    tensor = torch.as_tensor(result)
    kind = "bool" if tensor.dtype == torch.bool else "f32" if tensor.is_floating_point() else "i32"
    numbers = [float(f"{number:.7g}") for number in tensor.double().flatten().tolist()]
    return {"dtype": kind, "shape": list(tensor.shape), "numbers": list(map(shown, numbers))}


def shown(number: float) -> float | str:
    """Infinity is not a number of JSON."""
    return number if abs(number) < float("inf") else str(number)


if __name__ == "__main__":
    main()
