"""Random numbers that a model draws: given as inputs, they can be the same in two programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wgcc.from_onnx.infer import element_of
from wgcc.from_onnx.values import Value

RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike")
HIDDEN_NOISE = "it draws random numbers inside a loop, a branch or a function"


def feed_noise(model: Any, noise: Mapping[str, Value]) -> Any:
    """A copy of the model whose random numbers are inputs."""
    from onnx.helper import make_tensor_value_info

    copy = type(model)()
    copy.CopyFrom(model)
    graph = copy.graph
    kept = [node for node in graph.node if not (node.output and node.output[0] in noise)]
    del graph.node[:]
    graph.node.extend(kept)
    for name, value in noise.items():
        graph.input.append(make_tensor_value_info(name, element_of(value), value.shape))
    return copy
