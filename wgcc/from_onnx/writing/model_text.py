"""A whole model file: dims, layers, the model with its entries."""

from __future__ import annotations

from dataclasses import dataclass

from wgcc.from_onnx.training_options import Training
from wgcc.from_onnx.values import Constant, Member, Traced, Value
from wgcc.from_onnx.writing.blocks import make_blocks
from wgcc.from_onnx.writing.text import (
    BlockText,
    LayerType,
    ModelText,
    Written,
    clean,
    collect_weights,
    held_type,
    indent,
)
from wgcc.from_onnx.writing.trained_output import Trained, trained_output
from wgcc.from_onnx.writing.training import (
    Loss,
    Ports,
    corrected,
    places,
    remark_frozen,
    selectors,
    training_text,
)
from wgcc.ir.dtypes import FLOATS

# What the model itself declares.
OWN_NAMES = frozenset({"eval", "forward", "opt", "predict", "target", "train"})


@dataclass(frozen=True, slots=True)
class Heading:
    """What a file begins with. `sizes` are names that its values must not have."""

    name: str
    title: str
    sizes: frozenset[str] = frozenset()


def write_model(
    traced: Traced, heading: Heading, reserved: frozenset[str], training: Training
) -> Written:
    trained = trained_output(traced, training) if training.is_wanted else None
    traced = trained.traced if trained else traced
    root = make_blocks(traced)
    constants = _constant_outputs(traced)
    root.members += constants.values()
    model = ModelText(reserved | OWN_NAMES | {heading.name} | heading.sizes)
    body = BlockText(model, root)
    inputs = {key: body.names[value] for key, value in traced.inputs.items()}
    statements = body.lines()[:-1]
    returned = [
        body.names[constants[key] if isinstance(value, Constant) else value]
        for key, value in traced.outputs.items()
    ]
    outputs = _output_names(traced, set(inputs.values()) | set(body.member_names))
    ports = ", ".join(
        f"{inputs[key]}: {_input_type(value, key in traced.any_floats)}"
        for key, value in traced.inputs.items()
    )
    types = [held_type(value.dtype, value.shape) for value in traced.outputs.values()]
    given = ", ".join(f"{outputs[key]}: {held}" for key, held in zip(outputs, types, strict=True))
    kind = LayerType(heading.name, "", body.member_names, body.block_names)
    text = ["", *traced.layers.values(), *model.layers, f"model {heading.name} {{"]
    text = [f"/// {heading.title}", "wg 1", *text, *indent(body.declarations)]
    if trained is None:
        text += ["", f"  entry predict({ports}) -> ({given}) {{", *indent(indent(statements))]
        text += [f"    return {', '.join(returned)}", "  }"]
    else:
        found = list(places(root, kind, model))
        replaced = ", ".join(f'"{path}"' for path in corrected(training, found))
        text += [f"  replace {replaced} with Lora(rank = {training.rank})"] if replaced else []
        result = types[0] if len(types) == 1 else f"({', '.join(types)})"
        text += ["", f"  fn forward({_plain(ports)}) -> {result} {{", *indent(indent(statements))]
        text += [f"    return {', '.join(returned)}", "  }", ""]
        chosen = f"[{trained.place}]" if len(types) > 1 else ""
        own = Ports(ports, ", ".join(inputs.values()), chosen)
        over = selectors(training, found)
        remark_frozen(traced, training, found)
        of_loss = Loss(trained.loss, trained.output.shape, trained.axis)
        text += indent(training_text(training, own, of_loss, over))
        text += indent(_predict_text(own, given, trained, len(types)))
    weights = collect_weights(root, kind, "", model)
    return Written("\n".join([*text, "}", ""]), weights, inputs, outputs)


def _plain(ports: str) -> str:
    """Only entries say which inputs may hold NaN."""
    return ports.replace("?", "")


def _predict_text(ports: Ports, given: str, trained: Trained, count: int) -> list[str]:
    heading = f"entry predict({ports.declared}) -> ({given})"
    called = f"forward({ports.passed})"
    if not trained.function:
        return [f"{heading} = {called}"]
    if count == 1:
        return [f"{heading} = {trained.predicted(called)}"]
    items = [trained.predicted(f"y[{n}]") if n == trained.place else f"y[{n}]"
             for n in range(count)]  # fmt: skip
    return [f"{heading} {{", f"  y = {called}", f"  return {', '.join(items)}", "}"]


def _constant_outputs(traced: Traced) -> dict[str, Member]:
    """Outputs that do not depend on inputs are frozen parameters."""
    found = {}
    for key, value in traced.outputs.items():
        if isinstance(value, Constant):
            kind = f"frozen param {{name}}: {held_type(value.dtype, value.shape)} ~ external"
            found[key] = Member(kind, {"": value.array}, key)
    return found


def _output_names(traced: Traced, taken: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in traced.outputs:
        name, number = clean(key), 1
        while name in taken or name in found.values():
            number += 1
            name = f"{clean(key)}_{number}"
        found[key] = name
    return found


def _input_type(value: Value, any_float: bool) -> str:
    dtype = value.dtype + "?" * (any_float and value.dtype in FLOATS)
    return held_type(dtype, value.shape)
