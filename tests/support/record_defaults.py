"""Records PyTorch's defaults and initial values for the pairs of default_pairs.py.

Run by hand (`python tests/support/record_defaults.py`, needs PyTorch); tests read only what it
writes into defaults_recorded.json.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  as everybody calls it
from torch import nn

from default_pairs import DRAWN, INITIAL, RECORDED, Pair, all_pairs, recorded_as

SCOPE = {"nn": nn, "F": F, "torch": torch}
REQUIRED = "required"
# Measured over so many tensors, whose extremes are then close to the bounds.
DRAWS = 20
MODULES = (torch, torch.fft, torch.linalg, torch.optim, nn, F, nn.init)


def main() -> None:
    torch.manual_seed(0)
    found = {
        "version": torch.__version__.partition("+")[0],
        "names": sorted({name for module in MODULES for name in dir(module) if name[0] != "_"}),
        "defaults": {pair.ours: record(pair) for pair in all_pairs()},
        "initial": {theirs: initial(theirs, names) for _, theirs, names in INITIAL},
        "drawn": {code: figures([eval(code, SCOPE) for _ in range(DRAWS)]) for _, code in DRAWN},
    }
    lines = [f"{json.dumps(key)}: {text(value)}" for key, value in found.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def text(value: Any) -> str:
    """A line for each item."""
    if not isinstance(value, dict):
        return json.dumps(value)
    lines = (f" {json.dumps(key)}: {json.dumps(item)}" for key, item in value.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def record(pair: Pair) -> dict[str, Any]:
    known = defaults(pair.theirs)
    found: dict[str, Any] = {}
    for ours, theirs in pair.options:
        key = recorded_as(ours, theirs)
        if theirs == "()":
            found[key] = None if reduces_all(pair.theirs) else REQUIRED
        elif theirs.startswith("forward."):
            forward = inspect.signature(eval(pair.theirs, SCOPE).forward).parameters
            found[key] = forward[theirs.removeprefix("forward.")].default
        elif theirs != "-" and (theirs in known or not pair.theirs.startswith("torch.optim")):
            found[key] = known[theirs]
    return found


def defaults(name: str) -> dict[str, Any]:
    if name.startswith("aten::"):
        base, _, overload = name.partition(".")
        return {
            each.name: plain(each.default_value) if each.has_default_value() else REQUIRED
            for each in torch._C._get_schema(base, overload).arguments
        }
    function: Callable[..., Any] = eval(name, {**SCOPE, "nn": Modules()})
    return {
        each.name: REQUIRED if each.default is each.empty else plain(each.default)
        for each in inspect.signature(function).parameters.values()
    }


class Modules:
    """`torch.nn`, with the class that has the signature of recurrent layers."""

    RNNBase = nn.modules.rnn.RNNBase

    def __getattr__(self, name: str) -> Any:
        return getattr(nn, name)


def plain(value: Any) -> Any:
    if callable(value):
        return value.__name__
    if isinstance(value, (list, tuple)):
        items = [plain(item) for item in value]
        return items[0] if items and len(set(items)) == 1 and len(items) < 4 else items
    return value


def reduces_all(name: str) -> bool:
    word = name.removeprefix("aten::").removeprefix("torch.").partition(".")[0]
    x = torch.ones(2, 3)
    result: torch.Tensor = getattr(torch, word)(x.bool() if word in ("any", "all") else x)
    return result.dim() == 0


def initial(code: str, names: str) -> dict[str, Any]:
    layers = [eval(code, SCOPE) for _ in range(DRAWS)]
    found = {}
    for name in names.split():
        theirs = name.partition("=")[2] or name
        found[theirs] = figures([layer.state_dict()[theirs] for layer in layers])
    return found


def figures(tensors: list[torch.Tensor]) -> dict[str, float]:
    whole = torch.cat([tensor.detach().double().flatten() for tensor in tensors])
    numbers = {"mean": whole.mean(), "std": whole.std(), "low": whole.min(), "high": whole.max()}
    return {name: float(f"{float(number):.4g}") for name, number in numbers.items()}


if __name__ == "__main__":
    main()
