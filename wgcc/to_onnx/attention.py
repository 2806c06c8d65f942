"""Attention whose rows see keys that are known: others are written out by simpler ops."""

from __future__ import annotations

from wgcc.ir.graph import Node
from wgcc.lazy_numpy import Array, np
from wgcc.ops.attention import AttentionScope
from wgcc.to_onnx.emitter import Call


def attention(call: Call) -> str:
    """softmax(q kᵀ scale) v, with keys and values repeated for groups of queries."""
    q, k, v = call.node.inputs[:3]
    names = dict(zip(call.node.inputs, call.inputs, strict=True))
    groups = q.shape[1] // k.shape[1]
    keys, values = (_repeated(call, names[item], item.shape, groups) for item in (k, v))
    scores = call.to.node("MatMul", names[q], call.to.transpose(keys, (0, 1, 3, 2)))
    scores = call.to.node("Mul", scores, call.to.number_of(float(call.attr("scale"))))
    visible = _visible(call.node)
    if visible is not None:
        hidden = np.where(visible, 0, -1e30).astype(np.float32)
        scores = call.to.node("Add", scores, call.to.store(hidden, "mask"))
    shares = call.to.node("Softmax", scores, axis=-1)
    return call.to.node("MatMul", shares, values, name=call.name)


def _repeated(call: Call, x: str, shape: tuple[int, ...], groups: int) -> str:
    if groups == 1:
        return x
    b, h, t, d = shape
    split = call.to.reshape(x, (b, h, 1, t, d))
    wide = call.to.node("Expand", split, call.to.whole((b, h, groups, t, d)))
    return call.to.reshape(wide, (b, h * groups, t, d))


def _visible(node: Node) -> Array | None:
    """Which keys each row sees by its position; None if it sees all."""
    causal, window = node.attrs["causal"], node.attrs["window"]
    if not causal and window is None:
        return None
    return AttentionScope(causal, window).visible(
        node.inputs[0].shape[2], node.inputs[1].shape[2], 0
    )


def is_plain_attention(node: Node) -> bool:
    """Without a mask or a position that is found at run time, and no row sees no key."""
    visible = _visible(node)
    return len(node.inputs) == 3 and (visible is None or bool(visible.any(-1).all()))
