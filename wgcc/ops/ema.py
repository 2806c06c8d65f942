"""ema_update(e*n, p*n, [apply]; n, decay, gated) -> e*n: moving averages of the parameters."""

from __future__ import annotations

from collections.abc import Mapping

from wgcc.ir.graph import Attrs
from wgcc.lazy_numpy import Array
from wgcc.ops.dtypes import literal
from wgcc.ops.multi_tensor import update_op
from wgcc.ops.registry import Sample, UpdateForm


def form(attrs: Attrs) -> UpdateForm:
    rest = literal(1 - attrs["decay"], "f32")
    return UpdateForm(("e", "p"), (), ("e",), f"e = e + {rest} * (p - e);")


def step(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # e = decay e + (1 - decay) p
    return {"e": attrs["decay"] * values["e"] + (1 - attrs["decay"]) * values["p"]}


_LISTS = [(65,), (3, 5)] * 2

OPS = (
    update_op(
        "ema_update",
        form,
        step,
        [
            Sample(_LISTS, {"n": 2, "decay": 0.999, "gated": False}, differentiable=False),
            Sample([*_LISTS, ()], {"n": 2, "decay": 0.9, "gated": True}, differentiable=False),
        ],
    ),
)
