"""GPT-2 small, 124 million parameters: builds, and makes a training step as PyTorch does.

It runs as WebAssembly: its embedding has 147 MiB, and lavapipe binds at most 128.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gpt2_numbers
import wgcc_runtime
from adapters import ROOT
from building import TWIN
from wgcc.compiler import compile_file

MODEL = ROOT / "tests" / "bench" / "models" / "gpt2.wg"


def test_a_step_is_that_of_pytorch(tmp_path: Path) -> None:
    """Its loss, the norm of all gradients, and that of one tensor of each kind."""
    compiled = compile_file(MODEL, entries=["descend"])
    compiled.write(tmp_path / "b")
    wanted = json.loads(gpt2_numbers.RECORDED.read_text(encoding="utf-8"))
    ids, labels = gpt2_numbers.ids()
    with wgcc_runtime.load(tmp_path / "b", device=TWIN, weights=gpt2_numbers.weights()) as model:
        found = model.descend(ids=ids, labels=labels)
        assert found["loss"] == pytest.approx(wanted["loss"], rel=1e-5)
        assert found["norm"] == pytest.approx(wanted["norm"], rel=1e-4)
        params = model.params()
    for name, norm in wanted["norms"].items():
        before = gpt2_numbers.weight(name, params[name].shape).astype(np.float64)
        assert np.linalg.norm(before - params[name]) == pytest.approx(norm, rel=1e-3), name


# A process of its own, because one that is started has at first the memory of its parent.
MEASURE = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "wgcc", "build", *sys.argv[1:]])
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(done.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3)
"""


def test_it_builds_in_15_seconds_and_2_gb(tmp_path: Path) -> None:
    """Seconds of CPU, because other tests run at the same time."""
    bundle = tmp_path / "b"
    command = [sys.executable, "-c", MEASURE, str(MODEL), "-o", str(bundle)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    code, seconds, peak = map(float, done.stdout.split())
    print(f"GPT-2 small builds in {seconds:.1f} s of CPU with {peak:.0f} MB")
    assert code == 0, done.stderr
    assert seconds < 15
    assert peak < 2000
    assert "`tok.w` (147 MiB) is larger" in done.stderr
    assert not (bundle / "weights.safetensors").exists()
    assert (bundle / "index.html").stat().st_size < 2_000_000
