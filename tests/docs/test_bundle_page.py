"""wgcc/BUNDLE.md describes every file and field of a bundle as the runtimes check them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapters import ROOT, environment
from web_stacks import build_web
from wgcc_runtime.bundle_files import MAX_KERNEL_BYTES
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import MAX_PLAN_BYTES, read_plan
from wgcc_runtime.strict_json import plan_digest, plan_schema
from wgcc_runtime.weights import load_weights, save_weights

PAGE = (ROOT / "wgcc" / "BUNDLE.md").read_text(encoding="utf-8")
# Definitions that the page describes once, in a table of their own.
DESCRIBED_ONCE = "dispatches"

Schema = Mapping[str, Any]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle_page") / "bundle"
    return build_web(ROOT / "examples" / "sin" / "model.wg", folder)


def test_every_field_of_the_plan_is_described() -> None:
    """Field, type and whether it must be there, in the schema's order."""
    rows = re.findall(r"^\| `([^`]+)` \| (.*?) \| (yes|no) \| \S.* \|$", PAGE, re.MULTILINE)
    assert rows == list(fields())


def fields() -> Iterator[tuple[str, str, str]]:
    schema = plan_schema()
    yield from fields_of(schema, "")
    definition = schema["$defs"][DESCRIBED_ONCE]
    yield from fields_of(definition, DESCRIBED_ONCE)


def fields_of(schema: Schema, path: str) -> Iterator[tuple[str, str, str]]:
    """`[]` stands for each item of a list, `*` for each name of a table."""
    for name, inner in schema.get("properties", {}).items():
        field = f"{path}.{name}" if path else name
        yield field, type_text(inner), "yes" if name in schema.get("required", ()) else "no"
        yield from fields_of(inner, field)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from fields_of(schema["additionalProperties"], f"{path}.*")
    if "items" in schema:
        yield from fields_of(schema["items"], f"{path}[]")
    for choice in schema.get("anyOf", ()):
        yield from fields_of(choice, path)


def type_text(schema: Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{choice}`" for choice in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(type_text(choice) for choice in schema["anyOf"])
    if schema["type"] == "array":
        return f"list of {type_text(schema['items'])}{counted(schema, 'Items')}"
    if schema["type"] == "object" and "additionalProperties" in schema:
        return "table" if schema["additionalProperties"] else "object"
    return schema["type"] + bounds(schema)


def bounds(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    step, length = schema.get("multipleOf"), schema.get("maxLength")
    parts = [
        f" {low} to {high}" if low is not None and high is not None else "",
        f" ≥ {low}" if low is not None and high is None else "",
        f", a multiple of {step}" if step else "",
        f", at most {length} characters" if length else "",
    ]
    return "".join(parts)


def counted(schema: Schema, what: str) -> str:
    low, high = schema.get(f"min{what}", 0), schema.get(f"max{what}")
    if high is None:
        return ""
    if low == high:
        return f", {low} of them"
    return f", {low} to {high}" if low else f", at most {high}"


def test_every_named_type_is_described() -> None:
    for name in plan_schema()["$defs"]:
        assert f"\n| `{name}` | " in PAGE, name


def test_every_file_is_described(bundle: Path) -> None:
    described = set(re.findall(r"`([\w/.*]+)`", section("Files")))
    found = {path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file()}
    patterns = {re.sub(r"^(kernels|subgroups)/.*", r"\1/*.wgsl", name) for name in found}
    assert patterns - described == set()


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_examples_run(bundle: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == PAGE.count("```") // 2, "every block is run"
    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime_py")])
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)],
        cwd=bundle.parent,
        env={**os.environ, **environment("lavapipe"), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 10
    assert "adam_update" in done.stdout


def test_every_key_of_a_checkpoint_is_described(tmp_path: Path) -> None:
    text = section("Checkpoints")
    source = (ROOT / "runtime_py" / "wgcc_runtime" / "checkpoint.py").read_text(encoding="utf-8")
    keys = {"format", "version", "crc32", *re.findall(r'facts\["(\w+)"\] =', source), "model"}
    assert keys | {"source"} == set(re.findall(r"^\| `(\w+)` \| [^|]+ \| [^|]+ \|$", text, re.M))


def test_every_code_about_files_is_described() -> None:
    modules = ("plan", "strict_json", "validate", "bundle_files", "weights", "checkpoint")
    folder = ROOT / "runtime_py" / "wgcc_runtime"
    source = "\n".join((folder / f"{name}.py").read_text(encoding="utf-8") for name in modules)
    codes = set(re.findall(r'WgccError\(\s*"([a-z-]+)"', source)) | {"limit", "feature", "memory"}
    # The name of averages is an argument of `load`, not a part of a file.
    assert codes - {"name"} <= set(re.findall(r"`([a-z-]+)`", section("Errors")))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, ""),
        ({"version": 2, "generator": "wgcc 9.1.0"}, "version"),
        ({"version": 0}, "version"),
        ({"surprise": 1}, "plan"),
        ({"optimizer": {"opt": {"kind": "adam", "step": "opt/opt/step", "entry": [], "x": 1}}}, ""),
    ],
)
def test_versions_of_plans(bundle: Path, change: Mapping[str, Any], code: str) -> None:
    """What the page promises about other versions and unknown fields."""
    plan = {**json.loads((bundle / "plan.json").read_text(encoding="utf-8")), **change}
    plan["sha256"] = plan_digest(plan)
    assert refusal(lambda: read_plan(json.dumps(plan).encode())).partition(":")[0] == code


def test_refusal_says_which_wgcc_wrote_the_plan(bundle: Path) -> None:
    plan = json.loads((bundle / "plan.json").read_text(encoding="utf-8"))
    plan |= {"version": 2, "generator": "wgcc 9.1.0"}
    assert "wgcc 9.1.0" in refusal(lambda: read_plan(json.dumps(plan).encode()))


def test_versions_of_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "later.safetensors"
    save_weights(path, {"w": np.zeros(3, np.float32)}, {"version": 2})
    assert refusal(lambda: load_weights(path)).startswith("version:")
    save_weights(path, {"w": np.zeros(3, np.float32)}, {"model": "Line", "surprise": 1})
    assert load_weights(path)[1]["surprise"] == 1


def test_limits_of_files() -> None:
    assert (MAX_PLAN_BYTES, MAX_KERNEL_BYTES) == (8 << 20, 1 << 20)


def refusal(act: Callable[[], object]) -> str:
    try:
        act()
    except WgccError as error:
        return f"{error.code}: {error}"
    return ""
