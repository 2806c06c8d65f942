"""Checkpoints: resuming to the bit, damaged files, logs, and files that survive a crash."""

from __future__ import annotations

import gc
import json
import os
import re
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import line_twin
import wgcc_runtime
from line_training import assert_same, batches, data, everything, refused
from trials.kills import kill_savers
from wgcc_runtime import Model, Report, WgccWarning
from wgcc_runtime.history import Log
from wgcc_runtime.replace_file import _stem, previous, replace_file
from wgcc_runtime.weights import load_weights, save_weights


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return line_twin.write_bundle(tmp_path_factory.mktemp("fit") / "bundle")


@pytest.fixture(scope="module")
def shared(bundle: Path, target: str) -> Model:
    return wgcc_runtime.load(bundle, device=target)


@pytest.fixture
def model(shared: Model) -> Model:
    shared.reset()
    return shared


@pytest.mark.parametrize(
    ("folder", "advice"),
    [("modles", r"; did you mean `.*models`\?"), ("a/b", ""), ("run2", None), ("new", None)],
)
def test_missing_folders_are_made(
    model: Model, tmp_path: Path, folder: str, advice: str | None
) -> None:
    """A warning names those that may be spelling mistakes."""
    for name in ("models", "run1"):
        (tmp_path / name).mkdir()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.save(tmp_path / folder / "w.safetensors")
    assert (tmp_path / folder / "w.safetensors").is_file()
    texts = [str(warning.message) for warning in caught]
    if advice is None:
        assert texts == []
    else:
        assert re.fullmatch(rf"made the new folder `.*{folder}`{advice}", *texts)


@pytest.mark.parametrize("kind", ["arrays", "list", "function"])
def test_resume_is_exact(bundle: Path, model: Model, tmp_path: Path, kind: str) -> None:
    items = batches(13)
    source = {"arrays": data(), "list": items, "function": lambda step: items[step % 13]}[kind]
    model.fit(source, steps=60, every=7, seed=4)
    straight = everything(model)
    path = tmp_path / "ck.safetensors"
    model.reset()
    model.fit(source, steps=25, every=10, seed=4, checkpoint=path)
    with wgcc_runtime.load(bundle, device=model.device_name) as fresh:
        history = fresh.fit(source, steps=60, every=10, checkpoint=path, resume=True)
        assert fresh.steps_done == 60
        assert history.steps == [30, 40, 50, 60]
        assert_same(everything(fresh), straight)
        assert fresh.fit(source, steps=60, checkpoint=path, resume=True).reports == []


def test_generator_is_skipped_to_where_it_was(model: Model, tmp_path: Path) -> None:
    def stream() -> Iterator[Any]:
        yield from batches(30)

    path = tmp_path / "ck.safetensors"
    model.fit(stream(), steps=30, every=10)
    straight = everything(model)
    model.reset()
    model.fit(stream(), steps=11, every=10, checkpoint=path)
    model.reset()
    model.fit(stream(), steps=30, every=10, resume=path)
    assert_same(everything(model), straight)
    model.load(path)
    with refused("data", "ended before batch 11"):
        model.fit(iter(batches(5)), steps=30, resume=path)


def test_save_and_load_and_train_on(model: Model, tmp_path: Path) -> None:
    model.fit(data(), steps=20, every=10, seed=np.int64(7))
    path = tmp_path / "w.safetensors"
    model.save(path)
    model.fit(data(), steps=20, every=10)
    straight = everything(model)
    model.reset()
    model.load(path)
    assert (model.steps_done, model.progress.seed) == (20, 7)
    model.fit(data(), steps=20, every=10)
    assert_same(everything(model), straight)


