"""`wgcc check --fix`: corrections of errors are written to the files, warnings are left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_runs import MODEL, run


def test_corrections_are_applied_until_the_model_is_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names of PyTorch are wrong calls once they are known, so that takes more than one round."""
    file = tmp_path / "m.wg"
    wrong = MODEL.replace("Linear[2", "Liner[2").replace("|> tanh |> g, y", "|> thanh |> g, y")
    wrong = wrong.replace("sgd {", "sgd:").replace("lr = 0.1 }", "\n    learning_rate = 0.1\n")
    file.write_text(wrong)
    code, _, err = run(capsys, "check", str(file))
    assert code == 1 and "did you mean `Linear`?" in err
    assert file.read_text() == wrong
    code, _, err = run(capsys, "check", "--fix", str(file))
    assert code == 0, err
    assert "corrections applied" in err
    text = file.read_text()
    assert "Linear[2, H]" in text and "|> tanh |> g, y" in text


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("f: Linear[2, H]", "f Linear[2, H]"),
        ("lr = 0.1 }", "lr = 0.1"),
        ("mse(x |> f |> tanh |> g, y)", "mse(x |> f |> tanh |> g, y"),
        ("    return loss\n  }", "    return loss"),
        ("seed = 1", "seed = 1 # why"),
        ("seed = 1", "seed == 1"),
    ],
)
def test_typing_mistakes_are_corrected(
    right: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "m.wg"
    file.write_text(MODEL.replace(right, wrong, 1))
    assert run(capsys, "check", str(file))[0] == 1
    code, _, err = run(capsys, "check", "--fix", str(file))
    assert code == 0, f"{err}\n{file.read_text()}"


def test_a_correction_that_does_not_help_is_taken_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from wgcc.cli.commands.check import fixing

    file = tmp_path / "m.wg"
    file.write_text(MODEL.replace("Linear[2", "Liner[2"))
    monkeypatch.setattr(fixing, "apply_edits", lambda text, edits: f"{text}\n)")
    before = file.read_text()
    assert run(capsys, "check", "--fix", str(file))[0] == 1
    assert file.read_text() == before


def test_files_that_are_imported_are_corrected_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = tmp_path / "m.wg", tmp_path / "parts.wg"
    file.write_text(
        'import twice from "parts.wg"\n'
        + MODEL.replace("(y: f32[1, 1]) = x", "(y: f32[1, 1]) = twice(x)")
    )
    other.write_text("fn twice[N, D](x: f32[N, D]) -> f32[N, D] = rleu(x)\n")
    code, _, err = run(capsys, "check", "--fix", str(file))
    assert code == 0, err
    assert "relu(x)" in other.read_text()


def test_warnings_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "m.wg"
    file.write_text(
        "dim D = 8, H = 2\ndim K = D // H\n" + MODEL.replace("dim B = 4, H = 3", "dim B = 4")
    )
    before = file.read_text()
    code, _, err = run(capsys, "check", "--fix", str(file))
    assert code == 0 and "warning[WG0121]" in err
    assert file.read_text() == before


def test_json_says_which_file_an_edit_belongs_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "m.wg"
    file.write_text(MODEL.replace("Linear[2", "Liner[2"))
    _, out, _ = run(capsys, "check", "--json", str(file))
    (problem,) = json.loads(out)[0]["diagnostics"]
    ((edit,),) = problem["fixes"]
    assert edit["file"] == str(file)
    assert file.read_text()[edit["start"] : edit["end"]] == "Liner"
    assert edit["text"] == "Linear"
