"""Receipts of trainings go from Python to JavaScript and back, through every engine."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapters import ROOT
from building import TWIN
from cli_runs import run
from web_stacks import build_web, run_job
from wgcc_runtime.strict_json import plan_digest
from wgcc_runtime.weights import save_arrays

STEPS, EVERY = 60, 20


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = ROOT / "tests" / "golden" / "regression.wg"
    return build_web(source, tmp_path_factory.mktemp("receipts") / "bundle")


def rows() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(4)
    x = draw.normal(size=(40, 3)).astype(np.float32)
    return {"x": x, "y": x.sum(axis=1, keepdims=True)}


class Trainings:
    """The receipts of Python, in a folder."""

    def __init__(self, bundle: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.bundle, self.folder, self._capsys = bundle, folder, capsys
        self.data = folder / "rows.safetensors"
        save_arrays(self.data, rows())

    def train(self, *options: str, steps: int = STEPS) -> str:
        receipt, end = self.folder / "run.json", self.folder / "end.safetensors"
        code, _, err = run(
            self._capsys, "train", str(self.bundle), str(self.data), "--device", TWIN,
            "--steps", str(steps), "--seed", "7", "--receipt", str(receipt), "--out", str(end),
            "--receipt-every", str(EVERY), *options,
        )  # fmt: skip
        assert code == 0, err
        return receipt.read_text()

    def replay(self, receipt: str) -> tuple[int, str]:
        path = self.folder / "theirs.json"
        path.write_text(receipt)
        words = ["replay", str(path), str(self.bundle), str(self.data)]
        code, _, err = run(self._capsys, *words)
        return code, err

    @property
    def end(self) -> str:
        return base64.b64encode((self.folder / "end.safetensors").read_bytes()).decode()


@pytest.fixture
def trainings(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Trainings:
    return Trainings(bundle, tmp_path, capsys)


def edited(receipt: str, change: Callable[[dict[str, Any]], Any]) -> str:
    """With a digest that is right again, as by somebody who means to deceive."""
    content = json.loads(receipt)
    change(content)
    content["sha256"] = plan_digest(content)
    return json.dumps(content)


@pytest.mark.parametrize(("stack", "threads"), [("node", 2), ("chrome", 1), ("firefox", 1)])
def test_engines_replay_each_others_trainings(
    trainings: Trainings, stack: str, threads: int
) -> None:
    half = trainings.train(steps=40)
    checkpoint = trainings.end
    whole = trainings.train()
    forged = edited(whole, lambda c: c["points"][2].update(weights="0" * 64))
    answer = run_job(stack, trainings.bundle, "receipts", {
        "data": {name: array.reshape(-1).tolist() for name, array in rows().items()},
        "keep": {"steps": STEPS, "receipt": EVERY, "seed": 7},
        "threads": threads,
        "replays": [
            {"text": whole}, {"text": whole, "checkpoint": checkpoint}, {"text": forged},
        ],
        "refused": {
            "damaged": {"text": whole[:200]},
            "edited": {"text": whole.replace('"every": 10', '"every": 20')},
            "points": {"text": edited(whole, lambda c: c.update(points=[]))},
            "version": {"text": edited(whole, lambda c: c.update(version=2))},
            "bundle": {"text": edited(whole, lambda c: c["run"].update(bundle="0"))},
            "data": {"text": whole, "data": {"y": [0.0] * 40}},
            "seed": {"text": whole, "seed": 8},
            "both": {"text": whole, "receipt": True},
            "period": {"receipt": -5},
        },
    })  # fmt: skip
    same = {"exact": True, "parted": None, "stopped": "steps", "last": STEPS}
    assert answer["replayed"] == [
        {**same, "compared": 4, "equalUntil": STEPS},
        {**same, "compared": 2, "equalUntil": STEPS},
        {**same, "compared": 2, "equalUntil": 20, "parted": 40, "stopped": "stop", "last": 40},
    ]
    assert json.loads(half)["points"] == json.loads(whole)["points"][:3]
    check_messages(answer["messages"])
    theirs = json.loads(answer["receipt"])
    assert theirs["points"] == json.loads(whole)["points"]
    assert theirs["run"] == json.loads(whole)["run"]
    code, err = trainings.replay(answer["receipt"])
    assert code == 0 and "weights are the same bits at 4 points" in err


def check_messages(messages: dict[str, str]) -> None:
    assert "is not the text of a receipt" in messages["damaged"]
    assert "was changed after it was made" in messages["edited"]
    assert "lacks parts of a receipt" in messages["points"]
    assert "version 2" in messages["version"]
    assert "bundle" in messages["bundle"] and "another one" in messages["bundle"]
    assert "`y` is other data" in messages["data"]
    assert "weights differ from those of the receipt at step 0" in messages["seed"]
    assert "exclude each other" in messages["both"]
    assert "`receipt` is true or a whole number above 0, not -5" in messages["period"]
