"""`fit` in JavaScript: a promise of a history and a loop of reports; options; what is refused."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from rows_model import MODEL, data
from web_stacks import as_lists, build_web, run_job, run_node
from wgcc.bundle.page import build_page

# An entry that mixes rows and returns one number, and one that writes.
SPREAD = """
  entry spread(x: f32[B, 3]) -> (spread: f32) = mean(std(x, axis = 0))
  entry next(id: i32) -> (id: i32) = (id + 1) % 3
  vocab = "abc"
}
"""
ROWS = 29
HISTORY = {"isLoss": True, "losses": True}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fit")
    source = folder / "net.wg"
    source.write_text(MODEL.rstrip().removesuffix("}") + SPREAD, encoding="utf-8")
    return build_web(source, folder / "bundle")


@pytest.fixture(scope="module", params=["node", "chrome"])
def seen(request: pytest.FixtureRequest, bundle: Path) -> Any:
    device = {"device": "wasm"} if request.param == "node" else {}
    given = {"data": as_lists(data(ROWS)), "whole": data(24)["x"].ravel().tolist(), **device}
    return run_job(request.param, bundle, "fitting", given)


def test_histories(seen: Any) -> None:
    assert seen["before"] == 0
    assert seen["awaited"] == {"steps": [10, 20, 25], "stopped": "steps", **HISTORY}
    assert seen["again"] is True
    assert seen["read"] == [[step, ["loss"]] for step in (30, 40, 50, 55)]
    assert seen["iterated"] == {"steps": [30, 40, 50, 55], "stopped": "steps", **HISTORY}
    assert seen["left"] == {"steps": [60], "stopped": "stop", **HISTORY}
    assert seen["rest"]["steps"][-1] - seen["rest"]["steps"][0] == 20 + 5 - 5
    assert seen["never"] == {"steps": [], "stopped": "stop", **HISTORY}
    assert (seen["unchanged"], seen["finally"], seen["caught"]) == (0, "steps", "range")


def test_epochs(seen: Any) -> None:
    assert seen["epochs"] == [
        [[4, 6], "steps"],
        [[15], "steps"],
        [[16, 18], "steps"],
        [[20, 21], "data"],
    ]


def test_validation(bundle: Path, seen: Any) -> None:
    scalars = ["loss", "hits", "size"]
    assert seen["validated"] == [[5, None], [10, scalars], [15, None], [20, scalars]]
    assert seen["isEval"]
    assert seen["own"] == [[True, True], ["number", "number"]]
    assert seen["one"] == {"value": 3}
    x = data(24)["x"]
    with wgcc_runtime.load(bundle, device="wasm") as model:
        wanted = float(model.map("spread", x=x)["spread"])
    np.testing.assert_allclose(seen["spread"]["spread"], wanted, 1e-5)


def test_refusals(seen: Any) -> None:
    refused = seen["refused"]
    texts = {name: found[2] for name, found in refused.items() if name != "made"}
    assert refused["made"] == 0, refused
    assert texts["unknown"] == "name: `step` is not an option of fit; did you mean `steps`?"
    assert "there are: steps, epochs, every" in texts["strange"]
    assert texts["both"] == "data: `epochs` and `steps` exclude each other"
    assert "a function gives batches without end" in texts["endless"]
    assert texts["fraction"] == "range: `epochs` is a whole number above 0, not 1.5"
    assert "`test` is not an entry; name one for the validation" in texts["entry"]
    assert "`labels` is not an input of eval; did you mean `label`?" in texts["name"]
    assert "`validation` is an object of arrays, or a function" in texts["list"]
    assert "has 3 rows, not 8, and spread cannot run" in texts["mixed"]


def test_one_training_at_a_time(seen: Any) -> None:
    second, first, free, after, aborted = seen["busy"]
    assert second[:2] == ["busy", "fit"]
    assert "abort its signal" in second[2]
    assert (first, free, after) == ("steps", ["fine", "steps"], ["fine", "steps"])
    assert aborted == "AbortError"


def test_aborting_does_not_wait_for_data(seen: Any) -> None:
    wanted = {"name": "AbortError", "made": 3, "asked": 4, "isCounted": True, "isQuick": True}
    assert seen["aborted"] == wanted


def test_data_that_is_read_is_closed(seen: Any) -> None:
    """At the last step, when the loop is left, after an error and when aborted."""
    assert seen["closed"] == ["steps", "left", "wrong", "signal", "return", "generator"]


# A latency and a time per step, in ms, and the steps that a submit should have.
MACHINES = [
    ({"latency": 100, "step": 0.6, "most": 10}, 10),
    ({"latency": 100, "step": 0.6, "noise": 20}, 64),
    ({"latency": 100, "step": 100, "noise": 10}, 1),
    ({"latency": 1, "step": 0.2, "noise": 0.3}, 64),
    ({"latency": 1, "step": 30, "noise": 3}, 1),
    ({"latency": 5, "step": 5, "noise": 1}, 7),
    ({"latency": 0, "step": 0.01}, 64),
]


def test_steps_per_submit_depend_on_the_time_of_steps_alone() -> None:
    """Not on the latency of a submit, which is 100 ms in Firefox."""
    seen = run_node("pace.mjs", data=[machine for machine, _ in MACHINES])
    for (machine, steps), found in zip(MACHINES, seen, strict=True):
        assert found["median"] == pytest.approx(steps, rel=0.25), machine
        best = 1000 * steps / (machine["latency"] + steps * machine["step"])
        assert found["rate"] > 0.85 * best, machine
        # No submit is much larger than one that was measured.
        counts = found["counts"]
        assert all(b <= 4 * a for a, b in itertools.pairwise(counts)), machine


def test_much_or_slow_data_does_not_block_a_page(bundle: Path) -> None:
    """Two million rows are checked, copied and shuffled in slices; between two calls of a function
    of 15 ms, there is a pause."""
    seen = run_node("large.mjs", str(bundle))
    assert (seen["problems"], seen["steps"]) == ([], [10, 20, 21])
    assert seen["longest"]["count"] > 20
    assert not seen["longest"]["isFelt"], seen["longest"]


@pytest.mark.parametrize("device", ["wasm", "webgpu"])
def test_a_model_in_a_worker_is_the_same(bundle: Path, device: str) -> None:
    seen = run_job("chrome", bundle, "remote", {"device": device, "data": as_lists(data(ROWS))})
    assert seen["same"], "other numbers than in the page"
    assert "weights" in seen["stages"]
    assert seen["adapter"] == [True, True]
    assert (seen["steps"], seen["asked"]) == ([10, 20, 30], [30, 31, 32, 33])
    assert (seen["list"], seen["once"]) == ([[36, 40], "steps"], [[42, 43], "data"])
    assert (seen["own"], seen["progress"], seen["checkFinite"]) == (["value"], 53, False)
    assert seen["isClosed"], "the data that it read"
    assert seen["written"][0] == seen["written"][1] == ["bcabb", "text prompt"]
    assert seen["read"][0] == seen["read"][1]
    errors = seen["errors"]
    assert (errors["busy"], errors["option"]) == ("busy", ["name", "step"])
    assert errors["missing"][:3] == [True, "name", "label"]
    assert errors["missing"][3] == "name: `label` is missing: eval needs it"
    assert errors["data"] == ["RangeError", "no data"]
    assert errors["output"] == "no-webgpu"
    assert (seen["aborted"], seen["free"], seen["loading"]) == ("enough", "fine", "AbortError")
    assert seen["closed"] == ["closed", "closed"]


def test_a_device_that_is_lost_in_a_worker(bundle: Path) -> None:
    """The page hears of it; with a new one it continues, and `onProgress` is called again."""
    seen = run_job("chrome", bundle, "remote_lost", {"data": as_lists(data(ROWS))})
    assert seen == {
        "reason": "destroyed",
        "codes": ["device-lost", "device-lost"],
        "isRestored": True,
        "steps": [5],
        "recovered": 3,
        "lost": 1,
        "hearsAgain": True,
    }


def test_calls_of_a_worker_leave_nothing_behind() -> None:
    """A function and a signal of the page, and the signal that the worker made of it."""
    seen = run_node("wire.mjs")
    assert (seen["value"], seen["opened"]) == (21, "opened")
    assert (seen["afterCall"], seen["whileHeld"], seen["afterRelease"]) == (0, 3, 0)


PAGE = """<!doctype html><title>waiting</title>
<!-- inline own.js -->
"""
OWN = """// A page of somebody's own.

import { load } from '../../runtime_js/page/bundle.js';

const x = Float32Array.from({ length: 72 }, (_, i) => Math.sin(i));
const label = Int32Array.from({ length: 24 }, (_, i) => i % 2);
load({ worker: true, device: 'wasm' })
  .then(model => model.fit({ x, label }, { steps: 30 }))
  .then(({ steps }) => steps, error => error.message)
  .then(text => { document.title = `${text}`; });
"""


def test_a_page_from_a_disk_starts_its_worker(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(PAGE)
    (tmp_path / "own.js").write_text(OWN)
    files = {p.relative_to(bundle).as_posix(): p.read_bytes() for p in bundle.rglob("*.*")}
    page = build_page(tmp_path / "page.html", json.loads(files["plan.json"]), files, {})
    (tmp_path / "index.html").write_text(page, encoding="utf-8")
    seen = run_node("remote_page.mjs", str(tmp_path / "index.html"))
    assert seen == {"title": "10,20,30", "problems": []}
