"""Malformed bundles by name: what is wrong, and the code with which every runtime refuses them.

A case changes the plan of line_bundle.py, its files, or its weights. test_hostile_bundles.py
tests both runtimes with this table.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

import line_bundle
from wgcc_runtime.bundle_files import code_digest

GONE = object()
CHANGES = {
    "tolerance": 1,
    "tensors": {"train/x": {"mean": 0, "size": 0, "at": [0], "scale": 1}},
}
LONG = "a" * 600
Plan = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """`damage` gets the folder of a valid bundle. `web`: whether it can occur in a browser."""

    name: str
    code: str
    damage: Callable[[Path], None]
    web: bool = True


def plan_case(name: str, path: str, value: Any, code: str = "plan", web: bool = True) -> Case:
    def damage(folder: Path) -> None:
        line_bundle.write_plan(folder, changed(line_bundle.make_plan(), path, value))

    return Case(f"plan: {name}", code, damage, web)


def changed(plan: Plan, path: str, value: Any) -> Plan:
    """`plan` with the value at a dotted path replaced, added or removed."""
    *parents, last = path.split(".")
    inner: Any = plan
    for key in parents:
        inner = inner[int(key)] if isinstance(inner, list) else inner[key]
    key = int(last) if isinstance(inner, list) else last
    if value is GONE:
        del inner[key]
    else:
        inner[key] = value
    return plan


def bytes_at(offset: int, size: int) -> dict[str, Any]:
    """State of bytes, which ends with a whole word."""
    place = {"buffer": line_bundle.STATE, "offset": offset}
    return {"dtype": "u8", "shape": [size], **place, "role": "state"}


def range_guard(name: str, **changes: Any) -> Case:
    """A range guard that is valid except for these fields."""
    checks = [{"what": "an id", "at": "m.wg:1", "low": 0, "high": 3}]
    good = {"flag": "train/flag", "checks": checks, "restored": ["w"], **changes}
    record = {key: value for key, value in good.items() if value is not GONE}
    return plan_case(name, "entries.train.range_guard", record)


def loops(name: str, *ranges: tuple[int, int, int]) -> Case:
    """Loops over the three dispatches of an entry: (first, count, rounds)."""
    keys = ("first", "count", "rounds")
    records = [dict(zip(keys, numbers, strict=True)) for numbers in ranges]
    return plan_case(name, "entries.train.repeats", records)


BINDING = "entries.train.dispatches.0.bindings.0"
GUARD = "entries.train.guard"
PLANS = [
    plan_case("missing section", "kernels", GONE),
    plan_case("missing field", "tensors.w.dtype", GONE),
    plan_case("extra section", "eval", "alert(1)"),
    plan_case("extra field", "buffers.0.usage", 128),
    plan_case("text for a number", "buffers.0.bytes", "256"),
    plan_case("list for an object", "tensors", []),
    plan_case("null for an object", "model", None),
    plan_case("truth for a number", "buffers.0.bytes", True),
    plan_case("another format", "format", "onnx"),
    plan_case("newer version", "version", 2, "version"),
    plan_case("version as text", "version", "1"),
    plan_case("negative size", "buffers.0.bytes", -256),
    plan_case("fractional size", "buffers.0.bytes", 256.5),
    plan_case("huge size", "buffers.0.bytes", 1 << 60),
    plan_case("size beyond the limit", "buffers.0.bytes", 1 << 30, "limit"),
    plan_case("size of zero", f"{BINDING}.size", 0),
    plan_case("size that is no multiple of 4", f"{BINDING}.size", 6),
    plan_case("unaligned offset", f"{BINDING}.offset", 128),
    plan_case("range beyond its buffer", f"{BINDING}.size", 4096),
    plan_case("offset that overflows", f"{BINDING}.offset", 2**53),
    plan_case("unknown buffer", f"{BINDING}.buffer", 99),
    plan_case("negative index", f"{BINDING}.buffer", -1),
    plan_case("unknown kernel", "entries.train.dispatches.0.kernel", 77),
    plan_case("too few bindings", "entries.train.dispatches.0.bindings", []),
    plan_case("read and written at once", BINDING, {"buffer": 2, "offset": 256, "size": 128}),
    plan_case("written twice", "entries.train.dispatches.2.bindings.3.offset", 0),
    plan_case("test for NaN without a flag", f"{GUARD}.flag", GONE),
    plan_case("flag that is nothing", f"{GUARD}.flag", "nothing"),
    plan_case("flag that is no output", f"{GUARD}.flag", "rng/seed"),
    plan_case("flag that is a float", f"{GUARD}.flag", "train/loss"),
    plan_case(
        "flag of two words",
        "tensors.train/flag",
        {"dtype": "u32", "shape": [2], "buffer": 4, "offset": 0, "role": "output"},
    ),
    plan_case("test for NaN of no kernel", f"{GUARD}.dispatches.0.kernel", 77),
    plan_case("test for NaN with a binding missing", f"{GUARD}.dispatches.0.kernel", 1),
    plan_case("test for NaN beyond a buffer", f"{GUARD}.dispatches.0.bindings.0.size", 4096),
    plan_case(
        "test for NaN that writes what it reads",
        f"{GUARD}.dispatches.0.bindings.2",
        {"buffer": 0, "offset": 0, "size": 4},
    ),
    range_guard("range guard without a flag", flag=GONE),
    range_guard("range guard whose flag is nothing", flag="nothing"),
    range_guard("range guard whose flag is a float", flag="train/loss"),
    range_guard("range guard whose flag is a parameter", flag="w"),
    range_guard("range guard without checks", checks=[]),
    range_guard("range guard whose check has no range", checks=[{"what": "an id", "at": "m.wg:1"}]),
    range_guard("range guard that restores nothing known", restored=["nothing"]),
    range_guard("range guard that restores what is not written", restored=["rng/seed"]),
    plan_case("tensors overlap", "tensors.opt/opt/step.offset", 0),
    plan_case("tensor beyond its buffer", "tensors.w.shape", [4096]),
    plan_case("bytes beyond their buffer", "tensors.opt/opt/ema/w", bytes_at(768, 257)),
    plan_case("bytes over the next tensor", "tensors.opt/opt/momentum/w", bytes_at(0, 257)),
    plan_case("copy of other bytes", "tensors.opt/opt/ema/w.dtype", "u8"),
    plan_case("shape that overflows", "tensors.w.shape", [2**31 - 1] * 3),
    plan_case("zero in a shape", "tensors.w.shape", [0, 4]),
    plan_case("too many axes", "tensors.w.shape", [1] * 20),
    plan_case("unknown element type", "tensors.w.dtype", "f64"),
    plan_case("unknown initial values", "tensors.w.init.kind", "eval"),
    plan_case("copy of itself", "tensors.w.init", {"kind": "copy", "of": "w"}),
    plan_case("input that is a parameter", "entries.train.inputs.x", "w"),
    plan_case("output that is nothing", "entries.train.outputs.loss", "nothing"),
    plan_case("output that is an input", "entries.predict.outputs.p", "predict/x"),
    plan_case("output that is another's input", "entries.predict.outputs.p", "train/y"),
    plan_case("output that is a parameter", "entries.train.outputs.loss", "w"),
    plan_case("output that is state", "entries.train.outputs.loss", "opt/opt/step"),
    plan_case("output over an input", "tensors.pick/rows.buffer", line_bundle.INPUT),
    plan_case(
        "output over a parameter",
        "tensors.pick/rows",
        {"dtype": "f32", "shape": [3], "buffer": 0, "offset": 0, "role": "output"},
    ),
    plan_case("flag over state", "tensors.train/flag.buffer", line_bundle.STATE),
    plan_case("parameter in a temporary", "tensors.w.buffer", line_bundle.TEMP),
    plan_case("state among outputs", "tensors.rng/seed.buffer", line_bundle.OUTPUT),
    plan_case("input among outputs", "tensors.train/y.buffer", line_bundle.OUTPUT),
    plan_case("write to nothing", "entries.train.writes", ["nothing"]),
    plan_case("empty range", "entries.pick.ranges.ids", [3, 0]),
    plan_case("grid beyond the limit", "entries.train.dispatches.0.grid", [70_000, 1, 1]),
    plan_case("grid of zero", "entries.train.dispatches.0.grid", [0, 1, 1]),
    plan_case("workgroup beyond the limit", "kernels.0.workgroup", [512, 1, 1], "limit"),
    plan_case("unknown field of a kernel", "kernels.0.subgroup", 4),
    plan_case("nine bindings", "kernels.0.access", ["read"] * 9, "limit"),
    plan_case("thirteen uniforms", "kernels.0.access", ["uniform"] * 13, "limit"),
    plan_case("uniform of inputs", "kernels.0.access", ["uniform", "read", "read_write"]),
    loops("loop beyond the list", (1, 3, 2)),
    loops("loop from beyond the list on", (3, 1, 2)),
    loops("loop over nothing", (1, 0, 2)),
    loops("loop of no rounds", (0, 1, 0)),
    loops("loops that overlap", (0, 2, 2), (1, 2, 2)),
    loops("inner loop before its outer one", (1, 1, 2), (0, 3, 2)),
    loops("loops in the wrong order", (2, 1, 2), (0, 1, 2)),
    loops("loop of too many rounds", (0, 3, 400_000)),
    loops("loops that multiply", (0, 3, 1000), (0, 2, 1000), (0, 1, 1000)),
    plan_case("kernels of one name", "kernels.1.name", "predict"),
    plan_case("path that climbs", "kernels.0.file", "../../etc/passwd"),
    plan_case("absolute path", "kernels.0.file", "/etc/passwd"),
    plan_case("address as a path", "kernels.0.file", "https://example.org/x.wgsl"),
    plan_case("hidden file", "kernels.0.file", ".x.wgsl"),
    plan_case("line break in a path", "kernels.0.file", "x.wgsl\n.wgsl"),
    plan_case("source that climbs", "model.source", "../model.wg"),
    plan_case("very long name", f"tensors.{LONG}", {}),
    plan_case("prototype as a tensor", "tensors.__proto__", {}),
    plan_case("constructor as an entry", "entries.constructor", {}),
    plan_case("prototype as an input", "entries.train.inputs.__proto__", "train/x"),
    plan_case("prototype as a profile", "profiles.prototype", {}),
    plan_case("profile of another name", "profiles.cpu", {}),
    plan_case("profile of no entry", "profiles.candidate_0.nothing", []),
    plan_case("profile with other bindings", "profiles.candidate_0.train.0.kernel", 1),
    plan_case("wrong total", "memory.peak", 1),
    plan_case("wrong copies", "memory.guard", 1),
    plan_case("optimizer without state", "optimizer.opt.step", "nothing"),
    plan_case("self-test of no entry", "selftest.entries.nothing", {}),
    plan_case("self-test of a million steps", "selftest.entries.train.steps", 10**6),
    plan_case("self-test of what does not last", "selftest.entries.train.changes", CHANGES),
    plan_case("limit with another name", "requires.limits.maxThings", 1),
    plan_case("hash that is none", "kernels.0.sha256", "0x0"),
]


def text_case(name: str, data: bytes) -> Case:
    """Malformed text of a plan; in browsers, plans are part of a script instead."""
    write = lambda folder: (folder / "plan.json").write_bytes(data) and None  # noqa: E731
    return Case(f"plan.json: {name}", "plan", write, web=False)


TEXTS = [
    text_case("empty", b""),
    text_case("cut off", b'{"format": "wgcc-bundle", '),
    text_case("not UTF-8", b'{"format": "\xff\xfe"}'),
    text_case("a key twice", b'{"format": "wgcc-bundle", "format": "wgcc-bundle"}'),
    text_case("NaN", b'{"format": NaN}'),
    text_case("a number beyond all numbers", b'{"format": 1e999}'),
    text_case("a million digits", b'{"format": ' + b"9" * 1_000_000 + b"}"),
    text_case("nested without end", b'{"a": ' + b"[" * 200_000),
    text_case("40 deep", b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}"),
    text_case("a list", b"[]"),
]


def file_case(name: str, code: str, damage: Callable[[Path], Any], web: bool = True) -> Case:
    return Case(f"files: {name}", code, lambda folder: (damage(folder), None)[1], web)


def _kernel(text: str) -> Callable[[Path], None]:
    """Kernel 3 replaced, with its digest updated: a malicious bundle."""

    def damage(folder: Path) -> None:
        digest = code_digest(text)
        plan = changed(line_bundle.make_plan(), "kernels.3.sha256", digest)
        line_bundle.write_plan(folder, plan)
        (folder / "kernels" / "pick.wgsl").write_bytes(text.encode())

    return damage


def _linked(folder: Path) -> None:
    kernel = folder / "kernels" / "predict.wgsl"
    kernel.rename(folder.parent / "outside.wgsl")
    kernel.symlink_to(folder.parent / "outside.wgsl")


PREDICT = "kernels/predict.wgsl"
FILES = [
    file_case("missing kernel", "bundle", lambda folder: (folder / PREDICT).unlink()),
    file_case("changed kernel", "bundle", lambda f: (f / PREDICT).write_text("fn main() {}")),
    file_case("kernel that is a folder", "bundle",
              lambda f: ((f / PREDICT).unlink(), (f / PREDICT).mkdir()), web=False),
    file_case("kernel that is a link", "bundle", _linked, web=False),
    file_case("kernel that is no text", "bundle", lambda f: (f / PREDICT).write_bytes(b"\xff" * 9),
              web=False),
    file_case("kernel of 2 MiB", "bundle", lambda f: (f / PREDICT).write_text("/" * (2 << 20)),
              web=False),
    file_case("kernel of 5,000 brackets", "kernel",
              _kernel(f"fn f() {{ let x = {'(' * 5000}1{')' * 5000}; }}")),
    file_case("kernel of 30,000 operators", "kernel",
              _kernel(f"fn f() {{ let x = 1{'+1' * 30_000}; }}")),
    file_case("kernel of 3,000 nested types", "kernel",
              _kernel(f"fn f() {{ var x: {'array<' * 3000}f32{',2>' * 3000}; }}")),
    file_case("kernel of 5,000 indices", "kernel",
              _kernel(f"fn f() {{ let y = x{'[0]' * 5000}; }}")),
    file_case("kernel of 20,000 functions", "kernel",
              _kernel("".join(f"fn a{i}() {{ a{i - 1}(); }}" for i in range(20_000, 0, -1)))),
    file_case("kernel of 5,000 else branches", "kernel",
              _kernel(f"fn f() {{ if (true) {{}} {'else if (true) {} ' * 5000}}}")),
    *(file_case(f"kernel of brackets after the line break {end!a}", "kernel",
                _kernel(f"//{end}fn f() {{ let x = {'(' * 5000}1{')' * 5000}; }}"))
      for end in "\v\f\r\x85\u2028\u2029"),
    file_case("plan.json is a folder", "bundle",
              lambda f: ((f / "plan.json").unlink(), (f / "plan.json").mkdir()), web=False),
    file_case("no plan.json", "bundle", lambda f: (f / "plan.json").unlink(), web=False),
    file_case("plan.json of 9 MiB", "bundle",
              lambda f: (f / "plan.json").write_bytes(b" " * (9 << 20)), web=False),
]  # fmt: skip


def weights_case(name: str, data: bytes, code: str = "weights", web: bool = True) -> Case:
    def damage(folder: Path) -> None:
        (folder / "weights.safetensors").write_bytes(data)

    return Case(f"weights: {name}", code, damage, web)


W = np.arange(4, dtype=np.float32)
SOUND = save({"w": W})


def with_header(header: Any, data: bytes = W.tobytes()) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def with_entry(**changes: Any) -> bytes:
    return with_header({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16], **changes}})


def with_facts(**facts: Any) -> bytes:
    sound = {"format": "wgcc-checkpoint", "version": 1}
    return save({"w": W}, {"wgcc": json.dumps({**sound, **facts})})


WEIGHTS = [
    weights_case("empty", b""),
    weights_case("seven bytes", b"\x00" * 7),
    weights_case("cut off", SOUND[:-1]),
    weights_case("too long", SOUND + b"\x00" * 4),
    weights_case("header of 2^60 bytes", struct.pack("<Q", 1 << 60) + b"{}"),
    weights_case("header of 2^64 - 1 bytes", b"\xff" * 8 + b"{}"),
    weights_case("header that is no JSON", with_header(b"{" * 40)),
    weights_case("header that is a list", with_header([])),
    weights_case("header of 100,000 brackets", with_header(b'{"w": ' + b"[" * 100_000)),
    weights_case("a tensor twice", with_header(
        b'{"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},'
        b'"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'), web=False),
    weights_case("unknown element type", with_entry(dtype="F99")),
    weights_case("shape that overflows", with_entry(shape=[2**32, 2**32])),
    weights_case("negative shape", with_entry(shape=[-4])),
    weights_case("fractional shape", with_entry(shape=[4.5])),
    weights_case("offsets backwards", with_entry(data_offsets=[16, 0])),
    weights_case("offsets beyond the file", with_entry(data_offsets=[0, 1 << 40])),
    weights_case("offsets with a hole", with_header(
        {"w": {"dtype": "F32", "shape": [4], "data_offsets": [4, 20]}}, bytes(20))),
    weights_case("tensors that overlap", with_header(
        {"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
         "v": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}})),
    weights_case("unknown tensor", save({"w": W, "z": W})),
    weights_case("prototype as a tensor", with_header(
        b'{"__proto__":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}')),
    weights_case("another shape", save({"w": np.zeros(5, np.float32)})),
    weights_case("another rank", save({"w": W.reshape(2, 2)})),
    weights_case("NaN", save({"w": np.full(4, np.nan, np.float32)}), "not-finite"),
    weights_case("infinity", save({"w": np.full(4, np.inf, np.float32)}), "not-finite"),
    weights_case("wrong checksum", with_facts(crc32=1)),
    weights_case("facts that are no JSON", save({"w": W}, {"wgcc": "{"})),
    weights_case("facts of another kind", with_facts(format="other")),
    weights_case("newer checkpoint", with_facts(version=2), "version"),
    weights_case("negative steps", with_facts(steps={"train": -1})),
    weights_case("steps that are a list", with_facts(steps=[1])),
    weights_case("steps that are nothing", with_facts(steps=None)),
    weights_case("steps that are text", with_facts(steps={"train": "9"})),
    weights_case("fractional steps", with_facts(steps={"train": 1.5})),
    weights_case("a position that is a list", with_facts(data={"position": [1]})),
    weights_case("facts that are nothing", save({"w": W}, {"wgcc": "null"})),
    weights_case("facts that are a number", save({"w": W}, {"wgcc": "7"})),
    weights_case("facts that are empty", save({"w": W}, {"wgcc": ""})),
]  # fmt: skip

CASES = [*PLANS, *TEXTS, *FILES, *WEIGHTS]


def write_case(case: Case, folder: Path) -> Path:
    bundle = line_bundle.write_bundle(folder)
    case.damage(bundle)
    return bundle


def as_web(bundle: Path) -> dict[str, Any]:
    """What a bundle's index.js passes to the runtime: the plan, kernels by file, weights."""
    import base64

    weights = bundle / "weights.safetensors"
    return {
        "plan": (bundle / "plan.json").read_text(encoding="utf-8"),
        "kernels": {
            path.name: path.read_bytes().decode() for path in (bundle / "kernels").glob("*.wgsl")
        },
        "weights": base64.b64encode(weights.read_bytes()).decode() if weights.exists() else None,
    }
