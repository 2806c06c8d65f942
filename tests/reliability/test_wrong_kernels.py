"""A part of the trial of wrong kernels: one operator is changed, and the self-test fails.

`python tests/reliability kernels` runs all of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters import ROOT
from building import build
from trials.kernels import mutants, try_mutants, write_mutant
from wgcc.cli import main


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kernels") / "bundle"
    return build(ROOT / "tests" / "golden" / "regression.wg", folder)


def test_wrong_operators_are_caught(bundle: Path) -> None:
    verdicts = try_mutants(bundle, "lavapipe", each=2, seed=3)
    caught = sum(verdict == "caught" for _, verdict in verdicts)
    # Some change nothing at these sizes, and Adam's bias corrections hardly change in three steps.
    assert caught >= 0.8 * len(verdicts) > 10


def test_verify_says_so(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = write_mutant(bundle, next(mutants(bundle, 1, seed=3)), tmp_path / "wrong")
    arguments = ["--device", "llvmpipe", "--profile", "gpu"]
    assert main(["verify", str(bundle), *arguments]) == 0
    assert main(["verify", str(wrong), *arguments]) == 3
    assert "wrong" in capsys.readouterr().err
