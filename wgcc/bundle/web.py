"""The files that make a bundle run on the web: ESM entry, types, npm package, card and page.

Everything is derived from the plan and the other files of the bundle; nothing is known of schedules.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from wgcc.bundle.page import page_html
from wgcc.bundle.web_readme import readme
from wgcc.bundle.web_types import declarations
from wgcc.paths import data_dir

Plan = Mapping[str, Any]
Files = Mapping[str, bytes]

# The runtime: the same files in every bundle of one wgcc version.
RUNTIME = ("check.js", "wgcc.js", "train.js")


def web_files(plan: Plan, files: Files) -> dict[str, bytes]:
    """`files` are the bundle's files so far: plan.json, kernels, weights, constants and the source."""
    found = {
        "index.js": index_js(plan, files),
        "index.d.ts": declarations(plan),
        **{name: runtime_text(name) for name in RUNTIME},
        "package.json": _package(plan, files),
        "README.md": readme(plan, files),
        "index.html": page_html(plan, files),
    }
    return {name: text.encode("utf-8") for name, text in found.items()}


def runtime_text(name: str) -> str:
    return (data_dir("runtime_js") / name).read_text(encoding="utf-8")


def index_js(plan: Plan, files: Files) -> str:
    template = (data_dir("runtime_js") / "bundle" / "index.js").read_text(encoding="utf-8")
    weights = "weights.safetensors" in files
    constants = files.get("constants.safetensors")
    return fill(
        template,
        MODEL=plan["model"]["name"],
        GENERATOR=plan["generator"],
        SOURCE=plan["model"]["source"],
        PLAN=files["plan.json"].decode("utf-8").strip(),
        KERNELS=kernels_js(files),
        WEIGHTS="() => new URL('./weights.safetensors', import.meta.url)"
        if weights
        else "undefined",
        CONSTANTS=f"'{base64.b64encode(constants).decode()}'" if constants else "undefined",
    )


def kernels_js(files: Files) -> str:
    """An object literal of the kernels' texts, as they stand in their files."""
    lines = ["{"]
    for name, data in files.items():
        if name.startswith("kernels/"):
            text = re.sub(r"[\\`]|\$\{", r"\\\g<0>", data.decode("utf-8"))
            lines.append(f"  '{name.removeprefix('kernels/')}': `{text}`,")
    return "\n".join([*lines, "}"])


def fill(template: str, **values: str) -> str:
    """Replaces `__NAME__` by its value; a name without value, or a value without place, is a bug."""
    wanted = set(re.findall(r"__([A-Z][A-Z_]*[A-Z])__", template))
    assert wanted == set(values), wanted ^ set(values)
    return re.sub(r"__([A-Z][A-Z_]*[A-Z])__", lambda match: values[match[1]], template)


def _package(plan: Plan, files: Files) -> str:
    kebab = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_+", "-", plan["model"]["name"]).lower().strip("-")
    version = str(plan["generator"]).rpartition(" ")[2]
    names = ["index.js", "index.d.ts", *RUNTIME, "index.html", *files]
    kept = dict.fromkeys("kernels" if name.startswith("kernels/") else name for name in names)
    facts = {
        "name": kebab,
        "version": version,
        "description": f"The model {plan['model']['name']}, compiled by wgcc: trains and predicts on WebGPU",
        "type": "module",
        "main": "./index.js",
        "types": "./index.d.ts",
        "exports": {".": {"types": "./index.d.ts", "default": "./index.js"}, "./*": "./*"},
        "files": list(kept),
        "sideEffects": False,
    }
    return json.dumps(facts, indent=2) + "\n"
