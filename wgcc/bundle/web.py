"""The files that make a bundle run on the web: ES module, types, npm package, README and page.

Everything is derived from the plan and the bundle's other files, not from the schedule.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

from wgcc.bundle.data_file import preparation_text_of
from wgcc.bundle.owned import OFFLINE
from wgcc.bundle.page import page_html, served_files
from wgcc.bundle.plan import TOKENIZER
from wgcc.bundle.runtime_js import TOKENS, shipped_files
from wgcc.bundle.seal import seal_text
from wgcc.bundle.web_readme import readme
from wgcc.bundle.web_text import (
    bytes_literal,
    fill,
    kernels_literal,
    package_name,
    plan_literal,
    script_template,
)
from wgcc.bundle.web_types import declarations

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
    found = {
        "index.js": _index(plan, files, names, seal),
        "kernels.js": _kernels(plan, files),
        "index.d.ts": declarations(plan),
        **runtime,
        "package.json": _package(plan, names),
        "README.md": readme(plan, files),
        "index.html": page_html(plan, files, large, seal),
        **served_files(plan, files),
    }
    written = {name: text.encode("utf-8") for name, text in found.items()}
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
