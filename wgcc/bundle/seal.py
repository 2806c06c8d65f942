"""The seal of a bundle: it tells the JavaScript runtime that the bundle was checked when built.

The build checks it with the Python runtime's code, so a page with a valid seal need not; any other
bundle is checked in the page, field by field. The seal protects against accidents (files that were
truncated, mixed or edited), not against somebody who can write index.js, which is code.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from wgcc.bundle.safetensors import read_header, words_header
from wgcc.bundle.web_text import base64_text, kernel_codes
from wgcc_runtime.strict_json import as_javascript

Plan = Mapping[str, Any]
Files = Mapping[str, bytes]


def seal_text(files: Files) -> str:
    """An object literal with digests: of plan and constants, kernels and, if complete, weights.

    Not of large ones: their file holds a checksum (bundle/safetensors.py).
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
