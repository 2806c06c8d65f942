"""`wgcc` itself, `wgcc new` and `wgcc check`: what they print where, and how they end."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from adapters import ROOT
from cli_runs import MODEL, WRONG, run
from wgcc import __version__
from wgcc.cli import failures

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runtime_py")))}


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.wg"
    path.write_text(MODEL)
    return str(path)


def test_help_names_the_commands() -> None:
    # It is fast because of what it does not import, which test_lazy_imports.py checks.
    done = subprocess.run(
        [sys.executable, "-m", "wgcc", "--help"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0
    for command in ("new", "check", "build", "show"):
        assert f"\n  {command}" in done.stdout
    assert "_WGCC_COMPLETE" in done.stdout


def test_help_imports_nothing_slow() -> None:
    code = (
        "import sys; from wgcc.cli import main; main(['--help']);"
        "print([m for m in ('lark', 'jinja2', 'numpy', 'wgpu', 'rich') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_completion_offers_commands() -> None:
    asked = {"_WGCC_COMPLETE": "bash_complete", "COMP_WORDS": "wgcc ch", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "wgcc"], capture_output=True, text=True, env={**ENVIRONMENT, **asked}
    )
    assert "check" in done.stdout


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--version")
    assert (code, out) == (0, f"wgcc {__version__}\n")


def test_a_misspelt_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "biuld")
    assert (code, out) == (2, "") and "Did you mean 'build'?" in err


class TestNew:
    @pytest.mark.parametrize("template", ["sin", "digits", "chargpt", "lora"])
    def test_makes_a_folder_that_builds(
        self, template: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder = tmp_path / "hello"
        code, out, err = run(capsys, "new", str(folder), "-t", template)
        assert (code, out) == (0, "")
        commands = [line.strip() for line in err.splitlines() if line.startswith("  wgcc")]
        assert commands[0].startswith("wgcc build model.wg")
        readme = (folder / "README.md").read_text()
        assert all(f"    {command} " in readme for command in commands)
        named = [word for command in commands[:2] for word in command.split() if "." in word]
        assert all((folder / name).is_file() for name in named), named
        assert run(capsys, "check", str(folder))[0] == 0

    def test_what_it_prints_can_be_run(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With the most involved of the templates, for one step and some letters."""
        monkeypatch.chdir(tmp_path)
        _, _, err = run(capsys, "new", "lora", "-t", "lora")
        monkeypatch.chdir(tmp_path / "lora")
        build, train, write = (
            shlex.split(line)[1:] for line in err.splitlines() if line.startswith("  wgcc")
        )
        train[train.index("--steps") + 1] = "1"
        assert run(capsys, *build)[0] == run(capsys, *train)[0] == 0
        code, out, _ = run(capsys, *write, "-n", "9")
        prompt = write[write.index("--prompt") + 1]
        assert code == 0 and out.startswith(prompt) and len(out) == len(prompt) + 10

    def test_keeps_what_is_there(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "mine").write_text("")
        code, _, err = run(capsys, "new", str(tmp_path))
        assert code == 2 and "exists already" in err

    def test_unknown_template(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = run(capsys, "new", str(tmp_path / "x"), "-t", "gan")
        assert code == 2 and "lora" in err and not (tmp_path / "x").exists()


class TestCheck:
    def test_ok(self, model: str, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run(capsys, "check", model)
        assert (code, out) == (0, "")
        assert "ok: Net, 13 parameters (52 B), entries train, predict" in err

    def test_wrong(self, model: str, capsys: pytest.CaptureFixture[str]) -> None:
        """All errors of all files; a correct file is still checked after a wrong one."""
        code, out, err = run(capsys, "check", str(WRONG), model)
        assert (code, out) == (1, "")
        assert err.count("error[WG0120]") == 3 and "3 errors; nothing was written" in err
        assert "ok: Net" in err

    def test_json(self, model: str, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run(capsys, "check", "--json", str(WRONG), model)
        assert (code, err) == (1, "")
        wrong, right = json.loads(out)
        assert not wrong["ok"] and [d["code"] for d in wrong["diagnostics"]] == ["WG0120"] * 3
        assert right["ok"] and right["models"]["Net"]["parameters"] == 13

    def test_sizes(self, model: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert "25 parameters" in run(capsys, "check", model, "--set", "H=6")[2]
        code, _, err = run(capsys, "check", model, "--set", "Hh=6")
        assert code == 1 and "no dim or const Hh" in err
        code, _, err = run(capsys, "check", model, "--set", "H")
        assert code == 2 and "NAME=NUMBER" in err

    def test_folders(self, tmp_path: Path, model: str, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "lib.wg").write_text("fn twice(x: f32) -> f32 = x + x\n")
        code, _, err = run(capsys, "check", str(tmp_path))
        assert code == 0 and "lib.wg: ok: no model, so nothing to build" in err

    @pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"\x00" * 10, b"", b"((((("])
    def test_odd_files(
        self, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "odd.wg"
        path.write_bytes(content)
        code, _, err = run(capsys, "check", str(path))
        assert code in (0, 1) and "bug in wgcc" not in err

    def test_one_odd_file_does_not_stop_the_others(
        self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "a.wg").write_bytes(b"\xff")
        code, _, err = run(capsys, "check", str(tmp_path))
        assert code == 1 and "not UTF-8" in err and "ok: Net" in err
        code, out, _ = run(capsys, "check", str(tmp_path), "--json")
        assert code == 1 and [record["ok"] for record in json.loads(out)] == [False, True]

    def test_a_file_that_is_not_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = run(capsys, "check", "nowhere.wg")
        assert code == 2 and "does not exist" in err


class TestFailures:
    @pytest.fixture
    def failing(self, monkeypatch: pytest.MonkeyPatch, model: str) -> str:
        """`wgcc check` raises what the test puts into `TestFailures.error`."""

        def fail(*_: object, **__: object) -> None:
            raise TestFailures.error

        monkeypatch.setattr("wgcc.cli.commands.check.checking.check_file", fail)
        return model

    error: BaseException

    def test_a_bug_is_one_line(self, failing: str, capsys: pytest.CaptureFixture[str]) -> None:
        TestFailures.error = KeyError("x")
        code, out, err = run(capsys, "check", failing)
        assert (code, out) == (1, "")
        assert err.count("\n") == 1 and "please report" in err and "Traceback" not in err

    def test_interrupted(self, failing: str, capsys: pytest.CaptureFixture[str]) -> None:
        TestFailures.error = KeyboardInterrupt()
        assert run(capsys, "check", failing)[0] == 130

    def test_no_permission(self, failing: str, capsys: pytest.CaptureFixture[str]) -> None:
        TestFailures.error = PermissionError(13, "Permission denied", "there.wg")
        code, _, err = run(capsys, "check", failing)
        assert (code, err) == (1, "wgcc: there.wg: Permission denied\n")

    def test_a_numeric_check_that_failed(
        self, failing: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        TestFailures.error = click.exceptions.Exit(failures.CHECK_FAILED)
        assert run(capsys, "check", failing)[0] == 3


def test_output_into_a_closed_pipe(model: str) -> None:
    command = f"{sys.executable} -m wgcc show {model} --stage plan | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env=ENVIRONMENT)
    assert (done.stdout, done.stderr) == ("{\n", "")


def test_an_entry_without_the_optimizer_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    model = str(ROOT / "examples" / "gqa_decode" / "model.wg")
    code, text, _ = run(capsys, "show", model, "--entry", "decode")
    assert code == 0 and "decode" in text
