"""Building into a folder: what is replaced, what stays, what is refused; links are not followed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import line_bundle
import wgcc_runtime
from adapters import ROOT
from bundle_folders import Capsys, Files, build, compile_both, content, write_old
from cli_runs import MODEL, run
from trials.builds import THEIRS
from wgcc.bundle.folder import write_files
from wgcc.errors import WgError
from wgcc_runtime.history import Log


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Files]:
    return compile_both(tmp_path_factory.mktemp("both"))


@pytest.fixture
def old(both: dict[str, Files], tmp_path: Path) -> Path:
    return write_old(both["old.wg"], tmp_path / "bundle")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    source = tmp_path / "model.wg"
    source.write_text(MODEL)
    return source


# ---- what a build may replace


def test_stale_files_go_and_the_users_stay(both: dict[str, Files], old: Path) -> None:
    assert {"constants.safetensors", "old.wg"} < set(content(old))
    (old / "empty").mkdir()
    (old / "way").symlink_to(old.parent)
    inode = (old / "data" / "x.bin").stat().st_ino
    write_files(both["new.wg"], old)
    assert content(old) == {**both["new.wg"], **THEIRS}
    assert (old / "empty").is_dir() and (old / "way").readlink() == old.parent
    assert (old / "data" / "x.bin").stat().st_ino == inode
    assert os.listdir(old.parent) == ["bundle"]


def test_the_same_bundle_is_left_alone(both: dict[str, Files], old: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in [old, *old.rglob("*")]}
    write_files(both["old.wg"], old)
    assert {path: path.stat().st_mtime_ns for path in [old, *old.rglob("*")]} == before


def test_files_that_did_not_change_keep_their_time(both: dict[str, Files], old: Path) -> None:
    facts = (old / "wgcc.js").stat()
    write_files(both["new.wg"], old)
    assert (old / "wgcc.js").stat().st_mtime_ns == facts.st_mtime_ns


FOREIGN: dict[str, Callable[[Path], Any]] = {
    "no plan": lambda folder: (folder / "plan.txt").write_text("{}"),
    "a plan of something else": lambda folder: (folder / "plan.json").write_text('{"tasks": []}'),
    "another format": lambda folder: (folder / "plan.json").write_text('{"format": "terraform"}'),
    "no JSON": lambda folder: (folder / "plan.json").write_text("{'format': 'wgcc-bundle'"),
    "a link": lambda folder: (folder / "plan.json").symlink_to(folder.parent / "plan.json"),
    "a pipe": lambda folder: os.mkfifo(folder / "plan.json"),
    "a folder": lambda folder: (folder / "plan.json").mkdir(),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_other_folders_are_refused(kind: str, model: Path, tmp_path: Path, capsys: Capsys) -> None:
    folder = tmp_path / "project"
    (folder / "kernels").mkdir(parents=True)
    theirs = {"README.md": b"mine", "package.json": b"{}", "kernels/a.wgsl": b"mine"}
    for name, data in theirs.items():
        (folder / name).write_bytes(data)
    (tmp_path / "plan.json").write_text('{"format": "wgcc-bundle"}')
    FOREIGN[kind](folder)
    code, _, err = run(capsys, "build", str(model), "-o", str(folder))
    assert code == 2 and "is not a bundle" in err and "--force" in err
    assert {name: (folder / name).read_bytes() for name in theirs} == theirs
    assert (tmp_path / "plan.json").read_text() == '{"format": "wgcc-bundle"}'


def test_force_replaces_files_of_the_same_name_only(
    model: Path, tmp_path: Path, capsys: Capsys
) -> None:
    folder = tmp_path / "project"
    (folder / "kernels").mkdir(parents=True)
    theirs = {"README.md": b"mine", "notes.md": b"mine", "kernels/a.wgsl": b"mine"}
    for name, data in theirs.items():
        (folder / name).write_bytes(data)
    build(capsys, model, folder, "--force")
    found = content(folder)
    assert found["notes.md"] == found["kernels/a.wgsl"] == b"mine" != found["README.md"]
    wgcc_runtime.load(folder, device="llvmpipe", verify=True).close()


@pytest.mark.parametrize("force", [True, False])
def test_a_folder_is_never_replaced_by_a_file(
    force: bool, both: dict[str, Files], old: Path
) -> None:
    (old / "new.wg").mkdir()
    (old / "new.wg" / "precious").write_text("mine")
    before = content(old)
    with pytest.raises(WgError, match=r"new\.wg was not written by a build"):
        write_files(both["new.wg"], old, force)
    assert content(old) == before
    # Nor one that has the name of a file which the next build does not need.
    (old / "new.wg").rename(old / "elsewhere")
    (old / "constants.safetensors").unlink()
    (old / "constants.safetensors").mkdir()
    (old / "constants.safetensors" / "precious").write_text("mine")
    write_files(both["new.wg"], old)
    assert (old / "constants.safetensors" / "precious").read_text() == "mine"


def test_a_file_of_the_user_under_a_name_that_is_needed(both: dict[str, Files], old: Path) -> None:
    (old / "new.wg").write_text("model Mine {}")
    before = content(old)
    with pytest.raises(WgError, match="move or rename it"):
        write_files(both["new.wg"], old)
    assert content(old) == before
    (old / "new.wg").write_bytes(both["new.wg"]["new.wg"])
    write_files(both["new.wg"], old)


def test_a_plan_cannot_name_files_outside(both: dict[str, Files], old: Path) -> None:
    """The folder may come from an untrusted source."""
    outside = old.parent / "outside.wgsl"
    outside.write_text("mine")
    plan = json.loads((old / "plan.json").read_text())
    plan["kernels"][0]["file"] = "../../outside.wgsl"
    plan["kernels"][1]["file"] = str(outside)
    plan["kernels"].append({"file": ["x"]})
    plan["model"] = {"source": "../outside.wgsl"}
    (old / "plan.json").write_text(json.dumps(plan))
    write_files(both["new.wg"], old)
    assert outside.read_text() == "mine"


# ---- links


def with_links(bundle: Path, outside: Path) -> Files:
    """Every file and folder of the bundle is a link to one outside."""
    outside.mkdir()
    for path in sorted(bundle.rglob("*"), reverse=True):
        there = outside / path.relative_to(bundle)
        if path.is_dir():
            path.rmdir()
            path.symlink_to(there)
        elif path.parent != bundle:
            there.parent.mkdir(parents=True, exist_ok=True)
            path.rename(there)
        elif path.name != "plan.json":
            path.rename(there)
            path.symlink_to(there)
    return content(outside)


@pytest.mark.parametrize("inside", [False, True])
def test_no_link_is_followed(
    inside: bool, both: dict[str, Files], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, outside = tmp_path / "bundle", tmp_path / "outside"
    write_files(both["old.wg"], bundle)
    before = with_links(bundle, outside)
    if inside:
        monkeypatch.chdir(bundle)
    write_files(both["new.wg"], Path() if inside else bundle)
    assert content(outside) == before
    assert content(bundle) == both["new.wg"]
    assert not any(path.is_symlink() for path in bundle.rglob("*"))


@pytest.mark.parametrize("name", ["weights.safetensors", "kernels", "README.md", "wgcc"])
def test_tuning_follows_no_link(name: str, model: Path, tmp_path: Path, capsys: Capsys) -> None:
    bundle, outside = tmp_path / "bundle", tmp_path / "outside"
    build(capsys, model, bundle)
    outside.mkdir()
    (bundle / name).rename(outside / name)
    (bundle / name).symlink_to(outside / name)
    before = content(outside)
    options = ("--device", "llvmpipe", "--seconds", "1")
    code, _, err = run(capsys, "tune", str(bundle), *options)
    assert content(outside) == before
    # Files that the runtime reads must not be links; those for the web are written again.
    is_read = name in ("weights.safetensors", "kernels")
    assert (code, "symbolic link" in err) == ((1, True) if is_read else (0, False)), err
    assert (bundle / name).is_symlink() == is_read


def test_a_folder_that_is_a_link(model: Path, tmp_path: Path, capsys: Capsys) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "bundle").symlink_to("there")
    for command in (["build", str(model), "-o"], ["new"]):
        code, _, err = run(capsys, *command, str(tmp_path / "bundle"))
        assert code == 2 and ("symbolic link" in err or "exists already" in err)
    build(capsys, model, tmp_path / "there")
    code, _, err = run(capsys, "tune", str(tmp_path / "bundle"))
    assert code == 1 and str(tmp_path / "there") in err
    (tmp_path / "nowhere").symlink_to("nothing")
    assert run(capsys, "new", str(tmp_path / "nowhere"))[0] == 2
    # Links above it are the user's own way of saying where things are.
    (tmp_path / "way").symlink_to(".")
    build(capsys, model, tmp_path / "way" / "other")
    assert (tmp_path / "other" / "plan.json").is_file()


def test_files_of_other_commands_replace_links(tmp_path: Path, capsys: Capsys) -> None:
    """train --out and --log, run -o, import -o: a link is replaced, its target stays."""
    bundle, precious = line_bundle.write_bundle(tmp_path / "line"), tmp_path / "precious"
    precious.write_text("mine")
    x = np.ones((8, 4), np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=x.sum(axis=1))
    np.save(tmp_path / "x.npy", x)
    folder = ROOT / "tests" / "importing"
    imported = [str(folder / "cnn.safetensors"), str(folder / "cnn.wg")]
    commands = [
        ["train", str(bundle), str(tmp_path / "data.npz"), "--steps", "2", "--out", "LINK"],
        ["train", str(bundle), str(tmp_path / "data.npz"), "--steps", "2",
         "--out", str(tmp_path / "w"), "--log", "LINK"],
        *(["run", str(bundle), "predict", "-i", str(tmp_path / "x.npy"), "-o", f"LINK{end}"]
          for end in (".npy", ".npz", ".safetensors")),
        ["import", *imported, "-o", "LINK"],
    ]  # fmt: skip
    for command in commands:
        (word,) = (word for word in command if word.startswith("LINK"))
        link = tmp_path / word
        link.symlink_to(precious)
        device = ["--device", "llvmpipe"] if command[0] != "import" else []
        words = [str(link) if one == word else one for one in command]
        code, _, err = run(capsys, *words, *device)
        assert code == 0, err
        assert precious.read_text() == "mine"
        assert not link.is_symlink() and link.stat().st_size > 0
        link.unlink()


def test_a_log_that_becomes_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    precious, path = tmp_path / "precious", tmp_path / "log.jsonl"
    precious.write_text("mine")

    def planted(to: Path, _: bytes) -> None:
        to.symlink_to(precious)

    monkeypatch.setattr("wgcc_runtime.history.replace_file", planted)
    with pytest.raises(wgcc_runtime.WgccError) as caught:
        Log(path, 0)
    assert caught.value.code == "log" and precious.read_text() == "mine"


# ---- weights that were trained since


def test_trained_weights_are_kept(model: Path, tmp_path: Path, capsys: Capsys) -> None:
    bundle, data = tmp_path / "bundle", tmp_path / "data.npz"
    build(capsys, model, bundle)
    first = (bundle / "weights.safetensors").read_bytes()
    x = np.ones((8, 2), np.float32)
    np.savez(data, x=x, y=x[:, :1])
    train = ("train", str(bundle), str(data), "--steps", "3", "--device", "llvmpipe", "--out")
    assert run(capsys, *train, str(bundle / "weights.safetensors"))[0] == 0
    assert run(capsys, *train, str(bundle / "ck.safetensors"))[0] == 0
    trained = (bundle / "weights.safetensors").read_bytes()
    checkpoint = (bundle / "ck.safetensors").read_bytes()
    said = build(capsys, model, bundle)
    kept = bundle / "weights.trained.safetensors"
    assert f"kept as {kept}" in said and f"--weights {kept}" in said
    assert kept.read_bytes() == trained and (bundle / "ck.safetensors").read_bytes() == checkpoint
    assert (bundle / "weights.safetensors").read_bytes() == first
    # Building again keeps no second copy, and leaves the first alone.
    assert "now" not in build(capsys, model, bundle)
    # Another training, another name.
    (bundle / "weights.safetensors").write_bytes(checkpoint)
    code, out, _ = run(capsys, "build", str(model), "-o", str(bundle), "--json")
    assert code == 0
    assert json.loads(out)["kept"] == {"weights.safetensors": "weights.trained-2.safetensors"}
    assert kept.read_bytes() == trained
    # As the text says, they can be built into it.
    build(capsys, model, bundle, "--weights", str(kept))
    with wgcc_runtime.load(bundle, device="llvmpipe", verify=True) as loaded:
        assert loaded.params()["f.w"].tolist() == load_file(kept)["f.w"].tolist()


def test_weights_of_a_bundle_that_does_not_know_its_own(
    model: Path, tmp_path: Path, capsys: Capsys
) -> None:
    """An older wgcc wrote no digest: a checkpoint is known by its metadata."""
    bundle = tmp_path / "bundle"
    build(capsys, model, bundle)
    plan = json.loads((bundle / "plan.json").read_text())
    del plan["weights"]
    for is_trained in (False, True):
        (bundle / "plan.json").write_text(json.dumps(plan))
        if is_trained:
            values = load_file(bundle / "weights.safetensors")
            save_file(values, bundle / "weights.safetensors", {"wgcc": "{}"})
        build(capsys, model, bundle, "--seed", "9")
        assert (bundle / "weights.trained.safetensors").exists() == is_trained


def test_a_source_that_was_edited_in_the_bundle_is_kept(
    model: Path, tmp_path: Path, capsys: Capsys
) -> None:
    bundle = tmp_path / "bundle"
    build(capsys, model, bundle)
    (bundle / "model.wg").write_text("// an hour of work\n" + MODEL)
    assert "model.edited.wg" in build(capsys, model, bundle)
    assert (bundle / "model.edited.wg").read_text().startswith("// an hour of work")
    assert (bundle / "model.wg").read_text() == MODEL


def test_tuning_keeps_trained_weights_in_place(model: Path, tmp_path: Path, capsys: Capsys) -> None:
    bundle = tmp_path / "bundle"
    build(capsys, model, bundle)
    values = load_file(bundle / "weights.safetensors")
    save_file({name: value + 1 for name, value in values.items()}, bundle / "weights.safetensors")
    trained = (bundle / "weights.safetensors").read_bytes()
    code, _, err = run(capsys, "tune", str(bundle), "--device", "llvmpipe", "--seconds", "1")
    assert code == 0, err
    assert (bundle / "weights.safetensors").read_bytes() == trained
    # The next build still knows that they are not its own.
    build(capsys, model, bundle)
    assert (bundle / "weights.trained.safetensors").read_bytes() == trained
