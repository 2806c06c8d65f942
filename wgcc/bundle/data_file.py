"""data.safetensors of a bundle: prepared arrays to train with, how they were prepared, a title.

The page holds a copy of it. Each part may be absent.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from wgcc.bundle.safetensors import read_header
from wgcc.errors import WgError
from wgcc.lazy_numpy import Array, np
from wgcc_runtime.data.problems import listed
from wgcc_runtime.strict_json import as_javascript, with_sorted_keys

FILE = "data.safetensors"
# A page with more would hardly open: it holds the data as text.
MOST_BYTES = 64 << 20
_STORED = {
    "float32": "F32", "float64": "F64", "float16": "F16", "int32": "I32", "int64": "I64",
    "uint32": "U32", "uint8": "U8", "int8": "I8", "bool": "BOOL",
}  # fmt: skip

Plan = Mapping[str, Any]
Preparation = Mapping[str, Any]


def data_bytes(
    arrays: Mapping[str, Array], preparation: Preparation | None, title: str | None
) -> bytes:
    """A safetensors file; the widest elements come first, so that all are aligned."""
    metadata: dict[str, str] = {}
    if preparation is not None:
        metadata["preparation"] = as_javascript(with_sorted_keys(preparation))
    if title is not None:
        metadata["title"] = title
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    parts, at = [], 0
    for name, array in sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])):
        data = np.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": _STORED[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [at, at + len(data)],
        }
        parts.append(data)
        at += len(data)
    if at > MOST_BYTES:
        most = MOST_BYTES >> 20
        raise WgError(f"the data has {at:,} bytes; a page holds at most {most} MiB of data")
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def title_of(files: Mapping[str, bytes]) -> str | None:
    """The title that the page of a bundle was given."""
    return _metadata(files).get("title")


def preparation_text_of(files: Mapping[str, bytes]) -> str | None:
    """The preparation of a bundle's data, as JSON."""
    return _metadata(files).get("preparation")


def _metadata(files: Mapping[str, bytes]) -> dict[str, str]:
    header = read_header(files[FILE]) if FILE in files else None
    metadata = header.get("__metadata__", {}) if isinstance(header, dict) else {}
    return metadata if isinstance(metadata, dict) else {}


def described(plan: Plan, tokenizer: str | None = None) -> dict[str, Any]:
    """A plan as reading data knows models: see `wgcc_runtime/data/form.py`.

    `tokenizer` is the text of the bundle's file of tokens, if it has one.
    """
    entries = {name: _entry(entry, plan["tensors"]) for name, entry in plan["entries"].items()}
    if tokenizer is None:
        return {"vocab": plan["model"].get("vocab", ""), "entries": entries}
    # Only here, because few models have tokens.
    from wgcc_runtime.tokens.bundle_tokens import tokens_of_text

    return {"vocab": "", "entries": entries, "tokens": lambda: tokens_of_text(tokenizer)}


def _entry(entry: Plan, tensors: Plan) -> dict[str, Any]:
    def ports(names: Mapping[str, str]) -> dict[str, Any]:
        return {
            key: {"dtype": tensors[name]["dtype"], "shape": tensors[name]["shape"]}
            for key, name in names.items()
        }

    inputs, ranges, rows = ports(entry["inputs"]), entry.get("ranges", {}), entry.get("rows", {})
    for name, allowed in ranges.items():
        inputs[name]["range"] = allowed
    return {
        "training": entry["training"],
        "inputs": inputs,
        "outputs": ports(entry["outputs"]),
        "rows": {
            "inputs": rows.get("inputs", []),
            "dim": rows.get("dim", ""),
            "outputs": rows.get("outputs", {}),
        },
    }


def labelled(
    preparation: Preparation | None,
    target: str | None,
    labels: Sequence[str],
    form: Mapping[str, Any],
) -> dict[str, Any]:
    """The preparation with these names of the target's classes, by their ids."""
    if target is None:
        raise WgError("--labels: the model has no input of classes to learn")
    whole = dict(preparation or {"version": 1, "inputs": {}, "target": target, "missing": "drop"})
    spec = whole["inputs"].get(target, {"kind": "classes"})
    if spec["kind"] not in ("classes", "one hot"):
        raise WgError(f"--labels: `{target}` is not one of classes")
    known = spec.get("classes", [])
    if len(labels) < len(known):
        text = f"--labels: {len(labels)} names, but there are {len(known)} classes"
        raise WgError(f"{text}: {listed(known)}")
    _check_labels(labels, target, form)
    return {**whole, "inputs": {**whole["inputs"], target: {**spec, "classes": list(labels)}}}


def _check_labels(labels: Sequence[str], target: str, form: Mapping[str, Any]) -> None:
    for number, name in enumerate(labels):
        if not name or name in labels[:number]:
            problem = f"`{name}` occurs twice" if name else f"name {number + 1} is empty"
            raise WgError(f"--labels: {problem}; each class needs a name of its own")
    ports = [entry["inputs"][target] for entry in form["entries"].values()
             if target in entry["inputs"]]  # fmt: skip
    counts = [port["range"]["high"] + 1 for port in ports if "range" in port]
    if counts and len(labels) > max(counts):
        raise WgError(f"--labels: {len(labels)} names, but `{target}` has {max(counts)} classes")
