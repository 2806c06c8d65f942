"""A plan is refused before any GPU call unless every field is valid; the error names the field."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import line_bundle
from changed_plans import REMOVED, change, encode
from wgcc_runtime.bundle_files import code_digest
from wgcc_runtime.errors import WgccError
from wgcc_runtime.loader import load, load_plan
from wgcc_runtime.plan import read_plan
from wgcc_runtime.strict_json import check_form, plan_schema

SAMPLE = {"mean": 0, "size": 0, "at": [0], "scale": 1}
CHANGES = {"tolerance": 1, "tensors": {"train/x": SAMPLE}}
DRAW = {"kind": "uniform", "low": 0, "high": 1}
LOOP = {"first": 1, "count": 2, "rounds": 3}
BINDING = "entries.train.dispatches.0.bindings.0"
GUARD = "entries.train.guard.dispatches.0"


def test_sound_plan_is_read() -> None:
    plan = read_plan(encode(line_bundle.make_plan()))
    assert plan.model == "Line"
    assert list(plan.entries["train"].inputs) == ["x", "y"]
    assert plan.tensors["train/x"].shape == (8, 4)
    assert plan.dispatches("train", "gpu")[0].kernel == 0
    assert plan.dispatches("train", "candidate_0")[0].kernel == 5


# Where, what it becomes, the field the error must name ("" when it is the same place).
MALFORMED: list[tuple[str, Any, str]] = [
    ("format", "other", "format"),
    ("version", "1", "version"),
    ("version", True, "version"),
    ("version", 1.0, "version"),
    ("generator", 7, ""),
    ("surprise", 1, ""),
    ("model", REMOVED, ""),
    ("model.name", "a b", ""),
    ("model.source", "../secret", ""),
    ("model.sha256", "abc", ""),
    ("requires.features", ["shader_f16"], "requires.features[0]"),
    ("requires.limits.maxThings", 1, ""),
    ("requires.limits.maxBufferSize", -1, ""),
    ("buffers.0.bytes", 0, "buffers[0].bytes"),
    ("buffers.0.bytes", 257, "buffers[0].bytes"),
    ("buffers.0.bytes", 256.0, "buffers[0].bytes"),
    ("buffers.0.bytes", True, "buffers[0].bytes"),
    ("buffers.0.bytes", "256", "buffers[0].bytes"),
    ("buffers.0.bytes", None, "buffers[0].bytes"),
    ("buffers.0.bytes", 1 << 60, "buffers[0].bytes"),
    ("buffers.0.bytes", 512 << 20, "buffers[0].bytes"),
    ("buffers.0.role", "secret", "buffers[0].role"),
    ("buffers.0.extra", 1, "buffers[0].extra"),
    ("buffers.1.name", "params", "buffers[1]"),
    ("buffers.1.name", "__proto__", "buffers[1].name"),
    ("tensors.w.dtype", "f64", ""),
    ("tensors.w.shape", [0], "tensors.w.shape[0]"),
    ("tensors.w.shape", [-1], "tensors.w.shape[0]"),
    ("tensors.w.shape", [1] * 17, "tensors.w.shape"),
    ("tensors.w.shape", [4096], "tensors.w"),
    ("tensors.w.shape", [2**31 - 1, 2**31 - 1], "tensors.w"),
    ("tensors.w.shape", 4, ""),
    ("tensors.w.buffer", 99, ""),
    ("tensors.w.buffer", -1, ""),
    ("tensors.w.offset", 2, ""),
    ("tensors.w.offset", 256, "tensors.w"),
    ("tensors.w.offset", -256, ""),
    ("tensors.w.role", "weight", ""),
    ("tensors.w.trainable", 1, ""),
    ("tensors.w.init.kind", "magic", ""),
    ("tensors.w.init.args.std", "1", ""),
    ("tensors.w.init", {"kind": "copy"}, ""),
    ("tensors.w.init", {"kind": "copy", "of": "w"}, ""),
    ("tensors.opt/opt/ema/w.init.of", "opt/opt/step", "tensors.opt/opt/ema/w.init"),
    ("tensors.__proto__", {}, ""),
    ("tensors.constructor", {}, ""),
    ("tensors.opt/opt/step.offset", 0, "tensors.opt/opt/step"),
    ("tensors.train/y.offset", 0, "tensors.train/y"),
    ("kernels.0.file", "../predict.wgsl", "kernels[0].file"),
    ("kernels.0.file", "/etc/passwd", "kernels[0].file"),
    ("kernels.0.file", "a/b.wgsl", "kernels[0].file"),
    ("kernels.0.file", ".hidden.wgsl", "kernels[0].file"),
    ("kernels.0.file", "predict.wgsl\n", "kernels[0].file"),
    ("kernels.0.file", "http://x/y.wgsl", "kernels[0].file"),
    ("kernels.0.file", "predict.js", "kernels[0].file"),
    ("kernels.0.file", "a" * 70 + ".wgsl", "kernels[0].file"),
    ("kernels.1.file", "predict.wgsl", "kernels[1]"),
    ("kernels.1.name", "predict", "kernels[1]"),
    ("kernels.0.sha256", "G" * 64, "kernels[0].sha256"),
    ("kernels.0.entry", "main()", "kernels[0].entry"),
    ("kernels.0.workgroup", [0, 1, 1], "kernels[0].workgroup[0]"),
    ("kernels.0.workgroup", [64, 1], "kernels[0].workgroup"),
    ("kernels.0.workgroup", [64, 8, 1], "kernels[0].workgroup"),
    ("kernels.0.workgroup", [1, 1, 128], "kernels[0].workgroup"),
    ("kernels.0.access", ["read"] * 9, "kernels[0].access"),
    ("kernels.0.access", ["write"], "kernels[0].access[0]"),
    ("entries.train.repeats", [LOOP, {**LOOP, "first": 2}], "entries.train.repeats[1]"),
    ("kernels.0.access", ["read", "read_write"], "entries.train.dispatches[0].bindings"),
    ("entries.train.inputs.x", "train/z", ""),
    ("entries.train.inputs.x", "w", ""),
    ("entries.train.inputs.__proto__", "train/x", ""),
    ("entries.train.outputs.loss", "nothing", ""),
    ("entries.train.writes", ["v"], "entries.train.writes[0]"),
    ("entries.train.writes", ["train/x"], "entries.train.writes[0]"),
    ("entries.train.training", 1, ""),
    ("entries.train.dispatches", REMOVED, "entries.train"),
    ("entries.constructor", {}, ""),
    ("entries.a-b", {}, ""),
    ("entries.pick.ranges.ids", [3, 0], ""),
    ("entries.pick.ranges.ids", [0], ""),
    ("entries.pick.ranges.ids", {"low": 0}, ""),
    ("entries.pick.ranges.other", [0, 3], ""),
    ("entries.train.ranges", {"x": [0, 3]}, "entries.train.ranges.x"),
    ("entries.train.dispatches.0.kernel", 7, "entries.train.dispatches[0].kernel"),
    ("entries.train.dispatches.0.kernel", 99999, "entries.train.dispatches[0].kernel"),
    ("entries.train.dispatches.0.grid", [65536, 1, 1], "entries.train.dispatches[0].grid[0]"),
    ("entries.train.dispatches.0.grid", [1, 0, 1], "entries.train.dispatches[0].grid[1]"),
    ("entries.train.dispatches.0.grid", [1], "entries.train.dispatches[0].grid"),
    (f"{BINDING}.buffer", 6, "entries.train.dispatches[0].bindings[0].buffer"),
    (f"{BINDING}.offset", 4, "entries.train.dispatches[0].bindings[0].offset"),
    (f"{BINDING}.size", 0, "entries.train.dispatches[0].bindings[0].size"),
    (f"{BINDING}.size", 6, "entries.train.dispatches[0].bindings[0].size"),
    (f"{BINDING}.size", 2048, "entries.train.dispatches[0].bindings[0]"),
    (f"{BINDING}.size", REMOVED, "entries.train.dispatches[0].bindings[0]"),
    # The buffer of `p`, which is written, is also read: forbidden even in disjoint ranges.
    (BINDING, {"buffer": 2, "offset": 256, "size": 128}, "entries.train.dispatches[0].bindings[2]"),
    # `m` and `step` are written in overlapping ranges.
    (
        "entries.train.dispatches.2.bindings.3",
        {"buffer": 1, "offset": 0, "size": 4},
        "entries.train.dispatches[2].bindings[3]",
    ),
    ("entries.train.guard", {}, ""),
    ("entries.train.guard.flag", REMOVED, ""),
    ("entries.train.guard.flag", "nothing", ""),
    ("entries.train.guard.flag", "rng/seed", ""),
    ("entries.train.guard.flag", "train/loss", ""),
    ("entries.train.guard.more", 1, ""),
    ("tensors.train/flag.dtype", "i32", "entries.train.guard.flag"),
    (f"{GUARD}.kernel", 7, "entries.train.guard.dispatches[0].kernel"),
    (f"{GUARD}.kernel", 1, "entries.train.guard.dispatches[0].bindings"),
    (f"{GUARD}.grid", [0, 1, 1], "entries.train.guard.dispatches[0].grid[0]"),
    (f"{GUARD}.bindings.0.buffer", 6, "entries.train.guard.dispatches[0].bindings[0].buffer"),
    (f"{GUARD}.bindings.0.size", 512, "entries.train.guard.dispatches[0].bindings[0]"),
    (f"{GUARD}.bindings.2.buffer", 0, "entries.train.guard.dispatches[0].bindings[2]"),
    ("profiles.candidate_0.nothing", [], ""),
    ("profiles.candidate_0.train.0.dispatch", 3, "profiles.candidate_0.train[0].dispatch"),
    ("profiles.candidate_0.train.0.kernel", 1, "profiles.candidate_0.train[0].bindings"),
    ("profiles.candidate_0.train.0.kernel", 77, "profiles.candidate_0.train[0].kernel"),
    ("profiles.candidate_0.train.0.bindings", [], "profiles.candidate_0.train[0].bindings"),
    ("profiles.__proto__", {}, ""),
    ("profiles.cpu", {}, ""),
    ("optimizer.opt.step", "w2", ""),
    ("optimizer.opt.entry", ["fit"], "optimizer.opt.entry[0]"),
    ("selftest.seed", -1, ""),
    ("selftest.entries.train.changes", {"tolerance": 1}, ""),
    ("selftest.entries.train.changes", CHANGES, "selftest.entries.train.changes.tensors.train/x"),
    ("selftest.entries.other", {}, ""),
    ("selftest.entries.train.inputs.z", DRAW, "selftest.entries.train.inputs"),
    ("selftest.entries.train.inputs.x.kind", "normal", ""),
    ("selftest.entries.train.inputs.x.low", 5, "selftest.entries.train.inputs.x"),
    ("selftest.entries.train.steps", 2, "selftest.entries.train.outputs"),
    (
        "selftest.entries.train.outputs.0.lost",
        {"sum": 0, "abs": 0, "first": []},
        "selftest.entries.train.outputs[0].lost",
    ),
    ("selftest.entries.train.tolerance", "big", ""),
    ("memory.peak", 1, ""),
    ("memory.params", 1, ""),
    ("memory.guard", 1, ""),
    ("memory", REMOVED, ""),
]


@pytest.mark.parametrize(
    ("path", "value", "field"),
    MALFORMED,
    ids=[f"{path}={'' if v is REMOVED else str(v)[:30]}" for path, v, _ in MALFORMED],
)
def test_malformed_plan_is_refused(path: str, value: Any, field: str) -> None:
    plan = change(line_bundle.make_plan(), path, value)
    with pytest.raises(WgccError) as caught:
        read_plan(encode(plan))
    expected = field or (path.rpartition(".")[0] if value is REMOVED else path)
    assert caught.value.field == expected, caught.value
    assert caught.value.code in ("plan", "limit")


def test_newer_version_is_refused_with_its_writer() -> None:
    plan = {**line_bundle.make_plan(), "version": 2, "generator": "wgcc 9.1"}
    with pytest.raises(WgccError, match=re.escape("version 2, written by wgcc 9.1")) as caught:
        read_plan(encode(plan))
    assert caught.value.code == "version"


def test_more_than_default_limits_must_be_declared() -> None:
    plan = change(line_bundle.make_plan(), "kernels.0.workgroup", [512, 1, 1])
    plan["requires"]["limits"] |= {
        "maxComputeInvocationsPerWorkgroup": 512,
        "maxComputeWorkgroupSizeX": 512,
    }
    assert read_plan(encode(plan)).kernels[0].workgroup == (512, 1, 1)


BAD_TEXTS = {
    "empty": b"",
    "not json": b"{",
    "not utf-8": b'{"format": "\xff"}',
    "not an object": b"[]",
    "null": b"null",
    "nan": b'{"format": NaN}',
    "infinity": b'{"format": -Infinity}',
    "huge float": b'{"format": 1e400}',
    "huge integer": b'{"format": ' + b"9" * 5000 + b"}",
    "duplicate key": b'{"format": "wgcc-bundle", "format": "wgcc-bundle"}',
    "deep list": b'{"format": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "40 deep": b'{"format": "wgcc-bundle", "x": ' + b"[" * 40 + b"]" * 40 + b"}",
    "too long": b" " * (9 << 20),
}


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_bad_json_is_refused(name: str) -> None:
    with pytest.raises(WgccError) as caught:
        read_plan(BAD_TEXTS[name])
    assert caught.value.code == "plan"


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """Dotted paths of all values inside, containers included."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield f"{path}{key}"
        if isinstance(inner, (dict, list)):
            yield from leaves(inner, f"{path}{key}.")


