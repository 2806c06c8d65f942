"""Importing the compiler or the command line loads no package that takes long to load."""

from __future__ import annotations

import subprocess
import sys

import pytest

from adapters import ROOT


@pytest.mark.parametrize("module", ["wgcc.compiler", "wgcc.cli"])
def test_importing_the_compiler_loads_nothing_slow(module: str) -> None:
    heavy = ["numpy", "wgpu", "safetensors", *(["lark", "jinja2"] if module == "wgcc.cli" else [])]
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    path = [str(ROOT), str(ROOT / "runtime_py")]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path}; {code}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr or done.stdout
