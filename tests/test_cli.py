"""`wgcc new`, `check`, `build` and `show`: what they print where, and how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import click
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from wgcc.cli import group as cli_group
from wgcc.cli import main

ROOT = Path(__file__).parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runtime_py")))}
WRONG = Path(__file__).parent / "filetests" / "diagnostics" / "03_three_errors_at_once.wg"

MODEL = """\
dim B = 4, H = 3

model Net {
  seed = 1
  f: Linear[2, H]
  g: Linear[H, 1]
  optimizer opt: sgd { lr = 0.1 }

  entry train(x: f32[B, 2], y: f32[B, 1]) -> (loss: f32) {
    loss = mse(x |> f |> tanh |> g, y)
    minimize loss with opt
    return loss
  }

  entry predict(x: f32[1, 2]) -> (y: f32[1, 1]) = x |> f |> tanh |> g
}
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.wg"
    path.write_text(MODEL)
    return str(path)


@pytest.fixture
def bundle(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    folder = str(tmp_path / "bundle")
    assert main(["build", model, "-o", folder]) == 0
    capsys.readouterr()
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_is_quick_and_names_the_commands() -> None:
    times = []
    for _ in range(3):
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "wgcc", "--help"],
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
        )
        times.append(time.perf_counter() - started)
        assert done.returncode == 0
        for command in ("new", "check", "build", "show"):
            assert f"\n  {command}" in done.stdout
        assert "_WGCC_COMPLETE" in done.stdout
    # Usually a fifth of a second; machines that run tests are busy.
    assert min(times) < 1.0


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
    assert (code, out) == (0, "wgcc 0.1.0\n")


def test_a_misspelt_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "biuld")
    assert (code, out) == (2, "") and "Did you mean 'build'?" in err


