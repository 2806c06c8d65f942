"""Programs that are legal and rarely meant: `check` warns of them, with a remedy that works.

The texts of the warnings are in filetests/diagnostics (66 to 68).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from adapters import ROOT
from cli_runs import run
from elaborated import problems
from wgcc.elaborate import check
from wgcc.errors import Diagnostic, Diagnostics, Source

LESSONS = re.compile(r"<!-- file (\S+\.wg) -->\n```\w+\n(.*?)```", re.DOTALL)
HEAD = "dim B = 4, D = 3, C = 5\n"


def warnings(text: str) -> list[Diagnostic]:
    diagnostics = Diagnostics()
    check(Source("test.wg", text), diagnostics)
    assert not diagnostics.errors
    return list(diagnostics)


def mended(text: str, code: str) -> str:
    """`text` after the fixes of all warnings of this code, the last one first."""
    edits = [edit for item in warnings(text) if item.code == code for edit in item.helps[0].edits]
    assert edits, f"{code} has no fix here"
    for span, replacement in sorted(edits, key=lambda edit: -edit[0].start):
        text = text[: span.start] + replacement + text[span.end :]
    return text


def classifier(loss: str) -> str:
    return f"""{HEAD}
model M {{
  fc: Linear[D, C]
  entry run(x: f32[B, D], y: i32[B], t: f32[B, C]) -> (loss: f32) {{
    z = fc(x)
    return {loss}
  }}
}}
"""


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("cross_entropy(softmax(z), y)", "cross_entropy(z, y)"),
        ("nll(softmax(z), y)", "nll(log_softmax(z), y)"),
        ("kl_div(softmax(z), t)", "kl_div(log_softmax(z), t)"),
        ("bce_logits(sigmoid(fc(x)), t)", "bce_logits(fc(x), t)"),
        ("bce(z, t)", "bce_logits(z, t)"),
        ("bce(relu(z) / 2.0, t)", "bce_logits(relu(z) / 2.0, t)"),
    ],
)
def test_fixes_of_losses(wrong: str, right: str) -> None:
    text = mended(classifier(wrong), "WG0911")
    assert f"return {right}\n" in text
    assert "WG0911" not in [item.code for item in warnings(text)]


@pytest.mark.parametrize(
    "loss",
    [
        "cross_entropy(z, y)",
        "cross_entropy(log_softmax(z), y)",
        "nll(log(softmax(z) + 1e-9), y)",
        "cross_entropy(softmax(z) @ transpose(softmax(z)) @ z, y)",
        "bce(softmax(z), t)",
        "bce(sigmoid(z), t)",
        "bce(1.0 - sigmoid(z), t)",
        "bce(0.5 * tanh(z) + 0.5, t)",
        "bce(clamp(z, 0.0, 1.0), t)",
        "bce(minimum(relu(z), 1.0), t)",
        "bce(softmax(x) @ softmax(fc.w), t)",
        "bce(exp(-square(z)), t)",
        "bce(f32(z > 0.0), t)",
        "bce(t, t)",
        "bce(z - z, t)",
    ],
)
def test_no_false_alarms_of_losses(loss: str) -> None:
    assert "WG0911" not in [item.code for item in warnings(classifier(loss))]


def test_a_loss_in_a_loop_is_followed_outside() -> None:
    text = f"""{HEAD}
layer Step {{
  fc: Linear[D, C]
  fn forward(total: f32, given: (f32[B, D], i32[B])) -> (f32, f32) {{
    x, y = given
    loss = cross_entropy(softmax(fc(x)), y)
    return total + loss, loss
  }}
}}
model M {{
  step: Step
  entry run(xs: f32[7, B, D], ys: i32[7, B]) -> (loss: f32) {{
    loss, _ = scan(step, 0.0, (xs, ys))
    return loss
  }}
}}
"""
    assert [item.code for item in warnings(text)] == ["WG0911"]


def test_fix_of_an_entry_that_does_not_train() -> None:
    text = f"""{HEAD}
model M {{
  fc: Linear[D, 1]
  optimizer opt: adam {{ lr = 1e-3 }}
  entry train(x: f32[B, D], y: f32[B, 1]) -> (loss: f32) {{
    loss = mse(fc(x), y)
    return loss
  }}
}}
"""
    right = mended(text, "WG0912")
    assert "    minimize loss with opt\n    return loss\n" in right
    assert warnings(right) == []


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("", "", ["WG0910"]),
        (' over "g.*"', "", ["WG0910"]),
        (' over "g.*"', ' over "d.*"', []),
        (' over "*"', ' over "*"', []),
    ],
)
def test_two_optimizers_of_the_same_parameters(
    first: str, second: str, expected: list[str]
) -> None:
    text = f"""{HEAD}
