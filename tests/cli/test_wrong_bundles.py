"""Commands that take bundles say what is missing if they get something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_runs import run

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "model.wg", "predict"],
        ["bench", "model.wg"],
        ["verify", "model.wg"],
        ["trace", "model.wg"],
        ["tune", "model.wg"],
        ["accept", "model.wg"],
        ["export", "model.wg", "-o", "model.onnx"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_program_is_no_bundle(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.wg").write_text("model M { entry e(x: f32) -> (y: f32) = x }", encoding="utf-8")
    code, _, err = run(capsys, *arguments)
    assert code in (1, 2)
    assert err.count("`wgcc build model.wg -o bundle` makes") == 1


def test_a_bundle_has_no_other_files(tmp_path: Path, capsys: Capture) -> None:
    """Compiling it again needs the place of the files that its model names."""
    (tmp_path / "twice.wgsl").write_text("fn twice(x: f32) -> f32 { return 2.0 * x; }")
    program = tmp_path / "model.wg"
    program.write_text(
        'fn twice(x: f32[..]) -> f32[..] = wgsl("twice.wgsl")\n'
        "model M { entry predict(x: f32[2]) -> (y: f32[2]) = twice(x) }",
        encoding="utf-8",
    )
    bundle = tmp_path / "bundle"
    assert run(capsys, "build", str(program), "-o", str(bundle))[0] == 0
    export = ["export", str(bundle), "-o", str(tmp_path / "model.onnx")]
    advice = "help: a bundle holds its model alone: add `--source PATH/model.wg`"
    assert advice in run(capsys, *export)[2]
    assert "ONNX has no operator like it" in run(capsys, *export, "--source", str(program))[2]
