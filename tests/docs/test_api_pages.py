"""The pages about the APIs name everything public, and their examples run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import wgcc_runtime
from adapters import ROOT, environment
from building import build
from wgcc_runtime.history import History, Report
from wgcc_runtime.loader import load
from wgcc_runtime.model import Model
from wgcc_runtime.opened_model import OpenedModel

PYTHON = (ROOT / "runtime_py" / "README.md").read_text(encoding="utf-8")


def test_python_page_names_everything_public() -> None:
    functions = [f"wg.{name}" for name in ("load", "load_plan", "run_selftest", "write")]
    known = (*vars(Model), *vars(OpenedModel))
    members = [f"model.{name}" for name in known if not name.startswith("_")]
    options = [f"`{name}`" for name in (*arguments(load), *arguments(Model.fit)) if name != "self"]
    fields = [f"`{name}`" for kind in (Report, History) for name in kind.__slots__]
    missing = [name for name in (*functions, *members, *options, *fields) if name not in PYTHON]
    assert missing == []
    assert all(re.search(rf"\b{name}\b", PYTHON) for name in wgcc_runtime.__all__)


def arguments(function: object) -> tuple[str, ...]:
    code = function.__code__  # type: ignore[attr-defined]
    return tuple(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def test_python_page_lists_every_error_code() -> None:
    sources = (ROOT / "runtime_py").rglob("*.py")
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    codes = set(re.findall(r'WgccError\(\s*"([a-z-]+)"', text)) | {"device-lost"}
    assert codes <= set(re.findall(r"`([a-z-]+)`", PYTHON[PYTHON.index("## Errors") :]))


def test_python_examples_run(tmp_path: Path) -> None:
    build(ROOT / "examples" / "sin" / "model.wg", tmp_path / "bundle")
    blocks = re.findall(r"```python\n(.*?)```", PYTHON, re.DOTALL)
    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime_py")])
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)],
        cwd=tmp_path,
        env={**os.environ, **environment("lavapipe"), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
