"""Which files of a folder a build wrote: the next build replaces or deletes these and no others.

The plan in the folder names them. A bundle may come from an untrusted source, so a name that could
lead outside the folder is ignored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wgcc.bundle.content import DATA, digest_of_file, is_plain, read_header
from wgcc.bundle.plan import FORMAT, TOKENIZER, TWIN
from wgcc.files import SOURCE_NAME

WEIGHTS = "weights.safetensors"
OFFLINE = "offline.js"
# How it begins: earlier versions had none, so a file of this name may be somebody's own.
_OFFLINE_START = b"// A service worker that keeps this bundle"
# Files of every bundle; constants, data and the twin only if there are any.
FIXED = (
    "plan.json", WEIGHTS, "constants.safetensors", DATA, "index.js", "kernels.js", "index.d.ts",
    "index.html", "served.html", "wgcc.js", "package.json", "README.md", TWIN,
)  # fmt: skip
# Folders of kernels.
KERNELS = ("kernels", "subgroups")
_KERNEL = re.compile(r"\w[\w.-]{0,58}\.wgsl")
_RUNTIME = re.compile(r"\w+\.(css|js|txt)")
_KEPT = re.compile(r"weights\.trained(-\d+)?\.safetensors")

OldPlan = Mapping[str, Any]


def read_old_plan(folder: Path) -> OldPlan | None:
    """The plan of the bundle in a folder; None if the folder holds no bundle."""
    from wgcc_runtime.errors import WgccError
    from wgcc_runtime.plan import MAX_PLAN_BYTES
    from wgcc_runtime.strict_json import parse_json

    path = folder / "plan.json"
    if not is_plain(folder, "plan.json") or path.stat().st_size > MAX_PLAN_BYTES:
        return None
    try:
        plan = parse_json(path.read_bytes(), "plan.json", MAX_PLAN_BYTES)
    except WgccError:
        return None
    return plan if isinstance(plan, dict) and plan.get("format") == FORMAT else None


def own_files(folder: Path, plan: OldPlan) -> set[str]:
    """Names of files that a build of this plan writes, whether they are there or not."""
    kernels = (f"{part}/{name}" for name in _kernels(plan) for part in KERNELS)
    own = {*FIXED, *kernels}
    runtime = folder / "wgcc"
    if runtime.is_dir() and not runtime.is_symlink():
        # Other versions of wgcc may have had other files here.
        names = (name for name in os.listdir(runtime) if _RUNTIME.fullmatch(name))
        own |= {f"wgcc/{name}" for name in names}
    own |= {TOKENIZER} if _has_tokens(plan) else set()
    own |= {OFFLINE} if _is_offline(folder) else set()
    return own | {name for name in (_source(plan),) if name}


def _is_offline(folder: Path) -> bool:
    if not is_plain(folder, OFFLINE):
        return False
    with (folder / OFFLINE).open("rb") as file:
        return file.read(len(_OFFLINE_START)) == _OFFLINE_START


def is_own_name(name: Any) -> bool:
    """Whether a bundle may have a file or folder of that name."""
    if not isinstance(name, str):
        return False
    folder, _, file = name.partition("/")
    parts = {**dict.fromkeys(KERNELS, _KERNEL), "wgcc": _RUNTIME}
    if folder in parts:
        return not file or bool(parts[folder].fullmatch(file))
    return name in (*FIXED, TOKENIZER, OFFLINE) or bool(
        SOURCE_NAME.fullmatch(name) or _KEPT.fullmatch(name)
    )


def written_since(folder: Path, plan: OldPlan) -> Iterator[tuple[str, str]]:
    """Own files that changed since the build, and the names to keep them under."""
    if is_plain(folder, WEIGHTS) and _is_trained(folder / WEIGHTS, plan):
        yield WEIGHTS, "weights.trained.safetensors"
    source = _source(plan)
    if source and is_plain(folder, source) and _is_edited(folder / source, plan):
        yield source, f"{source.removesuffix('.wg')}.edited.wg"
    for name in _kernels(plan):
        path = f"kernels/{name}"
        if is_plain(folder, path) and _is_changed(folder / path, path, name, plan):
            yield path, f"kernels/{name.removesuffix('.wgsl')[:50]}.edited.wgsl"


def _is_changed(kernel: Path, path: str, name: str, plan: OldPlan) -> bool:
    """Whether a kernel was edited, accepted or not."""
    from wgcc_runtime.bundle_files import code_digest

    edited = plan.get("edited")
    if isinstance(edited, dict) and path in edited:
        return True
    records = (k for k in plan["kernels"] if isinstance(k, dict) and k.get("file") == name)
    written = {record.get("sha256") for record in records}
    return code_digest(kernel.read_bytes().decode("utf-8", "replace")) not in written


def _is_trained(path: Path, plan: OldPlan) -> bool:
    record = plan.get("weights")
    if isinstance(record, dict):
        return digest_of_file(path) != record.get("sha256")
    # Bundles of earlier versions do not record it; only a checkpoint has metadata.
    header = read_header(path.read_bytes())
    return not isinstance(header, dict) or "__metadata__" in header


def _is_edited(source: Path, plan: OldPlan) -> bool:
    return bool(digest_of_file(source) != plan["model"].get("sha256"))


def _kernels(plan: OldPlan) -> Iterator[str]:
    kernels = plan.get("kernels")
    for kernel in kernels if isinstance(kernels, list) else ():
        name = kernel.get("file") if isinstance(kernel, dict) else None
        if isinstance(name, str) and _KERNEL.fullmatch(name):
            yield name


def _has_tokens(plan: OldPlan) -> bool:
    """A file of this name in any other bundle is somebody's own."""
    model = plan.get("model")
    return isinstance(model, dict) and isinstance(model.get("vocab"), dict)


def _source(plan: OldPlan) -> str:
    model = plan.get("model")
    name = model.get("source") if isinstance(model, dict) else None
    return name if isinstance(name, str) and SOURCE_NAME.fullmatch(name) else ""
