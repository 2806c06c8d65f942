"""Gradients before an update: accumulation over calls, their norm, clipping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

from wgcc.ir.builder import Builder
from wgcc.ir.graph import Node, Value
from wgcc.ir.state_names import CALLS, GRADIENT_SUM, OptimizerState
from wgcc.ops.formula import Term
from wgcc.ops.optimizers import OPTIMIZERS, OptimizerKind
from wgcc.passes.optimizer_settings import Settings
from wgcc.passes.optimizer_state import COUNTER, EntryState

# As in torch.nn.utils.clip_grad_norm_, where it avoids a division by a norm of 0.
NORM_EPS = 1e-6
CLIP_EACH = "clip_param_norm"


@dataclass(frozen=True, slots=True)
class Prepared:
    """The optimizer uses `grads` times `scale`; `norm` is their norm before clipping."""

    grads: Sequence[Value]
    norm: Term
    scale: Term
    apply: Term | None


@dataclass(frozen=True, slots=True)
class Gradients:
    """The gradients of one `minimize`, and where what is stored for them belongs."""

    b: Builder
    settings: Settings
    state: EntryState
    optimizer: str
    kind: OptimizerKind
    names: Sequence[str]
    grads: Sequence[Value]

    @property
    def one_by_one(self) -> bool:
        """Whether nodes other than multi-tensor ops read them, so that they are not in an arena."""
        clipped = self.settings.scalar(CLIP_EACH) is not None
        return clipped or self.kind.tensor_rule is not None


def one_by_one(node: Node) -> str:
    """Why gradients are not all in an arena before something reads one; "" if they are."""
    if node.op != "update":
        return ""
    optimizer, kind = node.attrs["optimizer"], node.attrs["kind"]
    if CLIP_EACH in node.attrs["settings"] or CLIP_EACH in node.attrs["dynamic"]:
        return f"`{CLIP_EACH}` of the optimizer `{optimizer}` reads gradients one by one"
    if OPTIMIZERS[kind].tensor_rule is not None:
        return f"the optimizer `{optimizer}` ({kind}) reads gradients one by one"
    return ""


def prepare(found: Gradients) -> Prepared:
    grads, apply = found.grads, None
    if (found.settings.fixed("accumulate") or 1) > 1:
        grads, apply = _accumulate(found)
    settings = found.settings
    squares = [_squares(found.b, g) for g in grads] if found.one_by_one else []
    total = reduce(add, squares) if squares else _all_squares(found, grads)
    norm, scale = total.apply("sqrt"), settings.number(1.0)
    loss_scale = settings.scalar("loss_scale")
    if loss_scale is not None:
        scale = loss_scale.apply("reciprocal")
        norm = norm * scale
    max_norm = settings.scalar("clip_norm")
    if max_norm is not None:
        scale = scale.apply("mul", _shrink(max_norm, norm), name=f"{found.optimizer}.scale")
    limit = settings.scalar(CLIP_EACH)
    if limit is not None:
        grads = [
            _limited(Term(found.b, g), _shrink(limit, square.apply("sqrt") * scale))
            for g, square in zip(grads, squares, strict=True)
        ]
    return Prepared(grads, norm, -scale if settings.fixed("maximize") else scale, apply)


def _all_squares(found: Gradients, grads: Sequence[Value]) -> Term:
    name = f"{found.optimizer}.sum_squares"
    return Term(found.b, found.b.apply("sum_squares", *grads, n=len(grads), name=name))


def _squares(b: Builder, gradient: Value) -> Term:
    """Σ g² of one gradient."""
    return Term(b, gradient).square().sum(range(len(gradient.shape)))


def _shrink(most: Term, norm: Term) -> Term:
    """min(1, most / (norm + eps))."""
    return (most / (norm + NORM_EPS)).apply("minimum", norm.like(1.0))


def _limited(gradient: Term, factor: Term) -> Value:
    return (gradient * factor.broadcast(gradient.shape)).value


def _accumulate(found: Gradients) -> tuple[Sequence[Value], Term]:
    """The mean over `accumulate` calls; the flag is 1 in the last of them, else 0."""
    b, state, optimizer = found.b, found.state, found.optimizer
    calls = int(found.settings.fixed("accumulate"))
    micro_name = OptimizerState(optimizer, CALLS).name
    micro = Term(b, state.read(micro_name, COUNTER))
    is_last = micro.equals(calls - 1)
    state.write(micro_name, is_last.choose(micro.like(0), micro + 1).value)
    places = [OptimizerState(optimizer, GRADIENT_SUM, name).name for name in found.names]
    sums = [state.read(place, grad.type) for place, grad in zip(places, found.grads, strict=True)]
    more = micro.exceeds(0)
    added = _added_one_by_one if found.one_by_one else _added_at_once
    results = added(found, places, sums, more, 1 / calls)
    for place, value in zip(places, results, strict=True):
        state.write(place, value)
    return results, is_last.cast("f32")


def _added_at_once(
    found: Gradients, places: Sequence[str], sums: Sequence[Value], more: Term, weight: float
) -> Sequence[Value]:
    return found.b.apply_many(
        "accumulate",
        *sums,
        *found.grads,
        more.cast("f32").value,
        names=tuple(f"{place}.new" for place in places),
        n=len(sums),
        weight=weight,
    )


def _added_one_by_one(
    found: Gradients, places: Sequence[str], sums: Sequence[Value], more: Term, weight: float
) -> Sequence[Value]:
    results = []
    for before, gradient in zip(sums, found.grads, strict=True):
        kept = more.broadcast(before.shape).choose(Term(found.b, before), 0.0)
        results.append((kept + Term(found.b, gradient) * weight).value)
    return results
