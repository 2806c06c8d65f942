"""Gradients before an update: accumulation over calls, their norm, clipping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Value
from wgcc.ir.state_names import CALLS, GRADIENT_SUM, OptimizerState
from wgcc.ops.formula import Term
from wgcc.passes.optimizer_settings import Settings
from wgcc.passes.optimizer_state import COUNTER, EntryState

# As in torch.nn.utils.clip_grad_norm_, where it avoids a division by a norm of 0.
NORM_EPS = 1e-6


@dataclass(frozen=True, slots=True)
class Prepared:
    """The optimizer uses `grads` times `scale`; `norm` is their norm before clipping."""

    grads: Sequence[Value]
    norm: Term
    scale: Term
    apply: Term | None


def prepare(
    b: Builder,
    settings: Settings,
    state: EntryState,
    optimizer: str,
    names: Sequence[str],
    grads: Sequence[Value],
) -> Prepared:
    apply = None
    if (settings.fixed("accumulate") or 1) > 1:
        grads, apply = _accumulate(b, settings, state, optimizer, names, grads)
    total = Term(b, b.apply("sum_squares", *grads, n=len(grads), name=f"{optimizer}.sum_squares"))
    norm, scale = total.apply("sqrt"), settings.number(1.0)
    loss_scale = settings.scalar("loss_scale")
    if loss_scale is not None:
        scale = loss_scale.apply("reciprocal")
        norm = norm * scale
    max_norm = settings.scalar("clip_norm")
    if max_norm is not None:
        # min(1, max_norm / (norm + eps))
        factor = (max_norm / (norm + NORM_EPS)).apply("minimum", norm.like(1.0))
        scale = scale.apply("mul", factor, name=f"{optimizer}.scale")
    return Prepared(grads, norm, scale, apply)


def _accumulate(
    b: Builder,
    settings: Settings,
    state: EntryState,
    optimizer: str,
    names: Sequence[str],
    grads: Sequence[Value],
) -> tuple[Sequence[Value], Term]:
    """The mean over `accumulate` calls; the flag is 1 in the last of them, else 0."""
    calls = int(settings.fixed("accumulate"))
    micro_name = OptimizerState(optimizer, CALLS).name
    micro = Term(b, state.read(micro_name, COUNTER))
    is_last = micro.equals(calls - 1)
    state.write(micro_name, is_last.choose(micro.like(0), micro + 1).value)
    keep = micro.exceeds(0).cast("f32")
    places = [OptimizerState(optimizer, GRADIENT_SUM, name).name for name in names]
    sums = [state.read(place, grad.type) for place, grad in zip(places, grads, strict=True)]
    found = b.apply_many(
        "accumulate",
        *sums,
        *grads,
        keep.value,
        names=tuple(f"{place}.new" for place in places),
        n=len(grads),
        weight=1 / calls,
    )
    for place, value in zip(places, found, strict=True):
        state.write(place, value)
    return found, is_last.cast("f32")