PLAN = line_bundle.make_plan()
PATHS = sorted(path for path in leaves(PLAN) if ".wgsl" not in path)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(path=st.sampled_from(PATHS), value=JSON | st.just(REMOVED))
def test_no_plan_breaks_the_reader(path: str, value: Any) -> None:
    """Whatever a field contains, the plan is either valid or refused with a `WgccError`."""
    try:
        read_plan(encode(change(PLAN, path, value)))
    except WgccError as error:
        assert error.code in ("plan", "limit", "version")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    with pytest.raises(WgccError):
        read_plan(data)


def test_too_many_tensors_are_refused() -> None:
    plan = line_bundle.make_plan()
    plan["tensors"] |= {f"t{i}": plan["tensors"]["train/x"] for i in range(10_001)}
    with pytest.raises(WgccError, match="more than 10000 keys"):
        read_plan(encode(plan))


def test_schema_uses_only_what_is_checked() -> None:
    """A keyword the interpreter does not know would silently check nothing."""
    text = Path(sys.modules[check_form.__module__].__file__ or "").read_text(encoding="utf-8")
    silent = {"$schema", "title", "description", "$defs"}
    for keyword in keywords(plan_schema()) - silent:
        assert f'"{keyword}"' in text, keyword


def keywords(schema: Any) -> set[str]:
    """The keywords of a schema, without the names of properties and definitions."""
    found = set(schema)
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            found |= set().union(*map(keywords, value.values()))
        elif key in ("items", "additionalProperties", "propertyNames", "not"):
            found |= keywords(value) if isinstance(value, dict) else set()
        elif key == "anyOf":
            found |= set().union(*map(keywords, value))
    return found


