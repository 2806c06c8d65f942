"""Whole bundles, to the byte; naga and Tint accept every kernel that wgcc writes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import golden
from adapters import ROOT
from building import build
from tint_compiler import compile_all
from wgcc.bundle.javascript import template
from wgcc.compiler import compile_file
from wgcc.evaluate import NUMPY
from wgcc_runtime import load, load_plan

CASES = sorted((ROOT / "tests" / "golden").glob("*.wg"))
MODELS = [
    *CASES,
    *sorted(
        # Others hold what the models of several examples share.
        path
        for path in (ROOT / "examples").glob("*/*.wg")
        if re.search(r"(?m)^model ", path.read_text(encoding="utf-8"))
    ),
    *sorted((ROOT / "tests" / "curves").glob("*.wg")),
]


# The web files contain copies of these, and the runtime; test_web_*.py run them.
PINNED = (".json", ".wgsl", ".safetensors", ".ts")
# All files of this bundle are pinned whole; what is the same for every model is left out elsewhere.
WHOLE = "regression"


def name_of(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    folder = tmp_path_factory.mktemp("bundles")
    return {model: build(model, folder / name_of(model)) for model in MODELS}


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_bundle_is_as_expected(case: Path, bless: bool) -> None:
    files = compile_file(case, twin=False).files()
    assert files[case.name] == case.read_bytes()
    pinned = {name: data for name, data in files.items() if Path(name).suffix in PINNED}
    if case.stem != WHOLE:
        del pinned["package.json"]
        pinned["model.d.ts"] = own_types(pinned.pop("index.d.ts").decode())
    golden.check(case.with_suffix(""), pinned, bless)


def own_types(declarations: str) -> bytes:
    """index.d.ts without what every model has."""
    for part in template("bundle/index.d.ts").split("// MODEL\n"):
        assert declarations.count(part) == 1
        declarations = declarations.replace(part, "")
    return declarations.encode()


def test_no_golden_folder_without_its_model() -> None:
    folders = {path.name for path in (ROOT / "tests" / "golden").iterdir() if path.is_dir()}
    assert folders == {case.stem for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_plan_is_valid(case: Path) -> None:
    assert load_plan(case.with_suffix("")).entries


def test_kernels_use_all_their_bindings(bundles: dict[Path, Path]) -> None:
    """A layout that is derived from a kernel's code lacks bindings that it does not use."""
    for bundle in bundles.values():
        for path in bundle.glob("kernels/*.wgsl"):
            code = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
            for name in re.findall(r"var<storage, \w+> (\w+):", code):
                assert len(re.findall(rf"\b{name}\b", code)) > 1, f"{path}: {name}"


def test_tint_accepts_every_kernel(bundles: dict[Path, Path]) -> None:
    for halves in (False, True):
        chosen = [bundle for bundle in bundles.values() if uses_halves(bundle) == halves]
        kernels = [kernel for bundle in chosen for kernel in bundle.glob("kernels/*.wgsl")]
        found = compile_all(kernels, halves)
        refused = {path: messages for path, messages in found.items() if messages}
        assert kernels
        assert not refused, refused


def uses_halves(bundle: Path) -> bool:
    return "shader-f16" in load_plan(bundle).features


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_naga_accepts_every_kernel(model: Path, bundles: dict[Path, Path], lavapipe: Any) -> None:
    bundle = bundles[model]
    # The shared device has default features only.
    device = "llvmpipe" if uses_halves(bundle) else lavapipe
    load(bundle, device=device, weights=external(bundle)).close()


def external(bundle: Path) -> dict[str, np.ndarray] | None:
    """Zeros for what must be given from outside."""
    tensors = load_plan(bundle).persistent().items()
    wanted = [(name, tensor) for name, tensor in tensors if tensor.init["kind"] == "external"]
    return {name: np.zeros(t.shape, NUMPY[t.dtype]) for name, t in wanted} or None


# Builds each model with another order of sets and dicts of strings than the tests' own process.
BUILD_AGAIN = """
import hashlib, json, sys
from wgcc.compiler import compile_file
for model in sys.argv[1:]:
    files = compile_file(model).files()
    print(json.dumps({name: hashlib.sha256(data).hexdigest() for name, data in files.items()}))
"""


def test_building_again_gives_the_same_bytes(bundles: dict[Path, Path]) -> None:
    """In another process, where sets and dicts of strings have another order."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime_py")])
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
    command = [sys.executable, "-c", BUILD_AGAIN, *map(str, bundles)]
    lines = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    for line, bundle in zip(lines.splitlines(), bundles.values(), strict=True):
        for name, digest in json.loads(line).items():
            assert hashlib.sha256((bundle / name).read_bytes()).hexdigest() == digest, bundle / name
