"""Records what PyTorch computes for the cases of pytorch_cases.py, in float64.

Run by hand (`python tests/support/record_pytorch.py`, needs PyTorch); tests read only the
numbers in pytorch_recorded.json.
"""

from __future__ import annotations

import json
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  as everybody calls it
from torch import Tensor

from pytorch_cases import CASES, RECORDED, inputs


def main() -> None:
    lines = [f"{json.dumps(name)}: {json.dumps(record(name))}" for name in CASES]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def record(name: str) -> dict[str, Any]:
    given = {key: torch.tensor(array, requires_grad=True) for key, array in inputs(name).items()}
    scope = {"F": F, "torch": torch}
    scope |= {"first": first, "last": last, "kernel": kernel, "turned": turned}
    y = eval(CASES[name].torch, scope, dict(given))
    torch.sum(y * y + y).backward()
    found = {"y": rounded(y)}
    return found | {f"d{key}": rounded(tensor.grad) for key, tensor in given.items()}


def first(x: Tensor) -> Tensor:
    return x.movedim(-1, 1)


def last(y: Tensor) -> Tensor:
    return y.movedim(1, -1)


def kernel(w: Tensor) -> Tensor:
    """From [kernel …, inputs, outputs]."""
    return w.movedim((-1, -2), (0, 1))


def turned(w: Tensor) -> Tensor:
    """Of a transposed convolution, from [kernel …, inputs, outputs]."""
    return w.movedim((-2, -1), (0, 1))


def rounded(x: Tensor | None) -> Any:
    assert x is not None
    if not x.shape:
        return float(f"{x.item():.7g}")
    return [rounded(part) for part in x]


if __name__ == "__main__":
    main()
