"""examples/finetune: a model from a wheel learns kinds of files that it did not know."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import wgcc_runtime
from adapters import ROOT
from cli_runs import run
from web_stacks import run_node

EXAMPLE = ROOT / "examples" / "finetune"
IMPORT = "--set unk__214=8 --train head --lr 3e-3 --more-classes 3"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the first two commands of the README write."""
    found = tmp_path_factory.mktemp("finetune") / "magika"
    (wheel,) = (ROOT / ".cache" / "models").glob("magika-*.whl")
    assert "License: Apache-2.0" in _metadata(wheel), "as the README says"
    script("fetch.py", str(wheel), "-o", str(found))
    target = str(found / "imported")
    wgcc("import", str(found / "magika.onnx"), "-o", target, *IMPORT.split())
    return found


def _metadata(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("dist-info/METADATA"))
        return archive.read(name).decode()


def script(name: str, *arguments: str) -> str:
    return python(str(EXAMPLE / name), *arguments)


def wgcc(*arguments: str) -> str:
    return python("-m", "wgcc", *arguments)


def python(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_by_the_commands_of_its_readme(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """New kinds are all wrong before, and right after; known ones stay right."""
    data, test = (str(folder / f"{name}.safetensors") for name in ("learned", "held_out"))
    out, bundle = str(folder / "personal.safetensors"), str(folder / "imported" / "bundle")
    held_out = load_file(test)
    facts = json.loads((folder / "kinds.json").read_text())
    code, text, error = run(
        capsys, "train", bundle, data, "--steps", "30", "--every", "30", "--eval", test,
        "--out", out, "--device", "wasm", "--json",
    )  # fmt: skip
    assert code == 0, error
    assert json.loads(text)["eval_accuracy"] == 1
    is_new = held_out["target"] >= facts["known"]
    assert is_new.sum() == 16 and (~is_new).sum() == 16
    with wgcc_runtime.load(bundle, device="wasm") as model:
        before = right(model, held_out)
        model.load(out)
        after = right(model, held_out)
        changed = {
            name for name, array in model.params().items()
            if not np.array_equal(array, load_file(f"{bundle}/weights.safetensors")[name])
        }  # fmt: skip
    assert (before[is_new].sum(), before[~is_new].sum()) == (0, 16)
    assert (after[is_new].sum(), after[~is_new].sum()) == (16, 16)
    assert len(changed) == 2 and all("dense_1." in name for name in changed), "the last layer"


def right(model: wgcc_runtime.Model, data: dict[str, np.ndarray]) -> np.ndarray:
    (probabilities,) = model.predict(bytes=data["bytes"]).values()
    found: np.ndarray = probabilities.argmax(axis=1) == data["target"]
    return found


GAMES = (
    "e4 e5 2. Nf3 Nc6 3. Bb5 a6",
    "d4 d5 2. c4 e6 3. Nc3 Nf6",
    "c4 e5 2. Nc3 Nf6 3. g3 d5",
    "e4 c5 2. Nf3 d6 3. d4 cxd4",
    "Nf3 d5 2. g3 Nf6 3. Bg2 c6",
    "e4 e6 2. d4 d5 3. Nd2 Nf6",
)


def write_games(folder: Path) -> None:
    """Games of chess: a kind of files that the model does not know."""
    folder.mkdir()
    for number, moves in enumerate(GAMES):
        tags = {"Event": "Club", "Round": number + 1, "White": f"A{number}", "Black": f"B{number}"}
        text = "".join(f'[{name} "{value}"]\n' for name, value in tags.items())
        (folder / f"{number}.pgn").write_text(f"{text}\n1. {moves} 1/2-1/2\n")


def test_page(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "finetune.html"
    assert "MB" in script("build_page.py", str(folder), "-o", str(page))
    write_games(tmp_path / "games")
    seen = run_node("finetune.mjs", str(page), str(tmp_path / "games"))
    assert seen["problems"] == []
    assert seen["before"] == ["0 of 16", "16 of 16"]
    assert seen["after"] == seen["opened"] == ["0 → 18 of 18", "16 → 16 of 16"]
    assert seen["forgotten"] == ["0 of 18", "16 of 16"]
    assert "8 × wg, 8 × wgsl, 4 × pgn" in seen["lesson"]
    assert seen["losses"][-1] < seen["losses"][0] / 20 and len(seen["losses"]) > 10
    assert seen["said"][:2] == ["Learning…", "Learning: step 1, of 30."] and seen["asked"]
    assert not any("Press Train" in text for text in seen["said"])
    before, after = seen["pasted"]
    assert re.fullmatch(r"wg\d+\s%", after) and not before.startswith("wg"), seen["pasted"]
    for longest in seen["longest"]:
        assert not longest["isFelt"], f"the page is blocked: {longest}"
    assert seen["wide"] is False
    weights = tmp_path / "personal.safetensors"
    with wgcc_runtime.load(folder / "imported" / "bundle", weights=weights, device="wasm") as model:
        assert right(model, load_file(folder / "held_out.safetensors")).all(), "saved by the page"
    assert all((tmp_path / f"{name}.png").stat().st_size > 10_000 for name in ("light", "phone"))


def test_bytes_are_read_as_magika_reads_them(tmp_path: Path) -> None:
    """In Python and in the page: blanks, padding, long and short files."""
    cases = [b"", b"  ab \n", b" \x0b\x0c" + b"x" * 1023, bytes(range(256)) * 40, b"\n" * 5000]
    sys.path.insert(0, str(EXAMPLE))
    try:
        from samples import features  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(EXAMPLE))
    wanted = [features(data).tolist() for data in cases]
    for data, row in zip(cases, wanted, strict=True):
        begin, end = data[:4096].lstrip()[:1024], data[-4096:].rstrip()[-1024:]
        assert row[:1024] == [*begin, *[256] * (1024 - len(begin))]
        assert row[1024:] == [*[256] * (1024 - len(end)), *end]
    code = (EXAMPLE / "bytes.js").read_text()
    program = f"{code}\nconsole.log(JSON.stringify({json.dumps([list(c) for c in cases])}"
    program += ".map(data => [...featuresOf(Uint8Array.from(data))])));"
    (tmp_path / "b.js").write_text(program)
    done = subprocess.run(["node", str(tmp_path / "b.js")], capture_output=True, text=True)
    assert json.loads(done.stdout) == wanted, done.stderr


def test_a_page_without_its_model_says_what_is_missing(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLE / "build_page.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "imported/model.wg is not there: see README.md" in done.stderr
    assert "Traceback" not in done.stderr


def test_readme_shows_the_commands_that_are_tested() -> None:
    text = (EXAMPLE / "README.md").read_text()
    assert f"wgcc import magika/magika.onnx -o magika/imported {IMPORT}" in text
    assert "Apache-2.0" in text
