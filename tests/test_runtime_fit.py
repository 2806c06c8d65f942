"""Training loops: data of every kind, reports, stopping, checkpoints and resuming to the bit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import line_bundle
import wgcc_runtime
from line_bundle import COLS, ROWS
from wgcc_runtime import Model, Report, WgccError
from wgcc_runtime.replace_file import previous, replace_file
from wgcc_runtime.weights import load_weights

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return line_bundle.write_bundle(tmp_path_factory.mktemp("fit") / "bundle")


@pytest.fixture(scope="module")
def shared(bundle: Path, adapter: str) -> Model:
    return wgcc_runtime.load(bundle, device=adapter)


@pytest.fixture
def model(shared: Model) -> Model:
    shared.reset()
    return shared


def data(rows: int = 100) -> dict[str, Any]:
    x = np.random.default_rng(0).normal(size=(rows, COLS)).astype(np.float32)
    return {"x": x, "y": x @ np.float32([1, -2, 3, 0.5])}


def batches(count: int) -> list[dict[str, Any]]:
    all_ = data(count * ROWS)
    return [{k: v[i * ROWS : (i + 1) * ROWS] for k, v in all_.items()} for i in range(count)]


def everything(model: Model) -> dict[str, Any]:
    return {**model.params(), **model.state()}


def assert_same(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].tobytes() == right[name].tobytes(), name


def refused(code: str, text: str = "") -> Any:
    return pytest.raises(WgccError, match=rf"^{code}: .*{text}")


def test_loss_falls_on_arrays(model: Model) -> None:
    history = model.fit(data(), steps=200, every=50)
    assert history.steps == [50, 100, 150, 200]
    assert history.losses[-1] < 0.05 < history.losses[0]
    assert history.loss == history.losses[-1]
    assert history.stopped == "steps"


def test_many_steps_per_submit_are_the_same_as_single_calls(model: Model) -> None:
    items = batches(40)
    losses = [float(model.train(**item)["loss"]) for item in items]
    singly = everything(model)
    model.reset()
    history = model.fit(items, steps=40, every=1)
    assert history.losses == losses
    assert_same(everything(model), singly)
    model.reset()
    assert model.fit(items, steps=40, every=40).losses == losses[-1:]
    assert_same(everything(model), singly)


def test_shuffling_depends_on_the_seed_alone(model: Model) -> None:
    runs = []
    for seed in (1, 1, 2):
        model.reset()
        model.fit(data(), steps=30, every=10, seed=seed)
        runs.append(model.params()["w"].tobytes())
    assert runs[0] == runs[1] != runs[2]


def test_an_epoch_sees_every_row_once(model: Model) -> None:
    from wgcc_runtime.batches import ArraySource

    rows = np.arange(10 * ROWS, dtype=np.float32)
    source = ArraySource({"x": np.tile(rows[:, None], COLS), "y": rows}, model.entry("train"), 3, 0)
    for _ in range(2):
        seen = np.concatenate([(source.take() or {})["y"] for _ in range(10)])
        assert sorted(seen) == list(rows)
        assert list(seen) != list(rows)


def test_list_is_cycled_and_generator_just_ends(model: Model) -> None:
    history = model.fit(batches(3), steps=10, every=5)
    assert (history.steps, history.stopped) == ([5, 10], "steps")
    history = model.fit((item for item in batches(7)), steps=10, every=5)
    assert history.stopped == "data"
    assert model.steps_done == 17
    history = model.fit(batches(4))
    assert (history.stopped, model.steps_done) == ("data", 21)


def test_function_gets_the_step(model: Model) -> None:
    items, asked = batches(6), []

    def make(step: int) -> Any:
        asked.append(step)
        return items[step] if step < len(items) else None

    history = model.fit(make, every=2)
    assert asked[:7] == list(range(7))
    assert (history.steps, history.stopped) == ([2, 4, 6], "data")


def test_empty_data(model: Model) -> None:
    history = model.fit([], steps=5)
    assert (history.reports, history.stopped) == ([], "data")
    with refused("data", "no step was made"):
        _ = history.loss


WRONG: list[tuple[str, Any, dict[str, Any], str, str]] = [
    ("no steps", data(), {}, "data", "needs `steps`"),
    ("zero steps", data(), {"steps": 0}, "range", "steps"),
    ("every", data(), {"steps": 5, "every": 0}, "range", "every"),
    ("rows differ", {**data(), "y": np.zeros(50)}, {"steps": 5}, "shape", "rows differ"),
    ("one batch of y", {**data(), "y": np.zeros(8)}, {"steps": 5}, "shape", "rows differ"),
    ("few rows", data(5), {"steps": 5}, "shape", "fewer than the batch"),
    ("columns", {**data(), "x": np.zeros((100, 3))}, {"steps": 5}, "shape", "or more rows"),
    ("names", {"x": data()["x"]}, {"steps": 5}, "name", "needs the input `y`"),
    ("not data", 7, {"steps": 5}, "data", "not int"),
    ("not batches", [1, 2], {"steps": 5}, "data", "a batch is a dict"),
    ("entry", data(), {"steps": 5, "entry": "predict"}, "name", "does not train"),
    ("resume", data(), {"steps": 5, "resume": True}, "data", "needs a checkpoint"),
    ("eval", data(), {"steps": 5, "eval": 3}, "data", "`eval` is"),
    ("no eval", data(), {"steps": 5, "eval": data()}, "name", "no entry `eval`"),
]


@pytest.mark.parametrize(
    ("batches", "options", "code", "text"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG]
)
def test_wrong_arguments(
    model: Model, batches: Any, options: dict[str, Any], code: str, text: str
) -> None:
    with refused(code, text):
        model.fit(batches, **options)


def test_callbacks_hear_every_report_and_can_stop(model: Model) -> None:
    heard: list[Report] = []

    def stop(report: Report) -> str | None:
        return "stop" if report.step >= 30 else None

    history = model.fit(data(), steps=100, every=10, callbacks=[stop, heard.append])
    assert history.stopped == "callback"
    assert [report.step for report in heard] == [10, 20, 30]
    assert heard[0].outputs == {"loss": heard[0].loss}
    assert heard[0].ms > 0


def test_stop_is_asked_between_submits(model: Model) -> None:
    history = model.fit(data(), steps=10_000, every=5, stop=lambda: model.steps_done >= 20)
    assert history.stopped == "stop"
    assert 20 <= model.steps_done < 100


def test_evaluation(model: Model) -> None:
    def error(model: Model) -> dict[str, float]:
        return {"mae": float(np.abs(model.map("predict", x=data()["x"])["p"]).mean())}

    history = model.fit(data(), steps=20, every=5, eval=error, eval_every=10)
    assert [set(report.eval) for report in history.reports] == [set(), {"mae"}, set(), {"mae"}]
    assert model.fit(data(), steps=5, every=5, eval=lambda m: 3).reports[0].eval == {"value": 3.0}


def test_evaluation_off_the_report_grid_is_reported_too(model: Model) -> None:
    history = model.fit(data(), steps=12, every=5, eval=lambda m: 1, eval_every=4)
    assert history.steps == [4, 5, 8, 10, 12]


def test_nan_within_a_submit_is_undone_to_the_step_before(model: Model, tmp_path: Path) -> None:
    items = batches(40)
    model.fit(items, steps=25, every=25)
    before = everything(model)
    model.reset()
    items[25] = {**items[25], "x": items[25]["x"] * np.float32(1e25)}
    path = tmp_path / "ck.safetensors"
    with refused("nan", "train, step 26: `loss` is inf"):
        model.fit(items, steps=40, every=40, checkpoint=path)
    assert model.steps_done == 25
    assert_same(everything(model), before)
    assert not path.exists()


def test_nan_keeps_the_last_checkpoint(model: Model, tmp_path: Path) -> None:
    items = batches(40)
    items[35] = {**items[35], "x": items[35]["x"] * np.float32(1e25)}
    path = tmp_path / "ck.safetensors"
    with refused("nan", "step 36"):
        model.fit(items, steps=40, every=10, checkpoint=path, checkpoint_every=10)
    arrays, facts = load_weights(path)
    assert facts["steps"] == {"train": 30}
    assert np.isfinite(arrays["w"]).all()


# ---- checkpoints


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
    model.fit(data(), steps=20, every=10)
    path = tmp_path / "w.safetensors"
    model.save(path)
    model.fit(data(), steps=20, every=10)
    straight = everything(model)
    model.reset()
    model.load(path)
    assert model.steps_done == 20
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


def test_damaged_checkpoint_gives_way_to_the_one_before(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "ck.safetensors"
    model.fit(data(), steps=20, every=10, checkpoint=path, checkpoint_every=10)
    content = bytearray(path.read_bytes())
    content[-5] ^= 0xFF
    path.write_bytes(content)
    with refused("weights", "checksum"):
        model.load(path)
    model.fit(data(), steps=20, every=10, checkpoint=path, resume=True)
    assert model.steps_done == 20
    previous(path).unlink()
    path.write_bytes(path.read_bytes()[:100])
    with refused("weights"):
        model.fit(data(), steps=20, checkpoint=path, resume=True)


def test_checkpoint_of_another_model(model: Model, tmp_path: Path) -> None:
    from wgcc_runtime.weights import save_weights

    path = tmp_path / "ck.safetensors"
    save_weights(path, {"q": np.zeros(3)}, {"steps": {}})
    with refused("weights", "no `q`"):
        model.load(path)
    save_weights(path, {"w": np.zeros(4)}, {"steps": {"train": -1}})
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


# ---- files survive a crash


def test_strays_are_swept(tmp_path: Path) -> None:
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


SAVE_FOR_EVER = """
import sys
import numpy as np
from wgcc_runtime.weights import save_weights
arrays = {"w": np.zeros(500_000, np.float32)}
for number in range(10_000):
    arrays["w"][:] = number
    save_weights(sys.argv[1], arrays, {"steps": {"train": number}}, keep_previous=True)
    print(number, flush=True)
"""


def test_kill_during_save_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "ck.safetensors"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "runtime_py")}
    for wait in (0.0, 0.003, 0.007, 0.011, 0.017):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVE_FOR_EVER, str(path)],
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        arrays, facts = load_weights(path)
        assert (arrays["w"] == facts["steps"]["train"]).all()
        assert load_weights(previous(path))[0]["w"].size if previous(path).exists() else True
    replace_file(path, b"done")
    assert not list(tmp_path.glob(".*.tmp"))
