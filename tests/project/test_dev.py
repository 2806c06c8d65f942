"""dev.py says what it can do, and what to run where it may not install things itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dev

SCRIPT = Path(dev.__file__)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_help_names_every_command() -> None:
    done = run("--help")
    assert done.returncode == 0
    for command in ("demo", "test", "lint", "bless"):
        assert f"python3 dev.py {command}" in done.stdout


def test_unknown_command_is_a_usage_error() -> None:
    assert run().returncode == run("deploy").returncode == 2


def test_without_apt_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev, "which", lambda tool: None)
    with pytest.raises(dev.StuckError, match=r"please install a driver .*mesa-vulkan-drivers"):
        dev.need_packages("mesa-vulkan-drivers", why="a driver")


def test_without_root_and_sudo_it_says_what_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev, "which", lambda tool: None if tool == "sudo" else tool)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(
        dev.StuckError, match=r"run as root: apt-get update && apt-get install .*npm"
    ):
        dev.need_packages("npm", why="npm")


@pytest.mark.parametrize("adapter", ["", "llvmpipe"])
def test_demo_needs_no_adapter(adapter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It compares both forms of the bundle where there is one."""
    ran: list[str] = []
    monkeypatch.setattr(dev, "need_environment", lambda kind: None)
    monkeypatch.setattr(dev, "need_packages", lambda *packages, why: pytest.fail(why))
    monkeypatch.setattr(dev, "_adapter", lambda: adapter)
    monkeypatch.setattr(dev, "run_tool", lambda *command: ran.append(command[1]) or 0)
    assert dev.demo([]) == 0
    scripts = ["examples/sin/train.py", *(["examples/sin/compare.py"] if adapter else [])]
    assert ran == ["build", *scripts]


def test_lint_says_what_to_install_for_javascript(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev, "which", lambda tool: None)
    with pytest.raises(dev.StuckError, match=r"please install Node.*nodejs npm"):
        dev.need_linter()


def test_lint_checks_javascript(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(dev, "need_environment", lambda kind: None)
    monkeypatch.setattr(dev, "need_linter", lambda: None)
    monkeypatch.setattr(
        dev, "run_program", lambda tool, *options: ran.append((tool.name, *options)) or 0
    )
    assert dev.lint([]) == 0
    assert ("biome", "check", "--error-on-warnings") in ran
    assert dev.lint(["--fix"]) == 0
    assert ("biome", "check", "--error-on-warnings", "--write") in ran
    assert ran[-1] == ("python", "tests/lint")


def test_a_failing_command_shows_its_output(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(dev.StuckError, match="its output is above"):
        dev.run_hidden([sys.executable, "-c", "print('the reason'); raise SystemExit(3)"])
    assert "the reason" in capsys.readouterr().err


def test_ci_runs_the_same_tests() -> None:
    lines = (SCRIPT.parent / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert lines[-1] == "exec python3 dev.py test"


def test_quick_tests_exist_and_need_no_adapter() -> None:
    for name in dev.QUICK:
        text = (SCRIPT.parent / dev._test_file(name)).read_text(encoding="utf-8")
        assert "lavapipe" not in text, name
        assert "adapter: " not in text, name
