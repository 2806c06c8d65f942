"""Logs that are folders: TensorBoard's own reader reads their events, also after resuming."""

from __future__ import annotations

import io
import json
import random
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import (
    STORE_EVERYTHING_SIZE_GUIDANCE,
    EventAccumulator,
)

import line_twin
import wgcc
import wgcc_runtime
from adapters import ROOT
from building import TWIN
from cli_runs import run
from line_training import data, refused
from wgcc_runtime import Model
from wgcc_runtime.captured_events import numbers_of, summary_of, values_of
from wgcc_runtime.event_files import EventFile, crc32c, histogram, picture, png, scalar


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return wgcc_runtime.load(line_twin.write_bundle(tmp_path / "bundle"), device=TWIN)


def read(folder: Path) -> Any:
    events = EventAccumulator(str(folder), STORE_EVERYTHING_SIZE_GUIDANCE)
    return events.Reload()


def scalars(folder: Path, tag: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in read(folder).Scalars(tag)]


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_checksums_are_those_of_the_standard() -> None:
    # The test vectors of RFC 3720, B.4.
    assert crc32c(b"") == 0
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"123456789") == 0xE3069283


def test_lines_and_events_have_the_same_numbers(model: Model, tmp_path: Path) -> None:
    run_folder = tmp_path / "run"
    history = model.fit(data(), steps=20, every=5, log=f"{run_folder}/")
    expected = [(report.step, np.float32(report.loss)) for report in history.reports]
    assert scalars(run_folder, "train/loss") == expected
    assert [(line["step"], np.float32(line["loss"])) for line in lines(run_folder)] == expected
    seconds = [line["seconds"] for line in lines(run_folder)]
    assert seconds == sorted(seconds) and seconds[0] >= 0
    assert [step for step, _ in scalars(run_folder, "time/ms")] == [5, 10, 15, 20]


def test_a_resumed_run_continues_lines_and_events(model: Model, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "run", tmp_path / "ck.safetensors"
    model.fit(data(), steps=20, every=5, log=f"{folder}/", checkpoint=checkpoint)
    before = lines(folder)[-1]["seconds"]
    # Steps that no checkpoint has are repeated, so their lines and events are replaced.
    model.fit(data(), steps=15, every=5, log=f"{folder}/", checkpoint=tmp_path / "other")
    model.fit(data(), steps=20, every=5, log=f"{folder}/", checkpoint=checkpoint, resume=False)
    with (folder / "log.jsonl").open("a") as file:
        file.write('{"step": 100, "loss": 9}\n{"st')
    with sorted(folder.glob("events*"))[-1].open("ab") as events:
        events.write(b"\x18\0\0")  # a record that a crash cut off
    history = model.fit(data(), steps=60, every=5, log=folder, checkpoint=checkpoint, resume=True)
    steps = [line["step"] for line in lines(folder)]
    assert steps == sorted(set(steps)) and history.reports[-1].step == steps[-1]
    assert [step for step, _ in scalars(folder, "train/loss")] == steps
    assert lines(folder)[-1]["seconds"] > 0 and before > 0
    assert len(list(folder.glob("events*"))) == 2
    model.reset()
    model.fit(data(), steps=5, every=5, log=folder)
    assert [step for step, _ in scalars(folder, "train/loss")] == [5]


def test_steps_that_are_repeated_replace_their_events(tmp_path: Path) -> None:
    """As after a lost device."""
    events = EventFile(tmp_path, 1)
    for step in (1, 2, 3):
        events.write(step, [scalar("loss", 1.0)])
    events.begin_after(1)
    events.write(2, [scalar("loss", 2.0)])
    events.close()
    assert scalars(tmp_path, "loss") == [(1, 1.0), (2, 2.0)]


def test_live_settings_are_logged(tmp_path: Path) -> None:
    live = wgcc.compile(ROOT / "examples" / "sin" / "model.wg", constants={"opt.lr": 0.02})
    x = np.linspace(0, 1, 300, dtype=np.float32)[:, None]
    live.fit({"x": x, "y": x}, steps=4, every=2, log=f"{tmp_path}/run/", progress=False)
    assert [line["state_opt_lr"] for line in lines(tmp_path / "run")] == [pytest.approx(0.02)] * 2
    assert scalars(tmp_path / "run", "state/opt_lr") == [
        (2, np.float32(0.02)),
        (4, np.float32(0.02)),
    ]


def test_histograms_and_pictures_are_read(tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).normal(size=1000)
    counts, edges = np.histogram(numbers, bins=32)
    pixels = np.arange(35, dtype=np.uint8).reshape(5, 7)
    events = EventFile(tmp_path, 1)
    sums = {"sum": numbers.sum(), "squares": (numbers**2).sum()}
    events.write(3, [histogram("h", counts, edges, sums), picture("p", pixels)])
    events.close()
    reader = read(tmp_path)
    value = reader.Histograms("h")[0].histogram_value
    assert (value.num, value.min, value.max) == (1000, edges[0], edges[-1])
    assert list(value.bucket) == list(counts) and list(value.bucket_limit) == list(edges[1:])
    shown = reader.Images("p")[0]
    assert (shown.step, shown.width, shown.height) == (3, 7, 5)
    image = Image.open(io.BytesIO(shown.encoded_image_string))
    np.testing.assert_array_equal(np.asarray(image), pixels)


def test_random_records_are_read_back(tmp_path: Path) -> None:
    numbers = random.Random(3)
    expected = []
    events = EventFile(tmp_path, 1)
    for step in sorted(numbers.sample(range(1 << 40), 60)):
        tag = "".join(numbers.choices("aä/ 漢z", k=numbers.randrange(1, 300)))
        value = np.float32(numbers.choice([0.0, -1.5, 1e-40, 3e38, numbers.gauss(0, 1)]))
        events.write(step, [scalar(tag, value)])
        expected.append((tag, step, value))
    events.close()
    reader = read(tmp_path)
    seen = [(tag, e.step, e.value) for tag in reader.Tags()["scalars"] for e in reader.Scalars(tag)]
    assert sorted(seen) == sorted(expected)


def test_pictures_are_png_files() -> None:
    for shape in ((1, 1), (3, 200), (64, 64)):
        pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(png(pixels)))), pixels)
    assert zlib.crc32(b"IEND") == int.from_bytes(png(pixels)[-4:], "big")


