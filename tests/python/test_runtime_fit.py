"""Training loops: data of every kind, reports, evaluation, stopping, NaN."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import line_twin
import wgcc_runtime
from line_bundle import COLS, ROWS
from line_training import assert_same, batches, data, everything, refused
from wgcc_runtime import Model, Report
from wgcc_runtime.weights import load_weights


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


def test_list_repeats_and_generator_ends(model: Model) -> None:
    history = model.fit(batches(3), steps=10, every=5)
    assert (history.steps, history.stopped) == ([5, 10], "steps")
    history = model.fit((item for item in batches(7)), steps=10, every=5)
    assert history.stopped == "data"
    assert model.steps_done == 17
    history = model.fit(batches(4))
    assert (history.stopped, model.steps_done) == ("data", 21)


def test_a_generator_is_closed_when_training_ends(model: Model) -> None:
    """At the last step, after a wrong batch, and when a callback stops or raises."""
    closed = []

    def endless(name: str, *first: Any) -> Iterator[Any]:
        try:
            yield from first
            while True:
                yield batches(1)[0]
        finally:
            closed.append(name)

    def fail(_: Report) -> None:
        raise KeyError

    # Names keep the generators alive, so that only `fit` can close them.
    kept = [endless("steps"), endless("wrong", {"x": 1}), endless("stop"), endless("error")]
    model.fit(kept[0], steps=2)
    with pytest.raises(wgcc_runtime.WgccError):
        model.fit(kept[1], steps=2)
    model.fit(kept[2], every=1, callbacks=[lambda _: "stop"])
    with pytest.raises(KeyError):
        model.fit(kept[3], every=1, callbacks=[fail])
    assert closed == ["steps", "wrong", "stop", "error"]


def test_epochs(model: Model) -> None:
    """Passes over the data, of arrays as of lists; with `resume`, in all."""
    rows = {name: value[: 5 * ROWS + 1] for name, value in data().items()}
    history = model.fit(rows, epochs=2, every=4)
    assert (history.steps, history.stopped) == ([4, 8, 10], "steps")
    history = model.fit(batches(3), epochs=2)
    assert (history.steps, model.steps_done) == ([16], 16)
    assert model.fit(iter(batches(3)), epochs=1).steps == [19]


def test_training_ends_with_a_report(model: Model) -> None:
    history = model.fit(batches(7), every=5, eval=lambda _: 1)
    assert (history.steps, history.stopped) == ([5, 7], "data")
    assert history.reports[-1].eval == {"value": 1.0}


def test_function_gets_the_step(model: Model) -> None:
    items, asked = batches(6), []

    def make(step: int) -> Any:
        asked.append(step)
        return items[step] if step < len(items) else None

    history = model.fit(make, every=2)
    assert asked[:7] == list(range(7))
    assert (history.steps, history.stopped) == ([2, 4, 6], "data")


def test_large_arrays_are_converted_batch_by_batch(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = model.fit(data(), steps=20, every=5).losses
    model.reset()
    monkeypatch.setattr("wgcc_runtime.batches.CONVERT_BYTES", 0)
    assert model.fit(data(), steps=20, every=5).losses == losses


def test_failure_of_the_data_leaves_a_consistent_model(model: Model) -> None:
    items = batches(10)

    def stream() -> Iterator[Any]:
        yield from items[:7]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        model.fit(stream(), steps=10, every=10)
    assert model.steps_done == int(model.state()["opt/opt/step"]) == 7


def test_interrupt_while_waiting_undoes_the_submit(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.fit(data(), steps=5, every=5)
    before = everything(model)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(type(model._machine.results(4)), "fetch", interrupted)
        model.fit(data(), steps=5, every=5)
    assert model.steps_done == 5
    assert_same(everything(model), before)
    assert model.fit(data(), steps=5, every=5).stopped == "steps"


def test_counts_may_be_of_numpy(model: Model) -> None:
    counts = {"steps": np.int64(6), "every": np.uint8(2), "eval_every": np.int32(3)}
    history = model.fit(data(), **counts, checkpoint_every=np.int16(4), eval=lambda _: 1)
    assert (history.steps, model.steps_done) == ([2, 3, 4, 6], 6)


def test_empty_data(model: Model) -> None:
    history = model.fit([], steps=5)
    assert (history.reports, history.stopped) == ([], "data")
    with refused("data", "no step was made"):
        _ = history.loss


WRONG: list[tuple[str, Any, dict[str, Any], str, str]] = [
    ("no steps", data(), {}, "data", "needs `steps` or `epochs`"),
    ("both", data(), {"steps": 1, "epochs": 1}, "data", "exclude each other"),
    ("no epochs", data(), {"epochs": 0}, "range", "`epochs` is a whole number above 0"),
    ("endless", lambda _: None, {"epochs": 1}, "data", "a function gives batches without end"),
    ("unknown", data(), {"step": 1}, "name", "`step` is not an option; did you mean `steps`?"),
    ("zero steps", data(), {"steps": 0}, "range", "steps"),
    ("half a step", data(), {"steps": 2.5}, "range", "steps"),
    ("true steps", data(), {"steps": True}, "range", "steps"),
    ("every", data(), {"steps": 5, "every": 0}, "range", "every"),
    ("eval_every", data(), {"steps": 5, "eval_every": np.int64(0)}, "range", "eval_every"),
    ("rows differ", {**data(), "y": np.zeros(50)}, {"steps": 5}, "shape", "rows differ"),
    ("one batch of y", {**data(), "y": np.zeros(8)}, {"steps": 5}, "shape", "rows differ"),
    ("no rows", data(0), {"steps": 5}, "shape", "train: the data has no rows$"),
    ("few rows", data(5), {"steps": 5}, "shape", "5 rows are fewer than the batch of 8.*--set B=5"),
    ("columns", {**data(), "x": np.zeros((100, 3))}, {"steps": 5}, "shape", "with more rows"),
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


def test_callbacks_get_every_report_and_can_stop(model: Model) -> None:
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


def test_time_per_step_is_that_of_the_steps_alone(model: Model, tmp_path: Path) -> None:
    """Evaluating, reporting and saving take a second here; the model takes milliseconds."""

    def slow(_: object) -> int:
        time.sleep(0.25)
        return 1

    log = tmp_path / "log.jsonl"
    model.fit(data(), steps=8, every=8)  # compiles
    started = time.perf_counter()
    history = model.fit(data(), steps=16, every=8, eval=slow, callbacks=[slow], log=log)
    seconds = time.perf_counter() - started
    assert seconds > 1
    assert sum(8 * report.ms for report in history.reports) < 1000 * (seconds - 1) + 1
    assert all(report.ms > 0 for report in history.reports)
    logged = [json.loads(line)["ms"] for line in log.read_text().splitlines()]
    assert logged == [round(report.ms, 4) for report in history.reports]


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
