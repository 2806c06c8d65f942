"""Text of the web files: filled templates, literals of kernels and bytes, and the seal.

The seal tells the JavaScript runtime that the bundle was checked when it was built, with the Python
runtime's code; any other bundle is checked in the page, field by field. It protects against
accidents (files that were truncated, mixed or edited), not against somebody who can write index.js,
which is code.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from wgcc.bundle.content import read_header, words_header
from wgcc.bundle.javascript import strip_javascript
from wgcc.files import data_dir
from wgcc_runtime.bundle_files import code_of
from wgcc_runtime.strict_json import as_javascript

_PLACE = re.compile(r"__([A-Z][A-Z_]*[A-Z])__")


def template(name: str) -> str:
    """A file of runtime_js, where templates and the runtime itself are stored."""
    return (data_dir("runtime_js") / name).read_text(encoding="utf-8")


def script_template(name: str) -> str:
    """A script of runtime_js as pages load it: its first line, then code without comments."""
    text = template(name)
    first = text.partition("\n")[0]
    banner = f"{first}\n" if first.startswith("//") else ""
    return banner + strip_javascript(text)


def plan_literal(files: Mapping[str, bytes]) -> str:
    """plan.json without blanks."""
    return _without_blanks(files["plan.json"])


@lru_cache(maxsize=1)
def _without_blanks(text: bytes) -> str:
    return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))


def fill(text: str, **values: str) -> str:
    """Replaces each `__NAME__` by its value; both must have exactly the same names."""
    wanted = set(_PLACE.findall(text))
    assert wanted == set(values), wanted ^ set(values)
    return _PLACE.sub(lambda match: values[match[1]], text)


def kernel_codes(files: Mapping[str, bytes]) -> dict[str, str]:
    """The code of each kernel file, which pages embed; comments are in the file.

    Kernels whose `main` begins alike come one after the other, and both forms of a kernel: so they
    are compressed best.
    """
    codes = {
        name.removeprefix("kernels/"): code_of(data.decode("utf-8"))
        for name, data in files.items()
        if name.startswith(("kernels/", "subgroups/"))
    }

    def place(name: str) -> tuple[str, str, str]:
        file = name.removeprefix("subgroups/")
        return codes.get(file, "").partition("@compute")[2], file, name

    return {name: codes[name] for name in sorted(codes, key=place)}


def kernels_literal(files: Mapping[str, bytes]) -> str:
    """An object literal with the code of each kernel."""
    lines = ["{"]
    for name, code in kernel_codes(files).items():
        text = re.sub(r"[\\`]|\$\{", r"\\\g<0>", code)
        lines.append(f"'{name}':`{text}`,")
    return "\n".join([*lines, "}"])


def bytes_literal(data: bytes | None) -> str:
    """Bytes as a base64 string; `undefined` for none."""
    return f"'{base64_text(data)}'" if data else "undefined"


def base64_text(data: bytes | None) -> str | None:
    return base64.b64encode(data).decode() if data else None


def package_name(model: str) -> str:
    """The npm name of a bundle, in a scope to which nobody publishes by accident."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_+", "-", model).lower().strip("-")
    return f"@my-models/{plain or 'model'}"


Plan = Mapping[str, Any]
Files = Mapping[str, bytes]


def seal_text(files: Files) -> str:
    """An object literal with digests: of plan and constants, kernels and, if complete, weights.

    Not of large ones: their file holds a checksum (bundle/content.py).
    """
    if not _is_sound(files):
        return "undefined"
    plan = json.loads(files["plan.json"])
    constants = base64_text(files.get("constants.safetensors"))
    sealed = {"bundle": [plan["version"], plan, constants], "kernels": kernel_codes(files)}
    digests = {name: _digest(as_javascript(value).encode()) for name, value in sealed.items()}
    weights = files.get("weights.safetensors")
    if weights and _is_complete(plan, weights):
        digests["weights"] = _digest(weights)
    return json.dumps(digests, separators=(",", ":"))


def _is_sound(files: Files) -> bool:
    """Whether the runtimes would accept the plan, its kernels and its twin."""
    # Only here, because it takes time to import.
    from wgcc_runtime.bundle_files import guard_wgsl, read_forms, read_twin
    from wgcc_runtime.errors import WgccError
    from wgcc_runtime.plan import read_plan
    from wgcc_runtime.strict_json import KEY, plan_digest

    try:
        plan = read_plan(files["plan.json"])
    except WgccError:
        raw = json.loads(files["plan.json"])
        if raw.get(KEY) == plan_digest(raw):
            # Nobody edited it: this would be a bundle that the compiler wrote, and nobody can use.
            raise
        return False
    try:
        for kernel in plan.kernels:
            for text in read_forms(lambda name, _: files.get(name), kernel):
                guard_wgsl(text, kernel.file)
        if plan.twin:
            read_twin(lambda name, _: files.get(name), plan.twin)
    except WgccError:
        return False
    return True


def _is_complete(plan: Plan, weights: bytes) -> bool:
    """Whether each tensor is stored in the file as words, or starts as a copy of one or as zero."""
    lasting = {
        name: tensor
        for name, tensor in plan["tensors"].items()
        if tensor["role"] in ("param", "state")
    }
    stored = read_header(weights)
    if not isinstance(stored, dict) or not stored.keys() <= lasting.keys():
        return False
    inits = {name: tensor.get("init", {"kind": "zeros"}) for name, tensor in lasting.items()}
    return stored == words_header(
        {name: (lasting[name]["dtype"], lasting[name]["shape"]) for name in stored}
    ) and all(
        name in stored or init.get("of") in stored or _is_zero(init) for name, init in inits.items()
    )


def _is_zero(init: Plan) -> bool:
    return init["kind"] == "zeros" or (init["kind"] == "value" and not any(init.get("values", [1])))


def _digest(data: bytes) -> str:
    return base64.b64encode(hashlib.sha256(data).digest()).decode()
