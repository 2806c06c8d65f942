"""README.md of a bundle: inputs and outputs of the model, and how to run it on each platform."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from wgcc.bundle.plan import run_count, with_guard
from wgcc.bundle.web_text import fill, package_name, template

Plan = Mapping[str, Any]


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
    found = re.match(r"(?:\s*///[^\n]*\n)*", source)
    lines = found[0].splitlines() if found else []
    text = " ".join(line.strip().removeprefix("///").strip() for line in lines)
    return text.strip() or "A neural network."


def _entries(plan: Plan) -> Iterable[str]:
    for name, entry in plan["entries"].items():
        inputs = ", ".join(f"{k}: {_type(plan, t)}" for k, t in entry["inputs"].items())
        outputs = ", ".join(f"{k}: {_type(plan, t)}" for k, t in entry["outputs"].items())
        any_rows = " any number of rows" if entry.get("rows", {}).get("outputs") else ""
        kind = "trains" if entry["training"] else f"predicts{any_rows}"
        work = f"{kind}, {run_count(entry)} dispatches"
        yield f"| `{name}` | `{inputs}` | `{outputs}` | {work} |"


def _type(plan: Plan, key: str) -> str:
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
