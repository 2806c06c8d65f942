"""Pages in one file: a template with the runtime, a bundle and data inlined, so that file:// suffices.

A page is opened by double click, where a browser neither imports nor fetches other files.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wgcc.paths import data_dir

Plan = Mapping[str, Any]
Files = Mapping[str, bytes]


def page_html(plan: Plan, files: Files) -> str:
    """index.html of a bundle."""
    folder = data_dir("runtime_js") / "page"
    return build_page(folder / "index.html", plan, files, {})


def build_page(template: Path, plan: Plan, files: Files, data: Mapping[str, bytes]) -> str:
    """A template in which comments are replaced: `<!-- inline A.css -->` by a style, and
    `<!-- inline runtime A.js B.js -->` by one module: the runtime and the bundle as `load(options)`,
    `data` as bytes by name in `files`, then the scripts.

    Files lie beside the template, or in the folder that all pages share.
    """
    shared = data_dir("runtime_js") / "page"

    def inlined(match: re.Match[str]) -> str:
        parts = [
            runtime_script(plan, files, data) if name == "runtime" else text_of(name)
            for name in match[1].split()
        ]
        text = "\n".join(parts)
        if match[1].endswith(".css"):
            return f"<style>\n{text}\n</style>"
        return f'<script type="module">\n{_safe(text)}\n</script>'

    def text_of(name: str) -> str:
        folder = template.parent if (template.parent / name).exists() else shared
        return (folder / name).read_text(encoding="utf-8").strip()

    text = template.read_text(encoding="utf-8").replace("__MODEL__", plan["model"]["name"])
    return re.sub(r"<!-- inline ([\w. ]+) -->", inlined, text)


def runtime_script(plan: Plan, files: Files, data: Mapping[str, bytes]) -> str:
    """The modules of the runtime as functions, then `load`, `source`, and `files` of given data."""
    from wgcc.bundle.web import kernels_js

    source = files[plan["model"]["source"]].decode("utf-8")
    parts = [_as_function(name) for name in ("check", "wgcc", "train")]
    constants = files.get("constants.safetensors")
    weights = files.get("weights.safetensors")
    parts += [
        f"const plan = {files['plan.json'].decode('utf-8').strip()};",
        f"const kernels = {kernels_js(files)};",
        f"const source = {json.dumps(source, ensure_ascii=False)};",
        "const bytesOf64 = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));",
        f"const weights = {_base64(weights)};",
        f"const constants = {_base64(constants)};",
        "const files = {"
        + ", ".join(f"{json.dumps(k)}: bytesOf64({_base64(v)})" for k, v in data.items())
        + "};",
        # The page's scripts draw random numbers too, by way of the training tools.
        "const randomUnits = (seed, name, count) => Array.from(train.randomWords(seed, name, count), w => w / 2 ** 32);",
        "const load = options => wgcc.open({ plan, kernels, constants, weights: () => weights && bytesOf64(weights) }, options);",
    ]
    return "\n".join(parts)


def _base64(data: bytes | None) -> str:
    return f"'{base64.b64encode(data).decode()}'" if data else "undefined"


def _as_function(name: str) -> str:
    """An ES module as an expression: imports become constants, exports the result."""
    text = (data_dir("runtime_js") / f"{name}.js").read_text(encoding="utf-8")
    text = re.sub(
        r"^import \{([^}]*)\} from '\./(\w+)\.js';", r"const {\1} = \2;", text, flags=re.M
    )
    text = re.sub(r"import\('\./(\w+)\.js'\)", r"Promise.resolve().then(() => \1)", text)
    names = re.findall(r"^export (?:const|class|(?:async )?function\*?) ?(\w+)", text, flags=re.M)
    for group in re.findall(r"^export \{([^}]*)\};", text, flags=re.M):
        names += [part.strip() for part in group.split(",")]
    text = re.sub(r"^export \{[^}]*\};\n", "", text, flags=re.M)
    text = re.sub(r"^export ", "", text, flags=re.M)
    return f"const {name} = (() => {{\n{text}\nreturn {{ {', '.join(names)} }};\n}})();"


def _safe(script: str) -> str:
    """A script may not contain what ends it."""
    return re.sub(r"</(?=script)|<!--", lambda match: match[0][0] + "\\" + match[0][1:], script)
