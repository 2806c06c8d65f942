"""Records runs of PyTorch's optimizers in float64.

Run by hand (`python tests/support/record_optimizers.py`, needs PyTorch); tests read only the
numbers in optimizer_recorded.json.
"""

from __future__ import annotations

import json
from typing import Any

import torch

from optimizer_cases import CASES, RECORDED, STEPS, Case, batch, initial

KINDS = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
    "adadelta": torch.optim.Adadelta,
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "adafactor": torch.optim.Adafactor,
    "muon": torch.optim.Muon,
}
# Settings that are no arguments of PyTorch's optimizers.
OTHERS = ("clip_norm", "clip_value", "clip_param_norm", "accumulate", "ema", "loss_scale")
# The precision of f32, which PyTorch would take from the parameters, f64 here.
ADAFACTOR_EPS = (2.0**-23, 1e-3)


def main() -> None:
    torch.set_default_dtype(torch.float64)
    # Muon iterates in bfloat16, of which only two digits would agree.
    torch.Tensor.bfloat16 = lambda self: self.clone()  # type: ignore[method-assign]
    lines = [
        f"{json.dumps(name)}: {json.dumps(record(case))}"
        for name, case in CASES.items()
        if case.kind in KINDS
    ]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def record(case: Case) -> dict[str, Any]:
    params = {name: torch.tensor(array, requires_grad=True) for name, array in initial().items()}
    if case.only_matrix:
        params["b"].requires_grad_(False)
    shadows = {name: param.detach().clone() for name, param in params.items()}
    chosen = make_optimizer(case, params)
    schedule = torch.optim.lr_scheduler.LambdaLR(chosen, lambda done: case.decay_rate ** (done + 1))
    calls, losses, norms = case.settings.get("accumulate", 1), [], []
    for step in range(STEPS):
        x, y = map(torch.tensor, batch(step))
        loss = ((x @ params["w"] + params["b"] - y) ** 2).mean()
        (loss / calls).backward()
        losses.append(loss.item())
        if (step + 1) % calls:
            continue
        norms.append(clip(case, list(params.values())))
        chosen.step()
        schedule.step()
        chosen.zero_grad()
        for name, shadow in shadows.items():
            shadow.lerp_(params[name].detach(), 1 - case.settings.get("ema", 0.0))
    result: dict[str, Any] = {"losses": losses, "norms": norms, **numbers(params)}
    return {**result, "ema": numbers(shadows)} if "ema" in case.settings else result


def numbers(tensors: dict[str, torch.Tensor]) -> dict[str, list[float]]:
    return {name: tensor.detach().flatten().tolist() for name, tensor in tensors.items()}


def make_optimizer(case: Case, params: dict[str, torch.Tensor]) -> torch.optim.Optimizer:
    own = {name: value for name, value in case.settings.items() if name not in OTHERS}
    if case.only_matrix:
        return Transposed(params["w"], own)
    if case.kind == "adafactor":
        own.setdefault("eps", ADAFACTOR_EPS)
    bias = {"weight_decay": case.bias["weight_decay"]} if "weight_decay" in case.bias else {}
    bias_lr = own["lr"] * case.bias.get("lr_scale", 1.0)
    groups = [{"params": [params["w"]]}, {"params": [params["b"]], "lr": bias_lr, **bias}]
    return KINDS[case.kind](groups, **own)


class Transposed(torch.optim.Muon):
    """Muon of `x @ w`, where PyTorch's layers compute `x @ w.T`."""

    def __init__(self, w: torch.Tensor, settings: dict[str, Any]) -> None:
        self.w, self.turned = w, torch.nn.Parameter(w.detach().T.clone())
        super().__init__([self.turned], **settings)

    def step(self, closure: Any = None) -> None:
        self.turned.grad = self.w.grad.T.clone() if self.w.grad is not None else None
        super().step()
        with torch.no_grad():
            self.w.copy_(self.turned.T)

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.w.grad = None


def clip(case: Case, params: list[torch.Tensor]) -> float:
    limit = case.settings.get("clip_norm", float("inf"))
    norm = torch.nn.utils.clip_grad_norm_([p for p in params if p.requires_grad], limit)
    if "clip_param_norm" in case.settings:
        for param in params:
            torch.nn.utils.clip_grad_norm_(param, case.settings["clip_param_norm"])
    if "clip_value" in case.settings:
        torch.nn.utils.clip_grad_value_(params, case.settings["clip_value"])
    return norm.item()


if __name__ == "__main__":
    main()