def test_places_that_cannot_be_folders_are_refused(model: Model, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in ("file/", "file/run/"):
        with refused("log", "cannot write"):
            model.fit(data(), steps=5, log=f"{tmp_path}/{place}")
    assert model.steps_done == 0


def test_the_command_line_writes_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = line_twin.write_bundle(tmp_path / "line")
    np.savez(tmp_path / "data.npz", **data())
    options = ("--steps", "20", "--device", "wasm", "--log", f"{tmp_path}/run/")
    code, _, error = run(capsys, "train", str(bundle), str(tmp_path / "data.npz"), *options)
    assert code == 0, error
    assert [step for step, _ in scalars(tmp_path / "run", "train/loss")] == [10, 20]


@pytest.mark.parametrize("kind", ["capture", "capture_stats"])
def test_captures_are_histograms_and_pictures(tmp_path: Path, kind: str) -> None:
    names = ["d.l2.w", "l2.w"]
    model = wgcc.compile(ROOT / "examples" / "sin" / "model.wg", device=TWIN, **{kind: names})
    x = np.linspace(0, 1, 300, dtype=np.float32)[:, None]
    model.fit({"x": x, "y": x}, steps=4, every=2, log=f"{tmp_path}/run/", progress=False)
    reader = read(tmp_path / "run")
    assert reader.Tags()["histograms"] == [f"captured/{name}" for name in names]
    weights = model.parameters["l2.w"]
    last = reader.Histograms("captured/l2.w")[-1]
    counts, edges = np.histogram(weights, 32)
    assert last.step == 4 and last.histogram_value.num == weights.size
    # The edges of bins are rounded differently, so that values on them may change sides.
    assert np.abs(np.array(last.histogram_value.bucket) - counts).sum() <= 8
    assert last.histogram_value.max == pytest.approx(edges[-1])
    line = lines(tmp_path / "run")[-1]["captured"]["l2.w"]
    assert line["mean"] == pytest.approx(float(weights.mean()), abs=1e-6)
    assert (line["nan"], line["infinite"]) == (0, 0)
    pictures = reader.Tags()["images"]
    assert pictures == ([f"captured/{name}" for name in names] if kind == "capture" else [])
    if pictures:
        image = Image.open(io.BytesIO(reader.Images("captured/l2.w")[-1].encoded_image_string))
        expected = 255 * (weights - weights.min()) / (weights.max() - weights.min())
        np.testing.assert_allclose(np.asarray(image), expected, atol=0.51)


@pytest.mark.parametrize(
    "array",
    [np.zeros((3, 4)), np.full(5, np.nan), np.array([1.0, np.inf, np.nan, 0.0]), np.arange(6),
     np.zeros((0,)), np.float32(3.0), np.ones((2, 2, 700))],
    ids=str,
)  # fmt: skip
def test_unusual_captures(tmp_path: Path, array: Any) -> None:
    """Constants, NaN, integers and nothing at all can be captured, too."""
    stats = summary_of(np.asarray(array))
    json.dumps(numbers_of(stats), allow_nan=False)
    events = EventFile(tmp_path, 1)
    events.write(1, values_of("x", np.asarray(array), stats))
    events.close()
    finite = np.isfinite(np.asarray(array, float)).sum()
    reader = read(tmp_path)
    histograms = reader.Histograms("captured/x") if reader.Tags()["histograms"] else []
    assert [int(event.histogram_value.num) for event in histograms] == ([finite] if finite else [])