def test_files_of_a_bundle_must_be_plain(tmp_path: Path) -> None:
    bundle = line_bundle.write_bundle(tmp_path / "bundle")
    kernel = bundle / "kernels" / "predict.wgsl"
    kernel.rename(tmp_path / "outside.wgsl")
    kernel.symlink_to(tmp_path / "outside.wgsl")
    refuse(bundle, "bundle", "symbolic link")


def test_folder_of_kernels_must_not_be_a_link(tmp_path: Path) -> None:
    bundle = line_bundle.write_bundle(tmp_path / "bundle")
    (bundle / "kernels").rename(tmp_path / "kernels")
    (bundle / "kernels").symlink_to(tmp_path / "kernels")
    refuse(bundle, "bundle", "symbolic link")


def test_changed_kernel_is_refused(tmp_path: Path) -> None:
    bundle = line_bundle.write_bundle(tmp_path / "bundle")
    kernel = bundle / "kernels" / "update.wgsl"
    kernel.write_text(kernel.read_text().replace("0.9", "0.8"))
    refuse(bundle, "bundle", "was changed")


def test_missing_files_are_named(tmp_path: Path) -> None:
    bundle = line_bundle.write_bundle(tmp_path / "bundle")
    (bundle / "kernels" / "pick.wgsl").unlink()
    refuse(bundle, "bundle", "lacks kernels/pick.wgsl")
    (bundle / "plan.json").unlink()
    refuse(bundle, "bundle", "no plan.json")
    refuse(tmp_path / "nowhere", "bundle", "there is no bundle")


