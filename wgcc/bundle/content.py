"""Contents of a bundle's files: bytes or pieces, safetensors files, and the data to train with.

Elements of safetensors files are as on the GPU, of 32 bits or of one byte, but for floats of large
files that two bytes hold exactly. data.safetensors holds
prepared arrays, how they were prepared, and a title; each may be absent. The page has a copy.
"""

from __future__ import annotations

import hashlib
import json
import math
import stat
import struct
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from wgcc.errors import WgError
from wgcc.ir.dtypes import DTYPE_TABLE
from wgcc.ir.graph import FLOATS, Capture, Graph, Rows, TensorType, Value
from wgcc.ir.places import is_own_state
from wgcc.ir.program import Ports, Wanted, capture_key, counts_key, is_capture
from wgcc.lazy_numpy import Array, np
from wgcc.schedule.kernel import PAIR, WORD, Exchange
from wgcc_runtime.data.problems import join_items
from wgcc_runtime.strict_json import as_javascript, with_sorted_keys

PIECE = 1 << 20


class Pieces:
    """Buffers that are one file in this order; arrays among them must not change."""

    def __init__(self, parts: Iterable[bytes | memoryview]) -> None:
        self.parts = tuple(parts)

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def __bytes__(self) -> bytes:
        return b"".join(self.parts)


Content = bytes | Pieces
Files = Mapping[str, Content]


def parts_of(content: Content) -> tuple[bytes | memoryview, ...]:
    return content.parts if isinstance(content, Pieces) else (content,)


def digest_of(content: Content) -> str:
    """The SHA-256 of a file with this content."""
    state = hashlib.sha256()
    for part in parts_of(content):
        state.update(part)
    return state.hexdigest()


def digest_of_file(path: Path) -> str:
    """The same of a file that exists. It may be large."""
    state = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            state.update(piece)
    return state.hexdigest()


def is_plain(folder: Path, name: str) -> bool:
    """Whether it is a regular file, with no link on the path to it."""
    try:
        inner = folder
        for part in PurePosixPath(name).parts[:-1]:
            inner = inner / part
            if not stat.S_ISDIR(inner.lstat().st_mode):
                return False
        return stat.S_ISREG((folder / name).lstat().st_mode)
    except OSError:
        return False


def holds(folder: Path, name: str, content: Content) -> bool:
    """Whether the folder has a plain file of exactly this content; it is read part by part."""
    path = folder / name
    if not is_plain(folder, name) or path.lstat().st_size != len(content):
        return False
    with open(path, "rb") as file:
        return all(file.read(len(part)) == part for part in parts_of(content))


# Pages read larger files piece by piece; these hold a checksum, because the seal has no digest.
LARGE_BYTES = 8_000_000
SAMPLE = 64


def safetensors_content(tensors: Mapping[str, tuple[str, Array]]) -> Content:
    """The tensors in their order, but narrower elements later, so that all are aligned.

    Large ones are not copied, but for floats that have no more digits than two bytes.
    """
    stored = {name: DTYPE_TABLE[dtype].stored for name, (dtype, _) in tensors.items()}
    arrays = {name: array for name, (_, array) in tensors.items()}
    is_large = sum(array.nbytes for array in arrays.values()) > LARGE_BYTES
    if is_large:
        arrays = {name: _to_halves(array) for name, array in arrays.items()}
    halves = {name: "F16" for name, array in arrays.items() if array.dtype == np.float16}
    arrays = dict(sorted(arrays.items(), key=lambda item: -item[1].itemsize))
    rows = {name: ((stored | halves)[name], a.itemsize, a.shape) for name, a in arrays.items()}
    metadata = _checksum(arrays) if is_large else {}
    content = _tensor_file(_header(rows), _buffers(arrays.values()), metadata)
    return content if is_large else bytes(content)


def _to_halves(array: Array) -> Array:
    """In two bytes each, if that is the same numbers: scales of packed weights come so."""
    if array.dtype != np.float32:
        return array
    # The first numbers tell most arrays, so that few are converted in vain.
    for part in (array.reshape(-1)[:SAMPLE], array):
        with np.errstate(over="ignore"):
            halves = part.astype(np.float16)
        if not np.array_equal(halves.astype(np.float32), part):
            return array
    return halves


def words_content(tensors: Mapping[str, tuple[str, Sequence[int], bytes]]) -> bytes:
    """The same file of tensors whose elements are bytes already, without numpy."""
    tensors = dict(sorted(tensors.items(), key=lambda item: -DTYPE_TABLE[item[1][0]].bytes))
    header = words_header({name: (dtype, shape) for name, (dtype, shape, _) in tensors.items()})
    return bytes(_tensor_file(header, (words for *_, words in tensors.values()), {}))


