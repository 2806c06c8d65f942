"""README.md of a bundle: what the model takes and gives, and how to run it everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from wgcc.paths import data_dir

Plan = Mapping[str, Any]


def readme(plan: Plan, files: Mapping[str, bytes]) -> str:
    template = (data_dir("runtime_js") / "bundle" / "README.md").read_text(encoding="utf-8")
    params = {name: t for name, t in plan["tensors"].items() if t["role"] == "param"}
    entry = next((n for n, e in plan["entries"].items() if e["training"]), "") or next(
        iter(plan["entries"]), ""
    )
    values = {
        "MODEL": plan["model"]["name"],
        "SOURCE": plan["model"]["source"],
        "GENERATOR": plan["generator"],
        "ABOUT": _about(files[plan["model"]["source"]].decode("utf-8")),
        "ENTRIES": "\n".join(_entries(plan)),
        "PARAMETERS": "\n".join(_parameters(params)),
        "COUNT": f"{sum(prod(t['shape']) for t in params.values()):,}",
        "MEMORY": f"{plan['memory']['peak']:,}",
        "KERNELS": str(len(plan["kernels"])),
        "TRY": _try_js(plan, entry),
        "TRY_PYTHON": _try_python(plan, entry),
    }
    return re.sub(r"__([A-Z_]+[A-Z])__", lambda match: values[match[1]], template)


def _about(source: str) -> str:
    """The doc comment at the top of the model file."""
    lines = re.match(r"(?:\s*///[^\n]*\n)*", source)
    text = " ".join(
        line.strip().removeprefix("///").strip()
        for line in (lines[0] if lines else "").splitlines()
    )
    return text.strip() or "A neural network."


def _entries(plan: Plan) -> Iterable[str]:
    for name, entry in plan["entries"].items():
        inputs = ", ".join(f"{k}: {_type(plan, t)}" for k, t in entry["inputs"].items())
        outputs = ", ".join(f"{k}: {_type(plan, t)}" for k, t in entry["outputs"].items())
        kind = "trains" if entry["training"] else "predicts"
        yield f"| `{name}` | `{inputs}` | `{outputs}` | {kind}, {len(entry['dispatches'])} dispatches |"


def _type(plan: Plan, key: str) -> str:
    tensor = plan["tensors"][key]
    return tensor["dtype"] + (
        f"[{', '.join(map(str, tensor['shape']))}]" if tensor["shape"] else ""
    )


def _parameters(params: Plan) -> Iterable[str]:
    for name, tensor in params.items():
        yield f"| `{name}` | {tensor['dtype']} | {' × '.join(map(str, tensor['shape'])) or '1'} |"


def _try_js(plan: Plan, name: str) -> str:
    if not name:
        return ""
    entry = plan["entries"][name]
    inputs = ", ".join(entry["inputs"])
    if entry["training"]:
        option = "" if name == "train" else f", entry: '{name}'"
        return f"for await (const {'{'} step, loss {'}'} of model.fit({{ {inputs} }}, {{ steps: 1000{option} }})) console.log(step, loss);"
    return f"const {{ {', '.join(entry['outputs'])} }} = await model.{name}({{ {inputs} }});"


def _try_python(plan: Plan, name: str) -> str:
    if not name:
        return ""
    entry = plan["entries"][name]
    if entry["training"]:
        inputs = ", ".join(f'"{port}": {port}' for port in entry["inputs"])
        option = "" if name == "train" else f', entry="{name}"'
        return f"model.fit({{{inputs}}}, steps=1000{option})"
    return f"model.{name}({', '.join(f'{port}={port}' for port in entry['inputs'])})"
