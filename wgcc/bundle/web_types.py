"""index.d.ts: the types of one model. A wrong name, shape or element type does not compile."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from wgcc.bundle.web_text import template
from wgcc.ir.dtypes import DTYPE_TABLE

Plan = Mapping[str, Any]

# Members of every model; an entry with such a name can only be reached through `call`.
MEMBERS = {
    "plan", "device", "adapter", "lost", "progress", "checkFinite", "call", "fit", "params",
    "state", "loadParams", "reset", "save", "restore", "store", "recall", "snapshot", "recover",
    "profile", "dispose", "preparation", "classes", "callPrepared", "readData", "constructor",
    "then", "generate", "gradients", "apply", "undo", "tokens",
}  # fmt: skip

# Keywords of TypeScript, which cannot name a type, and types that this file declares.
TAKEN = {
    "any", "as", "async", "await", "bigint", "boolean", "break", "case", "catch", "class", "const",
    "continue", "debugger", "declare", "default", "delete", "do", "else", "enum", "export",
    "extends", "false", "finally", "for", "function", "if", "implements", "import", "in",
    "instanceof", "interface", "let", "never", "new", "null", "number", "object", "package",
    "private", "protected", "public", "return", "static", "string", "super", "switch", "symbol",
    "this", "throw", "true", "try", "type", "typeof", "undefined", "unknown", "var", "void",
    "while", "with", "yield", "Inputs", "Outputs", "Params", "State", "Training",
    *(row.array for row in DTYPE_TABLE.values()),
}  # fmt: skip


def declarations(plan: Plan) -> str:
    head, tail = template("bundle/index.d.ts").split("// MODEL\n")
    model, generator = plan["model"]["name"], plan["generator"]
    return "\n".join(
        [
            f"// Types of the model {model}, written by {generator}; do not edit.",
            head,
            *_ports(plan, "Inputs", "inputs", "In"),
            *_ports(plan, "Outputs", "outputs", "Out"),
            *_tensors(plan, "Params", "param"),
            *_tensors(plan, "State", "state"),
            *_meta(plan),
            *_methods(plan),
            tail,
        ]
    )


def _ports(plan: Plan, name: str, side: str, wrapper: str) -> Iterable[str]:
    yield f"/** The {side} of every entry. */"
    yield f"export interface {name} {{"
    for entry, spec in plan["entries"].items():
        fields = [
            f"readonly {port}: "
            + _type(plan["tensors"][key], wrapper, _takes_any_rows(spec, side, port))
            for port, key in spec[side].items()
        ]
        yield f"  {entry}: {{ {'; '.join(fields)} }};" if fields else f"  {entry}: {{}};"
    yield "}\n"


def _tensors(plan: Plan, name: str, role: str) -> Iterable[str]:
    yield f"export interface {name} {{"
    for key, tensor in plan["tensors"].items():
        if tensor["role"] == role:
            yield f"  readonly '{key}': {_type(tensor, 'Out')};"
    yield "}\n"


def _takes_any_rows(entry: Plan, side: str, port: str) -> bool:
    """Whether the leading size of an input or output is that of the call."""
    rows = entry.get("rows", {})
    forms = rows.get("outputs", {})
    return bool(forms) and (port in rows["inputs"] if side == "inputs" else forms[port] == "rows")


def _type(tensor: Mapping[str, Any], wrapper: str, any_rows: bool = False) -> str:
    shape = _shape(tensor, any_rows and tensor["shape"] != [1])
    return f"{wrapper}<{DTYPE_TABLE[tensor['dtype']].array}, {shape}>"


def _shape(tensor: Mapping[str, Any], any_rows: bool = False) -> str:
    sizes = [*map(str, tensor["shape"])]
    return f"readonly [{', '.join(['number', *sizes[1:]] if any_rows else sizes)}]"


def _meta(plan: Plan) -> Iterable[str]:
    def typed(keys: Mapping[str, str]) -> str:
        fields = [
            f"readonly '{name}': {{ readonly dtype: '{plan['tensors'][key]['dtype']}'; "
            f"readonly shape: {_shape(plan['tensors'][key])} }}"
            for name, key in keys.items()
        ]
        return f"{{ {'; '.join(fields)} }}" if fields else "{}"

    yield "/** Inputs, outputs, parameters and memory of the model. */"
    yield "export declare const meta: {"
    yield f"  readonly name: '{plan['model']['name']}';"
    yield "  readonly generator: string;"
    yield "  readonly entries: {"
    for entry, spec in plan["entries"].items():
        training = "true" if spec["training"] else "false"
        yield f"    readonly {entry}: {{ readonly training: {training};"
        yield f"      readonly inputs: {typed(spec['inputs'])};"
        yield f"      readonly outputs: {typed(spec['outputs'])} }};"
    yield "  };"
    params = {key: key for key, tensor in plan["tensors"].items() if tensor["role"] == "param"}
    yield f"  readonly params: {typed(params)};"
    yield "  readonly memory: Readonly<Record<string, number>>;"
    yield "};\n"


def _methods(plan: Plan) -> Iterable[str]:
    training = [name for name, spec in plan["entries"].items() if spec["training"]]
    yield "/** Entries that train. */"
    yield f"export type Training = {' | '.join(map(repr, training)) or 'never'};\n"
    yield "/** The loaded model: every entry is a method. */"
    model = _interface(plan["model"]["name"])
    yield f"export interface {model} extends Loaded {{"
    for entry, spec in plan["entries"].items():
        if entry in MEMBERS:
            continue
        if spec.get("doc"):
            yield f"  /** {' '.join(spec['doc'].split()).replace('*/', '* /')} */"
        optional = "" if spec["inputs"] else "?"
        # Without quotes, `new` would declare a constructor.
        method = f"'{entry}'" if entry == "new" else entry
        yield f"  {method}(inputs{optional}: Inputs['{entry}']): Promise<Outputs['{entry}']>;"
        options = f"options: {{ output: 'gpu' }}): Promise<GpuOutputs<'{entry}'>>;"
        yield f"  {method}(inputs: Inputs['{entry}'], {options}"
    yield "}\n"
    yield f"export declare function load(options?: LoadOptions): Promise<{model} & Closes>;"


def _interface(model: str) -> str:
    """The model's name, made longer if index.d.ts uses that name itself."""
    own = re.sub(r"/\*.*?\*/|//[^\n]*|'[^'\n]*'", "", template("bundle/index.d.ts"), flags=re.S)
    taken = TAKEN | set(re.findall(r"\w+", own))
    while model in taken:
        model += "Model"
    return model
