"""A whole model file: dims, layers, the model with its entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wgcc.errors import WgError
from wgcc.from_onnx.literals import finite
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
from wgcc.from_onnx.writing.training import Training, corrected, places, selectors, train_entry

# What the model itself declares.
OWN_NAMES = frozenset({"forward", "opt", "predict", "target", "train"})


@dataclass(frozen=True, slots=True)
class Heading:
    """What a file begins with. `dims`: the axes of inputs whose sizes have names."""

    name: str
    title: str
    dims: Mapping[str, Mapping[int, str]]
    sizes: Mapping[str, int]


def write_model(
    traced: Traced, heading: Heading, reserved: frozenset[str], training: Training
) -> Written:
    root = make_blocks(traced)
    constants = _constant_outputs(traced)
    root.members += constants.values()
    model = ModelText(reserved | OWN_NAMES | {heading.name, *heading.sizes})
    body = BlockText(model, root)
    inputs = {key: body.names[value] for key, value in traced.inputs.items()}
    statements = body.lines()[:-1]
    returned = [
        body.names[constants[key] if isinstance(value, Constant) else value]
        for key, value in traced.outputs.items()
    ]
    outputs = _output_names(traced, set(inputs.values()) | set(body.member_names))
    ports = ", ".join(
        f"{inputs[key]}: {_input_type(value, heading.dims.get(key, {}))}"
        for key, value in traced.inputs.items()
    )
    types = [held_type(value.dtype, value.shape) for value in traced.outputs.values()]
    given = ", ".join(f"{outputs[key]}: {held}" for key, held in zip(outputs, types, strict=True))
    kind = LayerType(heading.name, "", body.member_names, body.block_names)
    text = [f"/// {heading.title}", "wg 1"]
    if heading.sizes:
        text.append("dim " + ", ".join(f"{key} = {n}" for key, n in heading.sizes.items()))
    text += ["", *traced.layers.values(), *model.layers, f"model {heading.name} {{"]
    text += indent(body.declarations)
    if not training.is_wanted:
        text += ["", f"  entry predict({ports}) -> ({given}) {{", *indent(indent(statements))]
        text += [f"    return {', '.join(returned)}", "  }"]
    else:
        found = list(places(root, kind, model))
        replaced = ", ".join(f'"{path}"' for path in corrected(training, found))
        text += [f"  replace {replaced} with Lora(rank = {training.rank})"] if replaced else []
        result = types[0] if len(types) == 1 else f"({', '.join(types)})"
        text += ["", f"  fn forward({ports}) -> {result} {{", *indent(indent(statements))]
        text += [f"    return {', '.join(returned)}", "  }", ""]
        arguments = ", ".join(inputs.values())
        place, output = _trained_output(traced, training)
        chosen = "forward(ARGUMENTS)" + (f"[{place}]" if len(types) > 1 else "")
        over = selectors(training, found)
        is_probability = _ends_in_softmax(traced, output)
        text += indent(
            train_entry(training, ports, arguments, output, chosen, is_probability, over)
        )
        text += [f"  entry predict({ports}) -> ({given}) = forward({arguments})"]
    weights = collect_weights(root, kind, "", model)
    return Written("\n".join([*text, "}", ""]), weights, inputs, outputs)


def _trained_output(traced: Traced, training: Training) -> tuple[int, Value]:
    """The output that the loss is computed of: the one that is named, or the first of floats."""
    for place, (key, value) in enumerate(traced.outputs.items()):
        if training.output not in (None, key) or not isinstance(value, Value):
            continue
        if value.dtype == "f32" and value.shape:
            return place, value
    names = ", ".join(traced.outputs)
    wanted = (
        f"no output `{training.output}` of floats" if training.output else "no output of floats"
    )
    raise WgError(f"--train: there is {wanted}: the model has {names}")


def _ends_in_softmax(traced: Traced, output: Value) -> bool:
    made = {value: item for item in traced.statements for value in item.outputs}
    found = made.get(output)
    while found is not None and (found.text == "{0}" or found.text.startswith("rearrange(")):
        part = found.parts[0]
        found = made.get(part) if isinstance(part, Value) else None
    return found is not None and found.text.startswith("softmax(")


def _constant_outputs(traced: Traced) -> dict[str, Member]:
    """Outputs that do not depend on inputs are frozen parameters."""
    found = {}
    for key, value in traced.outputs.items():
        if isinstance(value, Constant):
            kind = f"frozen param {{name}}: {held_type(value.dtype, value.shape)} ~ external"
            found[key] = Member(kind, {"": finite(value.array)}, key)
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


def _input_type(value: Value, names: Mapping[int, str]) -> str:
    return held_type(value.dtype, [names.get(axis, size) for axis, size in enumerate(value.shape)])
