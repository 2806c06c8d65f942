"""The files that make a bundle run on the web: ES module, types, npm package, README and page.

Everything is derived from the plan and the bundle's other files, not from the schedule. A wrong
name, shape or element type does not compile with the types of index.d.ts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from math import prod
from typing import Any

from wgcc.bundle.content import preparation_text_of
from wgcc.bundle.javascript import (
    bytes_literal,
    fill,
    kernels_literal,
    package_name,
    plan_literal,
    script_template,
    seal_text,
    template,
)
from wgcc.bundle.owned import OFFLINE
from wgcc.bundle.page import TOKENS, page_html, served_files, shipped_files
from wgcc.bundle.plan import TOKENIZER, run_count, with_guard
from wgcc.ir.dtypes import DTYPE_TABLE

Plan = Mapping[str, Any]
Files = Mapping[str, bytes]
# The npm package holds everything once: the contents of these files are in index.js and kernels.js.
# (npm packs package.json and README.md in any case.)
_NOT_PACKED = (
    "plan.json", "constants.safetensors", "kernels/", "subgroups/", "index.html", "package.json",
    "README.md",
)  # fmt: skip


def web_files(plan: Plan, files: Files, large: Mapping[str, int] | None = None) -> dict[str, bytes]:
    """`files`: the bundle so far: plan.json, kernels, weights, constants and the source.

    `large`: sizes of the files that no other may contain.
    """
    large = large or {}
    seal = seal_text(files)
    names, runtime = [*files, *large], shipped_files(files)
    texts = {
        "index.js": _index(plan, files, names, seal),
        "kernels.js": _kernels(plan, files),
        "index.d.ts": declarations(plan),
        **runtime,
        "package.json": _package(plan, names),
        "README.md": readme(plan, files),
        "index.html": page_html(plan, files, large, seal),
        **served_files(plan, files),
    }
    written = {name: text.encode("utf-8") for name, text in texts.items()}
    return {**written, OFFLINE: _offline({**files, **written}, large).encode("utf-8")}


def _offline(files: Files, large: Mapping[str, int]) -> str:
    """A service worker that keeps what served.html and index.js load; pages may ask for it."""
    unused = (*_NOT_PACKED, "index.d.ts", OFFLINE)
    names = sorted(name for name in (*files, *large) if not name.startswith(unused))
    digest = hashlib.sha256()
    for name in names:
        content = files[name] if name in files else str(large[name]).encode()
        digest.update(hashlib.sha256(content).digest())
    return fill(
        script_template("bundle/offline.js"),
        DIGEST=digest.hexdigest()[:16],
        LIST=json.dumps(names, separators=(",", ":")),
    )


def _index(plan: Plan, files: Files, names: Collection[str], seal: str) -> str:
    """`names`: every file, also those that are too large to be given."""
    # Written out, because web bundlers look for exactly this expression.
    urls = {
        name: f"()=>new URL('./{name}',import.meta.url)" if name in names else "undefined"
        for name in ("weights.safetensors", "twin.wasm", TOKENIZER)
    }
    return fill(
        script_template("bundle/index.js"),
        MODEL=plan["model"]["name"],
        GENERATOR=plan["generator"],
        SOURCE=plan["model"]["source"],
        PLAN=plan_literal(files),
        WEIGHTS=urls["weights.safetensors"],
        TWIN=urls["twin.wasm"],
        TOKENS=f"()=>import('./{TOKENS}')" if TOKENIZER in files else "undefined",
        TOKENIZER=urls[TOKENIZER],
        CONSTANTS=bytes_literal(files.get("constants.safetensors")),
        PREPARATION=preparation_text_of(files) or "undefined",
        SEAL=seal,
    )


def _kernels(plan: Plan, files: Files) -> str:
    return fill(
        script_template("bundle/kernels.js"),
        MODEL=plan["model"]["name"],
        KERNELS=kernels_literal(files),
    )


def _package(plan: Plan, files: Collection[str]) -> str:
    model = plan["model"]["name"]
    others = [name for name in files if not name.startswith(_NOT_PACKED)]
    names = ["index.js", "kernels.js", "index.d.ts", *shipped_files(files), "served.html", *others]
    kept = dict.fromkeys(name.partition("/")[0] for name in names)
    facts = {
        "name": package_name(model),
        "private": True,
        "license": "MIT",
        "version": str(plan["generator"]).rpartition(" ")[2],
        "description": f"The model {model}, compiled by wgcc: trains and predicts on WebGPU",
        "type": "module",
        "main": "./index.js",
        "types": "./index.d.ts",
        "exports": {".": {"types": "./index.d.ts", "default": "./index.js"}, "./*": "./*"},
        "files": list(kept),
        "sideEffects": False,
    }
    return json.dumps(facts, indent=2) + "\n"


def readme(plan: Plan, files: Mapping[str, bytes]) -> str:
    params = {name: t for name, t in plan["tensors"].items() if t["role"] == "param"}
    names = sorted(plan["entries"], key=lambda name: not plan["entries"][name]["training"])
    return fill(
        template("bundle/README.md"),
        MODEL=plan["model"]["name"],
        PACKAGE=package_name(plan["model"]["name"]),
        SOURCE=plan["model"]["source"],
        GENERATOR=plan["generator"],
        ABOUT=_about(files[plan["model"]["source"]].decode("utf-8")),
        ENTRIES="\n".join(_entries(plan)),
        PARAMETERS="\n".join(_parameters(params)),
        COUNT=f"{sum(prod(t['shape']) for t in params.values()):,}",
        MEMORY=f"{with_guard(plan['memory']):,}",
        KERNELS=str(len(plan["kernels"])),
        TRY=_try_js(plan, names[0]) if names else "",
        TRY_PYTHON=_try_python(plan, names[0]) if names else "",
    )


def _about(source: str) -> str:
    """The doc comment at the top of the model file."""
    comment = re.match(r"(?:\s*///[^\n]*\n)*", source)
    lines = comment[0].splitlines() if comment else []
    text = " ".join(line.strip().removeprefix("///").strip() for line in lines)
    return text.strip() or "A neural network."


def _entries(plan: Plan) -> Iterable[str]:
    for name, entry in plan["entries"].items():
        inputs = ", ".join(f"{k}: {_short_type(plan, t)}" for k, t in entry["inputs"].items())
        outputs = ", ".join(f"{k}: {_short_type(plan, t)}" for k, t in entry["outputs"].items())
        any_rows = " any number of rows" if entry.get("rows", {}).get("outputs") else ""
        kind = "trains" if entry["training"] else f"predicts{any_rows}"
        work = f"{kind}, {run_count(entry)} dispatches"
        yield f"| `{name}` | `{inputs}` | `{outputs}` | {work} |"


def _short_type(plan: Plan, key: str) -> str:
    tensor = plan["tensors"][key]
    shape = f"[{', '.join(map(str, tensor['shape']))}]" if tensor["shape"] else ""
    return f"{tensor['dtype']}{shape}"


def _parameters(params: Plan) -> Iterable[str]:
    for name, tensor in params.items():
        yield f"| `{name}` | {tensor['dtype']} | {' × '.join(map(str, tensor['shape'])) or '1'} |"


def _try_js(plan: Plan, name: str) -> str:
    entry = plan["entries"][name]
    inputs = ", ".join(entry["inputs"])
    if entry["training"]:
        option = "" if name == "train" else f", entry: '{name}'"
        loop = f"model.fit({{ {inputs} }}, {{ steps: 1000{option} }})"
        return f"for await (const {{ step, loss }} of {loop}) console.log(step, loss);"
    return f"const {{ {', '.join(entry['outputs'])} }} = await model.{name}({{ {inputs} }});"


def _try_python(plan: Plan, name: str) -> str:
    entry = plan["entries"][name]
    if entry["training"]:
        inputs = ", ".join(f'"{port}": {port}' for port in entry["inputs"])
        option = "" if name == "train" else f', entry="{name}"'
        return f"model.fit({{{inputs}}}, steps=1000{option})"
    return f"model.{name}({', '.join(f'{port}={port}' for port in entry['inputs'])})"


# Members of every model; an entry with such a name can only be reached through `call`.
MEMBERS = {
    "plan", "device", "adapter", "lost", "progress", "checkFinite", "call", "fit", "params",
    "state", "loadParams", "reset", "save", "restore", "store", "recall", "snapshot", "recover",
    "profile", "dispose", "preparation", "classes", "callPrepared", "readData", "constructor",
    "then", "generate", "gradients", "apply", "undo", "tokens", "captured", "chat",
    "loadAdapter", "saveAdapter", "mergeAdapter",
}  # fmt: skip

# Keywords of TypeScript, which cannot name a type, and types that this file declares.
TAKEN = {
    "any", "as", "async", "await", "bigint", "boolean", "break", "case", "catch", "class", "const",
    "continue", "debugger", "declare", "default", "delete", "do", "else", "enum", "export",
    "extends", "false", "finally", "for", "function", "if", "implements", "import", "in",
    "instanceof", "interface", "let", "never", "new", "null", "number", "object", "package",
    "private", "protected", "public", "return", "static", "string", "super", "switch", "symbol",
    "this", "throw", "true", "try", "type", "typeof", "undefined", "unknown", "var", "void",
    "while", "with", "yield", "Captures", "Inputs", "Outputs", "Params", "State",
    "Training",
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
            *_captures(plan),
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


def _captures(plan: Plan) -> Iterable[str]:
    yield "/** What every entry captures, by name. */"
    yield "export interface Captures {"
    for entry, spec in plan["entries"].items():
        fields = [
            f"readonly '{name}'?: {_capture_type(plan, record)}"
            for name, record in spec.get("captures", {}).items()
        ]
        yield f"  {entry}: {{ {'; '.join(fields)} }};" if fields else f"  {entry}: {{}};"
    yield "}\n"


def _capture_type(plan: Plan, record: Plan) -> str:
    if "tensor" not in record:
        return "Statistics"
    return _type(plan["tensors"][record["tensor"]], "Out", record.get("rows") == "rows")


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
    def type_text(keys: Mapping[str, str]) -> str:
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
        yield f"      readonly inputs: {type_text(spec['inputs'])};"
        yield f"      readonly outputs: {type_text(spec['outputs'])} }};"
    yield "  };"
    params = {key: key for key, tensor in plan["tensors"].items() if tensor["role"] == "param"}
    yield f"  readonly params: {type_text(params)};"
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