def test_weights_without_optimizer(bundle: Path, model: Model, tmp_path: Path) -> None:
    model.fit(data(), steps=20, every=10)
    path = tmp_path / "w.safetensors"
    model.save(path, optimizer=False)
    assert set(load_weights(path)[0]) == {"w", "rng/seed"}
    w = model.params()["w"]
    model.load(path)
    assert (model.steps_done, int(model.state()["opt/opt/step"])) == (0, 0)
    np.testing.assert_array_equal(model.params()["w"], w)
    with wgcc_runtime.load(bundle, device=model.device_name, weights=path) as other:
        np.testing.assert_array_equal(other.params()["w"], w)


def test_same_state_gives_the_same_file(model: Model, tmp_path: Path) -> None:
    model.fit(data(), steps=3)
    for name in ("a", "b"):
        model.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 0xFF
    path.write_bytes(content)


def test_the_previous_checkpoint_replaces_a_damaged_one(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "ck.safetensors"
    model.fit(data(), steps=20, every=10, checkpoint=path, checkpoint_every=10)
    older = previous(path).read_bytes()
    damage(path)
    with refused("weights", "checksum"):
        model.load(path)
    said = f"{path} is damaged: .*; used {previous(path)} instead, saved at step 10 of `train`"
    with pytest.warns(WgccWarning, match=said):
        history = model.fit(data(), steps=20, every=10, checkpoint=path, resume=True)
    assert len(history.notes) == 1
    assert (model.steps_done, history.steps) == (20, [20])
    # The damaged file does not replace the good one.
    assert previous(path).read_bytes() == older
    assert model.fit(data(), steps=20, checkpoint=path, resume=True).notes == ()
    previous(path).unlink()
    path.write_bytes(path.read_bytes()[:100])
    with refused("weights"):
        model.fit(data(), steps=20, checkpoint=path, resume=True)


def test_only_damage_goes_back(model: Model, tmp_path: Path) -> None:
    """An intact checkpoint that does not fit is refused, although the previous one would fit."""
    path = tmp_path / "ck.safetensors"
    model.fit(data(), steps=20, every=10, checkpoint=path, checkpoint_every=10)
    for code, facts in {"version": {"version": 9}, "mismatch": {"model": "Other"}}.items():
        save_weights(path, {"w": np.zeros(4, np.float32)}, facts)
        with refused(code):
            model.fit(data(), steps=20, checkpoint=path, resume=True)


def test_checkpoint_of_another_model(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "ck.safetensors"
    save_weights(path, {"q": np.zeros(3)}, {"steps": {}})
    with refused("weights", "no `q`"):
        model.load(path)
    save_weights(path, {"w": np.zeros(4)}, {"steps": {"train": 1}})
    with refused("weights", "lacks `rng/seed`"):
        model.load(path)
    save_weights(path, {"w": np.zeros(4), "rng/seed": np.uint32(0)}, {"steps": {"train": -1}})
    with refused("weights", "impossible step"):
        model.load(path)
    save_weights(path, {"w": np.zeros(4)}, {"version": 9})
    with refused("version"):
        model.load(path)


def test_log_is_lines_of_json_and_survives_resuming(model: Model, tmp_path: Path) -> None:
    log, path = tmp_path / "log.jsonl", tmp_path / "ck.safetensors"
    model.fit(data(), steps=20, every=5, log=log, checkpoint=path)
    model.fit(data(), steps=20, every=5, log=log)
    model.reset()
    log.write_text(log.read_text() + '{"step": 25, "loss": 1}\nnot json\n')
    model.fit(data(), steps=20, every=5, log=log, checkpoint=path)
    model.fit(data(), steps=30, every=5, log=log, checkpoint=path, resume=True)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["step"] for line in lines] == [5, 10, 15, 20, 25, 30]
    assert set(lines[0]) == {"step", "loss", "ms"}


# ---- places that cannot be written

# A name of 243 bytes leaves no room for a prefix, one of 250 leaves none for `.previous`.
LONG, LONGER, LONGEST = "x" * 243, "x" * 250, "x" * 256
BAD_PLACES = {
    "": "not the name of a file",
    ".": "not the name of a file",
    "folder": "folder",
    "pipe": "not a regular file",
    "file/ck": "Not a directory|File exists|file",
    LONGEST: "name too long",
    "nul\0": "null",
}


def test_saving_to_a_long_name(model: Model, tmp_path: Path) -> None:
    path = tmp_path / LONG
    model.fit(data(), steps=20, every=10, checkpoint=path, checkpoint_every=10)
    assert sorted(p.name for p in tmp_path.iterdir()) == [LONG, f"{LONG}.previous"]
    model.save(tmp_path / LONGER)
    model.load(tmp_path / LONGER)
    with refused("weights", "too long"):
        model.fit(data(), steps=20, checkpoint=tmp_path / LONGER)
    stray = tmp_path / f"{_stem(path)}999999999-ab.tmp"
    stray.write_bytes(b"half")
    model.save(path)
    assert not stray.exists()


@pytest.mark.parametrize("place", BAD_PLACES, ids=lambda place: place.strip("\0")[:9] or "empty")
def test_places_that_cannot_be_written(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    said = BAD_PLACES[place]
    with refused("weights", f"cannot write {re.escape(repr(place))}: .*({said})"):
        model.save(place)
    for option, code in {"checkpoint": "weights", "log": "log"}.items():
        if (option, place) == ("log", "folder"):
            continue  # a log may be a folder
        before = model.steps_done
        with refused(f"({code}|data)", said):
            model.fit(data(), steps=5, **{option: place})
        assert model.steps_done == before  # reported before the training, not at its end
    if place != "pipe":  # reading one would wait for a writer
        with refused("(weights|data)"):
            model.fit(data(), steps=5, resume=place)
    assert (tmp_path / "pipe").is_fifo()
    assert not list(tmp_path.glob(".*.tmp"))


@pytest.mark.parametrize("place", [5, b"ck", ["ck"], True])
def test_paths_that_name_no_file(model: Model, place: Any) -> None:
    for option in ("checkpoint", "log"):
        with refused("data", f"`{option}` is .*not the name of a file"):
            model.fit(data(), steps=5, **{option: place})


def test_a_full_disk_under_the_log_keeps_the_training(model: Model, tmp_path: Path) -> None:
    """The training is saved, if there is room for it."""
    path = tmp_path / "ck.safetensors"

    def fill(report: Report) -> None:
        if report.step == 10:
            log = next(item for item in gc.get_objects() if isinstance(item, Log))
            log.close()
            log._stream = open("/dev/full", "w")  # noqa: SIM115 (the log closes it)

    with refused("log", "cannot write .*log.jsonl': No space left"):
        model.fit(data(), steps=50, every=5, callbacks=[fill], log=tmp_path / "log.jsonl",
                  checkpoint=path)  # fmt: skip
    assert model.steps_done == load_weights(path)[1]["steps"]["train"] == 15


# ---- files survive a crash


def test_stray_files_are_removed(tmp_path: Path) -> None:
    target = tmp_path / "w[1].safetensors"
    dead = tmp_path / f".{target.name}.999999999-ab.tmp"
    old = tmp_path / f".{target.name}.{os.getpid()}-cd.tmp"
    mine = tmp_path / f".{target.name}.{os.getpid()}-ef.tmp"
    for stray in (dead, old, mine):
        stray.write_bytes(b"half")
    os.utime(old, (time.time() - 3600,) * 2)
    replace_file(target, b"whole")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([target.name, mine.name])


def test_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "w"
    target.write_bytes(b"old")

    def no_space(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        replace_file(target, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["w"]
    assert target.read_bytes() == b"old"


def test_kill_during_save_leaves_a_complete_file(tmp_path: Path) -> None:
    found = kill_savers(tmp_path, 10, seed=1, words=500_000)
    assert (found["unreadable"], found["left after a save"]) == (0, 0)
