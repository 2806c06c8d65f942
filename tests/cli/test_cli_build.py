"""`wgcc build` and `wgcc show`: what they write, print and refuse."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from adapters import ROOT
from cli_runs import MODEL, WRONG, run
from wgcc.cli import main
from wgcc.cli.commands.show import IR_STAGES, STEP_STAGES
from wgcc.passes import pipeline as passes
from wgcc.schedule import steps


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


class TestBuild:
    def test_writes_a_bundle(
        self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder = tmp_path / "out"
        code, out, err = run(capsys, "build", model, "-o", str(folder))
        assert (code, out) == (0, "")
        for words in ("13 parameters", "GPU memory", "dispatches", "try it", "built in"):
            assert words in err
        assert len(err.splitlines()) <= 8
        *_, err = run(capsys, "build", model, "-o", str(folder), "-v")
        for words in ("plan.json", "kernels/ (", "storage buffers", "built in"):
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

    def test_many_entries_are_summarised(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        entries = "".join(f"entry e{i}(x: f32) -> (y: f32) = x + {i}.0\n" for i in range(12))
        (tmp_path / "many.wg").write_text(f"model Many {{\n{entries}}}\n")
        command = ("build", str(tmp_path / "many.wg"), "-o", str(tmp_path / "out"))
        err = run(capsys, *command)[2]
        assert "and 8 more entries (-v lists them)" in err and len(err.splitlines()) <= 8
        assert "e11: " in run(capsys, *command, "-v")[2]

    def test_errors_show_the_path_as_it_was_given(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """So that an editor or a terminal can open it, from whatever folder."""
        (tmp_path / "models").mkdir()
        (tmp_path / "models" / "part.wg").write_text("fn f(x: f32) -> f32 = y\n")
        text = 'import "part.wg" as part\nmodel M { entry e(x: f32) -> (y: f32) = part.f(x) + z }\n'
        (tmp_path / "models" / "model.wg").write_text(text)
        monkeypatch.chdir(tmp_path)
        for command in (["check"], ["build", "-o", "out"], ["show"]):
            _, _, err = run(capsys, *command, "models/model.wg")
            assert "--> models/model.wg:2:" in err and "models/part.wg:1:" in err
        _, out, _ = run(capsys, "check", "models/model.wg", "--json")
        files = {item["file"] for item in json.loads(out)}
        assert "models/model.wg" in files

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
        assert code == 1 and "is not a safetensors file" in err

    def test_watch_builds_again_when_a_file_is_saved(
        self,
        model: str,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        saves = [MODEL.replace("H = 3", "H = 6"), MODEL.replace("tanh", "tahn")]

        def sleep(_: float) -> None:
            if not saves:
                raise KeyboardInterrupt
            Path(model).write_text(saves.pop(0))

        monkeypatch.setattr("wgcc.cli.commands.build.time.sleep", sleep)
        code, _, err = run(capsys, "build", model, "-o", str(tmp_path / "out"), "--watch")
        assert code == 130
        assert "13 parameters" in err and "25 parameters" in err and "unknown name `tahn`" in err

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
            ("placed", "at params[64:"),
            ("products", "matmul("),
            ("own-gradients", "%d.g.w.copy: f32[3, 1] = copy("),
            ("prepared", "%d.g.w.copy: f32[3, 1] = copy("),
            ("groups", "kernel 0 "),
            ("exchange", "gradients are complete before %"),
            ("slots", "temp0[0:"),
            ("fused", "workgroups of"),
            ("fused", "; stored because it is a result of the entry"),
            ("fused", "d.f.b: is a bias gradient: sums the columns that the product loads; stored"),
            ("fused", "g.matmul.sum: starts the kernel, not that of f.matmul: they loop over"),
            ("plan", '"format": "wgcc-bundle"'),
        ],
    )
    def test_stages(
        self, stage: str, text: str, model: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, out, err = run(capsys, "show", model, "--stage", stage)
        assert (code, err) == (0, "") and text in out

    def test_every_pass_and_step_leads_to_a_stage(self) -> None:
        assert (IR_STAGES, STEP_STAGES) == (passes.STAGES, steps.STAGES)

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
        picture = run(capsys, "show", bundle, "--graph", "svg", "--entry", "predict")[1]
        assert ElementTree.fromstring(picture).tag.endswith("svg")
        code, _, err = run(capsys, "show", model, "--graph", "svg")
        assert code == 1 and "--entry (train, predict)" in err

    def test_one_entry_of_a_model_with_a_schedule(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The counter of steps belongs to entries that train."""
        path, folder = str(ROOT / "examples" / "sin" / "model.wg"), str(tmp_path / "bundle")
        assert run(capsys, "build", path, "--entries", "predict", "-o", folder)[0] == 0
        plan = json.loads(Path(folder, "plan.json").read_text())
        assert not [name for name in plan["tensors"] if name.startswith("opt/")]
        assert run(capsys, "show", path, "--entry", "predict")[0] == 0

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
