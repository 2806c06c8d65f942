"""Layer norms of sums, and embeddings with theirs."""

from __future__ import annotations

from wgcc.from_onnx.microsoft.body import Body, Definition


def skip_layer_norm(body: Body) -> list[str]:
    """The norm of input + skip (+ bias); the fourth output is that sum."""
    total = _sum(body, 0, 1, 4)
    return [_layer_norm(body, total, body.input(2), body.optional(3)), "", "", total]


def skip_rms_norm(body: Body) -> list[str]:
    total = _sum(body, 0, 1, 3)
    return [_rms_norm(body, total, body.input(2)), "", "", total]


def _sum(body: Body, *places: int) -> str:
    total = body.input(places[0])
    for place in places[1:]:
        total = body.add("Add", total, body.input(place)) if body.has(place) else total
    return total


def _layer_norm(body: Body, x: str, gain: str, shift: str) -> str:
    y: str = body.add(
        "LayerNormalization", x, gain, shift, epsilon=float(body.attribute("epsilon", 1e-12))
    )
    return y


def _rms_norm(body: Body, x: str, gain: str) -> str:
    square = body.add("Pow", x, body.number(2.0))
    mean = body.add("ReduceMean", square, body.whole(-1))
    shifted = body.add("Add", mean, body.number(float(body.attribute("epsilon", 1e-12))))
    scaled = body.add("Div", x, body.add("Sqrt", shifted))
    y: str = body.add("Mul", scaled, gain)
    return y


def embed_layer_norm(body: Body) -> list[str]:
    """Words, positions and segments; the second output counts the mask's ones in each row."""
    rows, length = body.shape(0)
    words = body.add("Gather", body.input(2), body.input(0))
    places = body.input(8) if body.has(8) else body.whole(*range(length))
    total = body.add("Add", words, body.add("Gather", body.input(3), places))
    if body.has(4) and body.has(1):
        total = body.add("Add", total, body.add("Gather", body.input(4), body.input(1)))
    normed = _layer_norm(body, total, body.input(5), body.input(6))
    if body.has(7):
        counted = body.add("ReduceSum", body.input(7), body.whole(1), keepdims=0)
    else:
        counted = body.whole(*[0] * rows)
    return [normed, counted, total]


DEFINITIONS: dict[str, Definition] = {
    "SkipLayerNormalization": skip_layer_norm,
    "SkipSimplifiedLayerNormalization": skip_rms_norm,
    "EmbedLayerNormalization": embed_layer_norm,
}
