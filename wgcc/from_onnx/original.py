"""Runs an ONNX model as it is: by onnxruntime, or by ONNX's own reference.

Random numbers that it draws can be given as inputs, so that they are the same in two programs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import count
from typing import Any

from wgcc.errors import WgError
from wgcc.from_onnx.infer import element_of
from wgcc.from_onnx.values import Computed
from wgcc.lazy_numpy import Array, np

# How onnxruntime begins a message.
_CODES = r"^(\[ONNXRuntimeError\] : \d+ : \w+ : )?"


def run_onnx(model: Any, inputs: Mapping[str, Array]) -> tuple[dict[str, Array], str]:
    """The outputs by name, and what computed them.

    That is onnxruntime; ONNX's own reference where it is not installed, or refuses the file.
    """
    names = [port.name for port in model.graph.output]
    model = _with_all_outputs(model)
    try:
        return dict(zip(names, _by_onnxruntime(model, names, inputs), strict=True)), "onnxruntime"
    except Exception as refused:
        return _by_reference(model, names, inputs, refused), "onnx.reference"


def _by_reference(
    model: Any, names: list[str], inputs: Mapping[str, Array], refused: Exception
) -> dict[str, Array]:
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):
            outputs = ReferenceEvaluator(model).run(names, dict(inputs))
    except Exception:
        raise WgError(
            f"the original cannot be run for a comparison: {_reason(refused)}; give it other "
            "numbers with --inputs FILE.npz, or import without a comparison: --no-compare"
        ) from None
    return dict(zip(names, outputs, strict=True))


def _with_all_outputs(model: Any) -> Any:
    """Names results of loops that nothing reads: onnxruntime crashes without names."""
    copy = type(model).FromString(model.SerializeToString())
    number = count()
    graphs = [copy.graph, *copy.functions]
    for graph in graphs:
        for node in graph.node:
            inner = [item.g for item in node.attribute if item.HasField("g")]
            graphs += inner
            if node.op_type == "Loop" and inner:
                missing = len(inner[0].output) - 1 - len(node.output)
                given = [*node.output, *[""] * missing]
                node.output[:] = [name or f"wgcc.unread.{next(number)}" for name in given]
    return copy


def _by_onnxruntime(model: Any, names: list[str], inputs: Mapping[str, Array]) -> list[Array]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # Its optimisations compute some products of bytes less exactly.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(names, dict(inputs)))


def _reason(error: Exception) -> str:
    """The message of onnxruntime without its error codes."""
    if isinstance(error, ImportError):
        return "onnxruntime is not installed, and ONNX's reference cannot run it"
    text = (str(error).strip().splitlines() or ["it says no more"])[0]
    return f"onnxruntime: {re.sub(_CODES, '', text)[:200]}"


HIDDEN_NOISE = "it draws random numbers inside a loop, a branch or a function"


def feed_noise(model: Any, noise: Mapping[str, Computed]) -> Any:
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