def test_kernel_that_would_crash_the_compiler_is_refused(tmp_path: Path) -> None:
    for text, what in (
        ("fn f() { let x = " + "(" * 4000 + "1" + ")" * 4000 + "; }", "nested brackets"),
        ("fn f() { let x = 1" + "+1" * 20_000 + "; }", "operators"),
        ("fn f() { " + "if (true) {} else " * 5000 + "{} }", "else"),
    ):
        folder = tmp_path / what.replace(" ", "-")
        bundle = line_bundle.write_bundle(folder)
        replace_kernel(bundle, 3, text)
        refuse(bundle, "kernel", what)


def test_plan_is_checked_without_wgpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wgpu", None)
    bundle = line_bundle.write_bundle(tmp_path / "bundle")
    assert load_plan(bundle).model == "Line"
    with pytest.raises(WgccError) as caught:
        load(bundle)
    assert caught.value.code == "no-wgpu"


def test_memory_beyond_the_cap_must_be_allowed(tmp_path: Path) -> None:
    bundle = line_bundle.write_bundle(tmp_path / "bundle")
    with pytest.raises(WgccError, match="max_bytes=3588") as caught:
        load(bundle, max_bytes=1000)
    assert caught.value.code == "memory"


def refuse(bundle: Path, code: str, text: str) -> None:
    with pytest.raises(WgccError, match=text) as caught:
        load(bundle)
    assert caught.value.code == code


def replace_kernel(bundle: Path, index: int, text: str) -> None:
    plan = line_bundle.make_plan()
    kernel = plan["kernels"][index]
    kernel["sha256"] = code_digest(text)
    (bundle / "kernels" / kernel["file"]).write_text(text)
    line_bundle.write_plan(bundle, plan)
