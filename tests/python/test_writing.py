"""Text from a language model: `wgcc run --prompt` and `wgcc_runtime.write`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import wgcc_runtime
from building import build
from cli_runs import run

# Counts: after each id comes the next one, or the one after that at a temperature above 1.
COUNTING = """
dim V = {ids}
model Counting {{
  {setting}
  param table: f32[V, V] = one_hot((arange(V) + 1) % V, V)
  param other: f32[V, V] = one_hot((arange(V) + 2) % V, V)
  state last: i32 = 0
  entry decode(id: i32, temperature: f32) -> (id: i32) {{
    row = where(temperature > 1.0, gather(other, id), gather(table, id))
    return argmax(row, axis = 0)
  }}
  entry follow(token: i32[1]) -> (heard: i32, id: i32[1]) {{
    last := last + 1
    return last, argmax(gather(table, token), axis = 1)
  }}
  entry alone(token: i32[1]) -> (next: i32[1]) = argmax(gather(table, token), axis = 1)
  entry score(x: f32[2, 3]) -> (y: f32[2, 3]) = x
}}
"""


def model(folder: Path, setting: str, ids: int) -> Path:
    folder.mkdir()
    (folder / "model.wg").write_text(COUNTING.format(setting=setting, ids=ids), encoding="utf-8")
    return build(folder / "model.wg", folder / "bundle")


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model(tmp_path_factory.mktemp("counting") / "letters", r'vocab = "\nabc\"é"', 6)


Capture = pytest.CaptureFixture[str]


def test_text_streams(counting: Path, capsys: Capture) -> None:
    code, out, err = run(capsys, "run", str(counting), "decode", "--prompt", "b", "-n", "7")
    assert (code, out) == (0, 'bc"é\nabc\n')
    assert "characters a second" in err
    code, out, _ = run(capsys, "run", str(counting), "decode", "--prompt", "a", "-n", "9", "--json")
    assert code == 0 and json.loads(out)["text"] == 'bc"é\nabc"'


def test_other_inputs_are_given_by_name(counting: Path, capsys: Capture) -> None:
    given = ["-i", "temperature=1.5", "--prompt", "\n", "-n", "3"]
    assert run(capsys, "run", str(counting), "decode", *given)[:2] == (0, '\nb"\n\n')
    given += ["--stop", "x", "--stop", '"']
    assert run(capsys, "run", str(counting), "decode", *given)[:2] == (0, "\nb\n")


def test_names_and_shapes_of_the_ids_are_free(counting: Path) -> None:
    with wgcc_runtime.load(counting) as loaded:
        assert "".join(wgcc_runtime.write(loaded, "ab", 3, "alone")) == 'c"é'


@pytest.mark.parametrize(
    ("entry", "options", "code", "says"),
    [
        ("score", ["--prompt", "a"], 1, "`score` cannot write text"),
        ("score", ["--prompt", "a"], 1, "`decode` is such an entry"),
        ("follow", ["--prompt", "a"], 1, "`follow` cannot write text"),
        ("decode", ["--prompt", "x"], 1, "holds 'x', which is not in the model's vocabulary"),
        ("decode", ["--prompt", ""], 1, "at least one character"),
        ("decode", ["--prompt", "a", "-n", "0"], 2, "0 is not in the range"),
        ("decode", ["--prompt", "a", "-o", "y.npy"], 2, "standard output"),
        ("decode", ["--prompt", "a", "-i", "heat=1"], 1, "heat"),
        ("decode", ["-n", "3"], 2, "-n needs --prompt"),
        ("decode", ["--stop", "b"], 2, "--stop needs --prompt"),
        ("decode", ["--prompt", "a", "--stop", ""], 2, "not empty"),
        ("wrote", ["--prompt", "a"], 1, "no entry `wrote`"),
    ],
)
def test_what_cannot_be_written_is_said(
    entry: str, options: list[str], code: int, says: str, counting: Path, capsys: Capture
) -> None:
    found, out, err = run(capsys, "run", str(counting), entry, *options)
    assert (found, out) == (code, ""), err
    assert says in err


def test_bytes_need_no_vocabulary(tmp_path: Path, device: Any) -> None:
    with wgcc_runtime.load(model(tmp_path / "bytes", "", 256), device=device) as loaded:
        assert "".join(wgcc_runtime.write(loaded, "A", 3)) == "BCD"
        # 0xff, which does not start a character, then 0 and 1.
        assert "".join(wgcc_runtime.write(loaded, "þ", 68)).startswith("\ufffd")


def test_ids_without_characters(tmp_path: Path, capsys: Capture) -> None:
    none = model(tmp_path / "none", "", 5)
    code, _, err = run(capsys, "run", str(none), "decode", "--prompt", "a")
    assert code == 1 and 'add `vocab = "…"` to it' in err
    short = model(tmp_path / "short", 'vocab = "abcde"', 5)
    plan = json.loads((short / "plan.json").read_text(encoding="utf-8"))
    plan["model"]["vocab"] = "abc"
    del plan["sha256"]
    (short / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    code, _, err = run(capsys, "run", str(short), "decode", "--prompt", "a")
    assert code == 1 and "`vocab` has 3 characters, but `decode` takes ids from 0 to 4" in err


def test_plan_holds_the_vocabulary(counting: Path) -> None:
    assert wgcc_runtime.load_plan(counting).vocab == '\nabc"é'
