"""accumulate(acc*n, g*n, keep; n, weight) -> acc*n: gradients of several micro-batches added up.

`keep` is 1 to continue the sum and 0 to start a new one; `weight` is 1 / (number of batches).
"""

from __future__ import annotations

from collections.abc import Mapping

from wgcc.ir.graph import Attrs
from wgcc.lazy_numpy import Array, np
from wgcc.ops.dtypes import literal
from wgcc.ops.multi_tensor import update_op
from wgcc.ops.registry import Sample, UpdateForm


def form(attrs: Attrs) -> UpdateForm:
    weight = literal(attrs["weight"], "f32")
    wgsl = f"acc = select(Values(0.0f), acc, keep > 0.0f) + {weight} * g;"
    return UpdateForm(("acc", "g"), ("keep",), ("acc",), wgsl)


def step(values: Mapping[str, Array], attrs: Attrs) -> Mapping[str, Array]:
    # acc = keep acc + weight g, also when acc is not finite
    kept = np.where(values["keep"] > 0, values["acc"], 0)
    return {"acc": kept + attrs["weight"] * values["g"]}


OPS = (
    update_op(
        "accumulate",
        form,
        step,
        [
            Sample([*[(65,), (3, 5)] * 2, ()], {"n": 2, "weight": 0.25}, differentiable=False),
            Sample(
                [(7,), (7,), ()], {"n": 1, "weight": 0.5}, low=-2.0, high=-1.0, differentiable=False
            ),
        ],
    ),
)
