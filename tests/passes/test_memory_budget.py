"""`wgcc build --memory SIZE`: activations are recomputed to save memory, with the same results;
the error for a size that cannot be reached says what was reached."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from cli_runs import run
from deep_models import GPT, MLP, batch_for, write
from wgcc.compiler import Compiled, compile_file
from wgcc.errors import WgError
from wgcc.schedule.schedule import schedule


def all_of(memory: dict[str, int]) -> int:
    """With what runtimes copy to undo a step."""
    return memory["peak"] + memory["guard"]


@dataclass(frozen=True)
class Budget:
    """A model as it is, and built for half the memory of its activations."""

    path: Path
    text: str
    plain: Compiled
    most: int
    saving: Compiled


@pytest.fixture(scope="module", params=[(MLP, 6), (GPT, 3)], ids=["mlp", "gpt"])
def budget(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Budget:
    text, depth = request.param
    path = write(tmp_path_factory.mktemp("budget"), text, depth=depth)
    plain = compile_file(path)
    free = plain.planned.plan["memory"]
    most = all_of(free) - free["temps"] // 2
    return Budget(path, text, plain, most, compile_file(path, memory=most))


def test_the_plan_stays_within_it(budget: Budget) -> None:
    free = budget.plain.planned.plan["memory"]
    found = budget.saving.planned.plan["memory"]
    assert all_of(found) <= budget.most and found["temps"] <= free["temps"] // 2
    assert budget.plain.remat_parts == 1 and budget.saving.remat_parts > 1
    # A model that fits is not changed, to the byte.
    assert compile_file(budget.path, memory=all_of(free)).files() == budget.plain.files()


def test_losses_stay_the_same(budget: Budget, tmp_path: Path) -> None:
    """Including dropout: recomputing draws the same numbers."""
    runs = []
    for number, compiled in enumerate((budget.plain, budget.saving)):
        compiled.write(tmp_path / str(number))
        with wgcc_runtime.load(tmp_path / str(number), device="SwiftShader") as model:
            runs.append([float(model.train(**batch_for(budget.text))["loss"]) for _ in range(6)])
    assert runs[0][-1] < runs[0][0]
    np.testing.assert_allclose(runs[1], runs[0], rtol=1e-5)


def test_remat_marks_are_replaced(tmp_path: Path) -> None:
    """If `remat` layers do not save enough, other activations are recomputed."""
    path = write(tmp_path, MLP.replace("  head:", "  remat head:"), depth=6)
    marked = compile_file(path).planned.plan["memory"]
    budget = all_of(marked) - marked["temps"] // 2
    saving = compile_file(path, memory=budget)
    assert all_of(saving.planned.plan["memory"]) <= budget and saving.remat_parts > 1


def test_too_little_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, MLP, depth=2)
    memory = compile_file(path).planned.plan["memory"]
    with pytest.raises(WgError) as caught:
        compile_file(path, memory=all_of(memory) - memory["temps"] + 1000)
    text = str(caught.value)
    assert "even when activations are computed again" in text
    assert "MB it may use (parameters 0.152 MB, " in text
    assert "copies to undo a failed step 0.456 MB" in text


def test_too_little_for_parameters_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rematerialisation does not save it, so more parts are not tried."""
    scheduled: list[Any] = []

    def counted(*arguments: Any) -> Any:
        scheduled.append(arguments)
        return schedule(*arguments)

    monkeypatch.setattr("wgcc.schedule.schedule.schedule", counted)
    with pytest.raises(WgError) as caught:
        compile_file(write(tmp_path, MLP, depth=2), memory=100_000)
    assert "MB of GPU memory without any activations, more than the 0.1 MB" in str(caught.value)
    assert len(scheduled) == 1


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, MLP, depth=6)
    free = compile_file(path).planned.plan["memory"]
    budget = all_of(free) - free["temps"] // 2
    build = ("build", str(path), "-o", str(tmp_path / "b"))
    code, out, _ = run(capsys, *build, "--memory", f"{budget / 1e6:.6f}MB", "--json")
    found = json.loads(out)
    assert code == 0 and found["segments"] > 1 and all_of(found["memory"]) <= budget
    for wrong in ("64", "0MB", "-1MB", "64 parsecs"):
        code, _, err = run(capsys, *build, f"--memory={wrong}")
        assert code == 2 and "such as 64MB" in err, wrong