def _tensor_file(
    header: Mapping[str, Any],
    buffers: Iterable[bytes | memoryview],
    metadata: Mapping[str, str],
) -> Pieces:
    """A JSON header of whole words, then the elements."""
    first = {"__metadata__": metadata} if metadata else {}
    text = json.dumps({**first, **header}, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return Pieces([struct.pack("<Q", len(text)) + text, *buffers])


def _buffers(arrays: Iterable[Array]) -> Iterable[memoryview]:
    plain = (np.ascontiguousarray(array) for array in arrays)
    return (array.reshape(-1).view(np.uint8).data for array in plain)


def _checksum(arrays: Mapping[str, Array]) -> dict[str, str]:
    """Metadata that both runtimes compare with what they read."""
    # Only here, because it takes time to import.
    from wgcc_runtime.weights import metadata_of

    return metadata_of(arrays)


def words_header(tensors: Mapping[str, tuple[str, Sequence[int]]]) -> dict[str, Any]:
    """The header of a file that stores these tensors one after the other, in this order."""
    rows = {name: (DTYPE_TABLE[dtype], shape) for name, (dtype, shape) in tensors.items()}
    return _header({name: (row.stored, row.bytes, shape) for name, (row, shape) in rows.items()})


def _header(tensors: Mapping[str, tuple[str, int, Sequence[int]]]) -> dict[str, Any]:
    """Each tensor has the element type as files call it, bytes of an element, and a shape."""
    header, at = {}, 0
    for name, (dtype, width, shape) in tensors.items():
        end = at + width * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    return header


def read_header(data: bytes) -> Any:
    """The header of a file; None if it has none."""
    try:
        (length,) = struct.unpack("<Q", data[:8])
        return json.loads(data[8 : 8 + length])
    except (struct.error, ValueError, RecursionError):
        return None


DATA = "data.safetensors"
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
    size = sum(array.nbytes for array in arrays.values())
    if size > MOST_BYTES:
        most = MOST_BYTES >> 20
        raise WgError(f"the data has {size:,} bytes; a page holds at most {most} MiB of data")
    tensors = dict(sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])))
    header = _header(
        {name: (_STORED[a.dtype.name], a.itemsize, a.shape) for name, a in tensors.items()}
    )
    return bytes(_tensor_file(header, _buffers(tensors.values()), metadata))


def title_of(files: Mapping[str, bytes]) -> str | None:
    """The title that the page of a bundle was given."""
    return _metadata(files).get("title")


def preparation_text_of(files: Mapping[str, bytes]) -> str | None:
    """The preparation of a bundle's data, as JSON."""
    return _metadata(files).get("preparation")


def _metadata(files: Mapping[str, bytes]) -> dict[str, str]:
    header = read_header(files[DATA]) if DATA in files else None
    metadata = header.get("__metadata__", {}) if isinstance(header, dict) else {}
    return metadata if isinstance(metadata, dict) else {}


def form_of_plan(plan: Plan, tokenizer: str | None = None) -> dict[str, Any]:
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


def with_labels(
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
        raise WgError(f"{text}: {join_items(known)}")
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


Record = dict[str, Any]


def own_outputs(graph: Graph) -> dict[str, Value]:
    """The outputs that the source declares."""
    return {name: value for name, value in graph.outputs.items() if not is_capture(name)}


def output_types(graph: Graph) -> dict[str, TensorType]:
    """Outputs as callers see them: captures have the shape that the source gives them."""
    types = {name: value.type for name, value in graph.outputs.items()}
    for name, capture in graph.entry.captures.items():
        if not capture.stored and not capture.stats:
            key = capture_key(name)
            types[key] = replace(types[key], shape=capture.shape)
    return types


def capture_records(graph: Graph, ports: Ports) -> Record:
    """`tensor` holds the value, or `numbers` and `counts` its statistics."""
    forms = graph.entry.rows[0].outputs if graph.entry.rows else {}
    return {
        name: _capture(name, capture, ports, forms.get(capture_key(name)), graph)
        for name, capture in sorted(graph.entry.captures.items())
    }


def captured_patterns(plan: Mapping[str, Any]) -> tuple[Wanted, ...]:
    """The patterns that capture the same again; `d.x.2` comes with `d.x`."""
    return tuple(
        Wanted(name, "counts" in record, entry)
        for entry, spec in plan["entries"].items()
        for name, record in spec.get("captures", {}).items()
        if not (name.startswith("d.") and _is_second(name, spec["captures"]))
    )


def has_pairs(plan: Mapping[str, Any]) -> bool:
    """Was it built with `--pairs`, and did that change it?"""
    dispatches = (each for entry in plan["entries"].values() for each in entry["dispatches"])
    return any(PAIR in dispatch["label"] for dispatch in dispatches)


def _is_second(name: str, names: Container[str]) -> bool:
    first, _, number = name.rpartition(".")
    return number.isdecimal() and first in names


def _capture(name: str, capture: Capture, ports: Ports, form: str | None, graph: Graph) -> Record:
    if capture.stats:
        keys = ports.outputs[capture_key(name)], ports.outputs[counts_key(name)]
        return {"numbers": keys[0], "counts": keys[1], "shape": list(capture.shape)}
    if capture.stored:
        return {"tensor": name}
    count = graph.entry.rows[0].count if graph.entry.rows else 1
    divides = form == "same" or (capture.shape and capture.shape[0] % count == 0)
    rows = {"rows": form} if form and divides else {}
    return {"tensor": ports.outputs[capture_key(name)], **rows}


def rows_record(rows: Rows) -> Record:
    outputs = {name: form for name, form in rows.outputs.items() if not is_capture(name)}
    return {
        "count": rows.count,
        "inputs": list(rows.inputs),
        **({"dim": rows.dim} if rows.dim else {}),
        **({"why": rows.why} if rows.why else {"outputs": outputs}),
    }


def exchange_record(graph: Graph, shared: Exchange | None, buffers: Mapping[str, int]) -> Record:
    """The record of what machines that train one model exchange in each step.

    Gradients are averaged before a dispatch; outputs and state after the call.
    """
    if shared is None:
        return {}
    if shared.why:
        return {"why": shared.why}
    written = [value.name for value in graph.state if value.name in graph.writes]
    # Floats that the program itself keeps, such as running means of a batch norm.
    averaged = [n for n in written if is_own_state(n) and graph.writes[n].dtype in FLOATS]
    outputs = own_outputs(graph).items()
    return {
        "dispatch": shared.dispatch,
        "gradients": [
            {"buffer": buffers[p.buffer], "offset": p.offset * WORD, "size": p.count * WORD}
            for p in shared.gradients
        ],
        "outputs": [n for n, v in outputs if v.dtype in FLOATS and v.type.size == 1],
        "state": sorted(averaged),
    }
