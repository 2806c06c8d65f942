"""Text of the web files: fills templates, writes kernels and bytes as JavaScript literals."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from functools import lru_cache

from wgcc.bundle.javascript import strip_javascript
from wgcc.paths import data_dir
from wgcc_runtime.bundle_files import code_of

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
    """What pages embed of each kernel file: its code; comments are in the file.

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