class TestNew:
    @pytest.mark.parametrize("template", ["sin", "digits"])
    def test_makes_a_folder_that_builds(
        self, template: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder = tmp_path / "hello"
        code, out, err = run(capsys, "new", str(folder), "-t", template)
        assert (code, out) == (0, "") and "wgcc build model.wg -o bundle" in err
        assert "wgcc train bundle" in (folder / "README.md").read_text()
        assert list(folder.glob("*.safetensors"))
        assert run(capsys, "check", str(folder))[0] == 0

    def test_keeps_what_is_there(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "mine").write_text("")
        code, _, err = run(capsys, "new", str(tmp_path))
        assert code == 2 and "exists already" in err

    def test_says_what_comes_later(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, _, err = run(capsys, "new", str(tmp_path / "x"), "-t", "lora")
        assert code == 2 and "later version" in err and not (tmp_path / "x").exists()


class TestCheck:
    def test_right(self, model: str, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run(capsys, "check", model)
        assert (code, out) == (0, "")
        assert "Net is right: 13 parameters (52 B), entries train, predict" in err

    def test_wrong(self, model: str, capsys: pytest.CaptureFixture[str]) -> None:
        """All errors of all files; a right file beside a wrong one is still checked."""
        code, out, err = run(capsys, "check", str(WRONG), model)
        assert (code, out) == (1, "")
        assert err.count("error[WG0120]") == 3 and "3 errors; nothing was written" in err
        assert "Net is right" in err

    def test_json(self, model: str, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run(capsys, "check", "--json", str(WRONG), model)
        assert (code, err) == (1, "")
        wrong, right = json.loads(out)
        assert not wrong["ok"] and [d["code"] for d in wrong["diagnostics"]] == ["WG0120"] * 3
        assert right["ok"] and right["models"]["Net"]["parameters"] == 13

    def test_sizes(self, model: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert "25 parameters" in run(capsys, "check", model, "--set", "H=6")[2]
        code, _, err = run(capsys, "check", model, "--set", "Hh=6")
        assert code == 1 and "no dim Hh" in err
        code, _, err = run(capsys, "check", model, "--set", "H")
        assert code == 2 and "NAME=NUMBER" in err

    def test_folders(self, tmp_path: Path, model: str, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "lib.wg").write_text("fn twice(x: f32) -> f32 = x + x\n")
        code, _, err = run(capsys, "check", str(tmp_path))
        assert code == 0 and "lib.wg: no errors, and no model to build" in err

    @pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"\x00" * 10, b"", b"((((("])
    def test_odd_files(
        self, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "odd.wg"
        path.write_bytes(content)
        code, _, err = run(capsys, "check", str(path))
        assert code in (0, 1) and "bug in wgcc" not in err

    def test_a_file_that_is_not_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = run(capsys, "check", "nowhere.wg")
        assert code == 2 and "does not exist" in err


class TestBuild:
    def test_writes_a_bundle(
        self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder = tmp_path / "out"
        code, out, err = run(capsys, "build", model, "-o", str(folder))
        assert (code, out) == (0, "")
        for words in ("13 parameters", "GPU memory", "dispatches", "storage buffers", "built in"):
            assert words in err
        assert json.loads((folder / "plan.json").read_text())["model"]["name"] == "Net"

    def test_twice_the_same_bytes(
        self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folders = [tmp_path / "one", tmp_path / "two"]
        for folder in folders:
            assert run(capsys, "build", model, "-o", str(folder))[0] == 0
        one, two = ({p.relative_to(f): p.read_bytes() for p in f.rglob("*.*")} for f in folders)
        assert one == two

    def test_json(self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run(capsys, "build", model, "-o", str(tmp_path / "out"), "--json")
        facts = json.loads(out)
        assert (code, err) == (0, "") and facts["parameters"] == 13
        assert facts["entries"]["train"]["dispatches"] < facts["entries"]["train"]["ops"]

    def test_errors(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = tmp_path / "out"
        code, out, err = run(capsys, "build", str(WRONG), "-o", str(folder))
        assert (code, out) == (1, "") and "3 errors; nothing was written" in err
        assert not folder.exists()
        code, out, err = run(capsys, "build", str(WRONG), "-o", str(folder), "--json")
        assert (code, err) == (1, "") and len(json.loads(out)["diagnostics"]) == 3

    def test_only_some_entries(
        self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder = tmp_path / "out"
        assert run(capsys, "build", model, "-o", str(folder), "--entries", "predict")[0] == 0
        assert list(json.loads((folder / "plan.json").read_text())["entries"]) == ["predict"]
        code, _, err = run(capsys, "build", model, "-o", str(folder), "--entries", "nothing")
        assert code == 1 and "no entry nothing" in err

    def test_seed_and_weights(
        self, model: str, bundle: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        first = load_file(f"{bundle}/weights.safetensors")
        other = tmp_path / "other"
        assert run(capsys, "build", model, "-o", str(other), "--seed", "2")[0] == 0
        second = load_file(other / "weights.safetensors")
        assert not np.array_equal(first["f.w"], second["f.w"])
        given = f"{bundle}/weights.safetensors"
        assert run(capsys, "build", model, "-o", str(other), "--weights", given)[0] == 0
        assert np.array_equal(load_file(other / "weights.safetensors")["f.w"], first["f.w"])

    @pytest.mark.parametrize(
        ("name", "array", "text"),
        [
            ("f.ww", np.zeros((2, 3), "f4"), "did you mean f.w"),
            ("f.w", np.zeros((3, 2), "f4"), "has shape [3, 2], the model needs f32[2, 3]"),
        ],
    )
    def test_weights_must_fit(
        self,
        name: str,
        array: np.ndarray,
        text: str,
        model: str,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        save_file({name: array}, tmp_path / "w.safetensors")
        arguments = ("-o", str(tmp_path / "out"), "--weights", str(tmp_path / "w.safetensors"))
        code, _, err = run(capsys, "build", model, *arguments)
        assert code == 1 and text in err

    def test_weights_must_be_safetensors(
        self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, _, err = run(capsys, "build", model, "-o", str(tmp_path / "out"), "--weights", model)
        assert code == 1 and "not a safetensors file" in err

    def test_does_not_mix_with_other_files(
        self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, _, err = run(capsys, "build", model, "-o", str(tmp_path))
        assert code == 2 and "not a bundle" in err


class TestShow:
    @pytest.mark.parametrize(
        ("stage", "text"),
        [
            ("ast", "Layer is_model=True name=Net"),
            ("ir", "minimize("),
            ("grad", "%d."),
            ("opt", "sgd_update("),
            ("expanded", "matmul("),
            ("simplified", "matmul("),
            ("fused", "workgroups of"),
            ("plan", '"format": "wgcc-bundle"'),
        ],
    )
    def test_stages(
        self, stage: str, text: str, model: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, out, err = run(capsys, "show", model, "--stage", stage)
        assert (code, err) == (0, "") and text in out

    def test_overview_is_the_same_of_model_and_bundle(
        self, model: str, bundle: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        of_model = run(capsys, "show", model)
        assert of_model == run(capsys, "show", bundle)
        assert "train(x: f32[4, 2], y: f32[4, 1]) -> (loss: f32)" in of_model[1]

    def test_kernel(self, model: str, bundle: str, capsys: pytest.CaptureFixture[str]) -> None:
        _, out, _ = run(capsys, "show", "--json", bundle)
        name = json.loads(out)["kernels"][0]
        assert "@compute" in run(capsys, "show", bundle, "--kernel", name)[1]
        assert "@compute" in run(capsys, "show", model, "--kernel", f"{name}.wgsl")[1]
        code, _, err = run(capsys, "show", model, "--kernel", f"{name}x")
        assert code == 1 and "did you mean" in err

    def test_memory(self, model: str, bundle: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert "total" in run(capsys, "show", model, "--memory")[1]
        assert "show the model file" in run(capsys, "show", bundle, "--memory")[1]
        facts = json.loads(run(capsys, "show", model, "--memory", "--json")[1])
        assert facts["memory"]["peak"] == sum(b["bytes"] for b in facts["buffers"])

    def test_graphs(self, model: str, bundle: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert "after 0" in run(capsys, "show", model, "--graph", "text")[1]
        assert run(capsys, "show", bundle, "--graph", "dot")[1].startswith('digraph "train" {')
        page = run(capsys, "show", model, "--graph", "html", "--stage", "grad")[1]
        assert page.count("<svg") == 2
        picture = run(capsys, "show", bundle, "--graph", "svg", "--entry", "predict")[1]
        assert ElementTree.fromstring(picture).tag.endswith("svg")
        code, _, err = run(capsys, "show", model, "--graph", "svg")
        assert code == 1 and "--entry (train, predict)" in err

    def test_stages_of_a_bundle(self, bundle: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(capsys, "show", bundle, "--stage", "plan")[0] == 0
        code, _, err = run(capsys, "show", bundle, "--stage", "ir")
        assert code == 1 and "show the model file" in err

    def test_not_a_bundle(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = run(capsys, "show", str(tmp_path))
        assert code == 1 and "not a bundle" in err

    def test_a_damaged_bundle(self, bundle: str, capsys: pytest.CaptureFixture[str]) -> None:
        Path(bundle, "plan.json").write_text('{"format": "wgcc-bundle", "version": 1}')
        code, _, err = run(capsys, "show", bundle)
        assert code == 1 and "bug in wgcc" not in err


class TestFailures:
    @pytest.fixture
    def failing(self, monkeypatch: pytest.MonkeyPatch, model: str) -> str:
        """`wgcc check` raises what the test puts into `TestFailures.error`."""

        def fail(*_: object, **__: object) -> None:
            raise TestFailures.error

        monkeypatch.setattr("wgcc.cli.checking.check_file", fail)
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
        TestFailures.error = click.exceptions.Exit(cli_group.CHECK_FAILED)
        assert run(capsys, "check", failing)[0] == 3


def test_output_into_a_closed_pipe(model: str) -> None:
    command = f"{sys.executable} -m wgcc show {model} --stage plan | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env=ENVIRONMENT)
    assert (done.stdout, done.stderr) == ("{\n", "")