model Gan {{
  g: Linear[D, D]
  d: Linear[D, 1]
  optimizer og: adam {{ lr = 1e-3 }}
  optimizer od: adam {{ lr = 1e-3 }}
  entry train(z: f32[B, D], x: f32[B, D]) -> (a: f32, b: f32) {{
    a = -mean(d(g(z)))
    minimize a with og{first}
    b = mean(d(g(z))) - mean(d(x))
    minimize b with od{second}
    return a, b
  }}
}}
"""
    assert [item.code for item in warnings(text)] == expected


def test_fixes_of_unused_locals() -> None:
    text = f"""{HEAD}
layer Counter {{
  state calls: i32 = 0
  fn forward(x: f32[B]) -> f32[B] {{
    calls := calls + 1
    return x
  }}
}}
model M {{
  count: Counter
  entry run(x: f32[B]) -> (y: f32[B]) {{
    unused = exp(x)
    y = count(x)
    y = x |> exp
    return y
  }}
}}
"""
    right = mended(text, "WG0906")
    assert "unused" not in right
    assert "    _ = count(x)\n    y = x |> exp\n" in right
    assert warnings(right) == []


def test_a_metric_of_new_weights_and_a_later_loss() -> None:
    text = f"""{HEAD}
model M {{
  fc: Linear[D, 1]
  optimizer opt: adam {{ lr = 1e-3 }}
  fn score(x: f32[B, D]) -> f32[B, 1] = fc(x)
  entry train(x: f32[B, D], y: f32[B, 1]) -> (loss: f32, after: f32, size: f32) {{
    loss = mse(score(x), y)
    minimize loss with opt
    return loss, mse(score(x), y), sum(square(fc.w))
  }}
}}
"""
    (late,) = warnings(text)
    assert (late.code, late.span.text) == ("WG0913", "mse(score(x), y)")
    assert "`after` is computed with the new weights" in late.message


def test_a_wrong_number_of_parts_names_the_other_function() -> None:
    text = 'test "t" {\n  a, b = split(ones(f32[6]), 2, axis = 0)\n  assert sum(a + b) == 6.0\n}\n'
    diagnostics = Diagnostics()
    check(Source("test.wg", text), diagnostics)
    (span, word) = diagnostics.errors[0].helps[0].edits[0]
    assert problems(text[: span.start] + word + text[span.end :]) == []


@pytest.mark.parametrize(
    "name", [str(path.relative_to(ROOT)) for path in sorted((ROOT / "examples").rglob("*.wg"))]
)
def test_examples_give_no_warning(name: str) -> None:
    diagnostics = Diagnostics()
    check(ROOT / name, diagnostics)
    assert list(diagnostics) == []


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "grammar/std").glob("*.wg")))
def test_the_library_gives_no_warning(name: str) -> None:
    diagnostics = Diagnostics()
    check(ROOT / "grammar/std" / name, diagnostics)
    assert list(diagnostics) == []


def test_lessons_give_no_warning() -> None:
    text = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    files = LESSONS.findall(text)
    assert files
    for name, program in files:
        assert warnings(program) == [], name


COINCIDENCE = """dim A = 4, B = 4
model M {
  entry run(x: f32[A, 2], y: f32[B, 2]) -> (z: f32[A, 2], w: f32[A, 4]) =
    (x + y, concat([x, y], axis = 1))
}
"""


@pytest.mark.parametrize("command", [["check"], ["build", "-o", "out"], ["show"]])
def test_strict_dims(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "m.wg"
    path.write_text(COINCIDENCE, encoding="utf-8")
    name, *options = command
    code, _, loose = run(capsys, name, str(path), *options)
    assert code == 0, loose
    code, _, strict = run(capsys, name, str(path), *options, "--strict-dims")
    assert code == 1
    assert strict.count("error[WG0410]") == 2
    assert "`A` and `B` are different dims that both happen to be 4" in strict


def test_strict_dims_need_a_model_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "m.wg", str(tmp_path / "out")
    path.write_text(COINCIDENCE, encoding="utf-8")
    assert run(capsys, "build", str(path), "-o", out)[0] == 0
    code, _, refused = run(capsys, "show", out, "--strict-dims")
    assert code == 1 and "need the model file" in refused


def test_warnings_do_not_stop_a_build_and_have_fixes_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.wg"
    path.write_text(classifier("cross_entropy(softmax(z), y)"), encoding="utf-8")
    code, text, _ = run(capsys, "build", str(path), "-o", str(tmp_path / "out"), "--json")
    assert code == 0
    (warning,) = json.loads(text)["warnings"]
    assert (warning["code"], warning["severity"]) == ("WG0911", "warning")
    assert [edit["text"] for fix in warning["fixes"] for edit in fix] == ["z"]
