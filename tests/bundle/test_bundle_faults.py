"""Builds that die, fail or are interrupted while they write into a folder; odd folders."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from adapters import ROOT
from bundle_folders import Capsys, Files, build, compile_both, content, write_old
from cli_runs import MODEL, run
from trials.builds import MIXED, THEIRS, WAYS, Trial
from wgcc.bundle import file_system, replace_folder
from wgcc.bundle.folder import write_files


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


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    return Trial(tmp_path_factory.mktemp("trial"))


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_fault_at_any_operation_leaves_a_complete_bundle(
    way: str, inside: bool, trial: Trial
) -> None:
    """`tests/reliability builds` tries every single one, and kills at random moments."""
    found = trial.at_every_operation(way, inside, stride=17)
    assert (found["other"], found["left over"]) == (0, 0), found
    assert found["old.wg"] and found["new.wg"], found
    if way != "killed" or not inside:
        assert found[MIXED] == 0, found


def test_kills_at_random_moments(trial: Trial) -> None:
    found = trial.at_random_moments(5, seed=1)
    assert (found["other"], found["left over"]) == (0, 0), found


def test_a_full_disk(model: Path, tmp_path: Path, capsys: Capsys) -> None:
    """No file may be longer than 60 kB, but index.html is."""
    bundle = tmp_path / "bundle"
    build(capsys, model, bundle)
    before = content(tmp_path)
    other = tmp_path / "model.wg"
    before["model.wg"] = other.write_text(MODEL.replace("H = 3", "H = 4")) and other.read_bytes()

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    done = subprocess.run(
        [sys.executable, "-m", "wgcc", "build", str(other), "-o", str(bundle)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'runtime_py'}"},
        preexec_fn=limit, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "nothing was changed" in done.stderr
    assert content(tmp_path) == before


def test_ctrl_c_while_writing(
    model: Path, tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "bundle"
    build(capsys, model, bundle)
    before = content(bundle)
    monkeypatch.setattr(replace_folder, "_swap", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    code, _, err = run(capsys, "build", str(model), "-o", str(bundle), "--seed", "5")
    assert (code, err.strip()) == (130, "interrupted")
    assert content(bundle) == before and len(os.listdir(tmp_path)) == 2


def test_without_an_atomic_swap(
    both: dict[str, Files], old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two renames then; a process that dies between them leaves the old bundle to be restored."""
    monkeypatch.setattr(replace_folder, "exchange", lambda *_: False)
    write_files(both["new.wg"], old)
    assert content(old) == {**both["new.wg"], **THEIRS}
    process = os.fork()
    if not process:
        rename = os.rename
        monkeypatch.setattr(os, "rename", lambda *names: (rename(*names), os._exit(0)))
        write_files(both["old.wg"], old)
    os.waitpid(process, 0)
    assert not old.exists() and len(os.listdir(old.parent)) == 2
    replace_folder.recover(old)
    assert content(old) == {**both["new.wg"], **THEIRS}
    assert os.listdir(old.parent) == ["bundle"]


@pytest.mark.parametrize("what", ["link", "mkdir", "rename"])
def test_where_the_folder_has_to_stay(
    what: str, both: dict[str, Files], old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No hard links; no permission beside it; a mount point."""
    refused = {"link": errno.EPERM, "mkdir": errno.EACCES, "rename": errno.EBUSY}[what]
    real = getattr(os, what)

    def refuse(path: Any, *rest: Any) -> Any:
        if what == "link" or Path(os.fspath(path)).parent == old.parent:
            raise OSError(refused, "injected")
        return real(path, *rest)

    inode = old.stat().st_ino
    monkeypatch.setattr(replace_folder, "exchange", lambda *_: False)
    monkeypatch.setattr(os, what, refuse)
    write_files(both["new.wg"], old)
    assert content(old) == {**both["new.wg"], **THEIRS}
    assert old.stat().st_ino == inode and os.listdir(old.parent) == ["bundle"]


def test_files_saved_during_a_build_are_not_lost(
    both: dict[str, Files], old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A training saves its checkpoint into the folder just before it is swapped."""
    (old / "ck.safetensors").write_bytes(b"first")
    swap = replace_folder._swap

    def late(stage: Path, folder: Path) -> None:
        (folder / "ck.tmp").write_bytes(b"second")
        os.replace(folder / "ck.tmp", folder / "ck.safetensors")
        (folder / "more").mkdir()
        (folder / "more" / "log").write_bytes(b"third")
        swap(stage, folder)

    monkeypatch.setattr(replace_folder, "_swap", late)
    write_files(both["new.wg"], old)
    more = {"ck.safetensors": b"second", "more/log": b"third"}
    assert content(old) == {**both["new.wg"], **THEIRS, **more}


def test_a_foreign_journal_moves_nothing_else(both: dict[str, Files], old: Path) -> None:
    """A folder from an untrusted source may contain a forged journal of a build that died."""
    precious = old.parent / "precious"
    precious.write_text("mine")
    stage = old / ".wgcc-1999999-00000000.tmp"
    names = ["../precious", str(precious), "notes.txt", "kernels/../../precious", ["x"], 5, None]
    for journal in (*([name] for name in names), names, 7, {"notes.txt": False}, "README.md"):
        for part in ("new", "old/kernels"):
            (stage / part).mkdir(parents=True, exist_ok=True)
        (stage / "old" / "notes.txt").write_text("theirs")
        (stage / "old" / "wgcc").symlink_to(old.parent)
        (stage / "names").write_text(json.dumps(journal))
        replace_folder.recover(old)
        assert not stage.exists() and precious.read_text() == "mine"
        assert content(old) == {**both["old.wg"], **THEIRS}


def test_where_files_are_written_to_disk_one_by_one(
    both: dict[str, Files], old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on other systems than Linux; the user's own files are not opened for that."""
    (old / "way").symlink_to(old.parent / "nowhere")
    (old / "notes.txt").chmod(0o400)
    monkeypatch.setattr(file_system, "_flush_at_once", lambda _: False)
    write_files(both["new.wg"], old)
    assert content(old) == {**both["new.wg"], **THEIRS}
    monkeypatch.chdir(old)
    write_files(both["old.wg"], Path())
    assert content(old) == {**both["old.wg"], **THEIRS}


def test_long_names_and_modes(both: dict[str, Files], tmp_path: Path) -> None:
    folder = tmp_path / ("b" * 255)
    write_files(both["old.wg"], folder)
    folder.chmod(0o750)
    write_files(both["new.wg"], folder)
    assert content(folder) == both["new.wg"] and folder.stat().st_mode & 0o777 == 0o750
    shutil.rmtree(folder)
