"""`wgcc train --receipt` and `wgcc replay`: the same bits, and where they are not, the step."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import wgcc_runtime
from adapters import ROOT
from building import TWIN, build
from cli_runs import run
from wgcc_runtime.receipts import read_receipt, receipt_text
from wgcc_runtime.strict_json import plan_digest

DIGITS = ROOT / "examples" / "digits"
PICTURES = str(DIGITS / "train.safetensors")
STEPS = 60


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(build(DIGITS / "model.wg", tmp_path_factory.mktemp("receipts") / "digits"))


@pytest.fixture
def train(
    bundle: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Any:
    monkeypatch.chdir(tmp_path)

    def train(*more: str, steps: int = STEPS, device: str = TWIN) -> Path:
        words = ["train", bundle, PICTURES, "--steps", str(steps), "--device", device]
        code, _, err = run(
            capsys, *words, "--receipt", "run.json", "--out", "end.safetensors", *more
        )
        assert code == 0, err
        return tmp_path / "run.json"

    return train


@pytest.fixture
def replay(bundle: str, capsys: pytest.CaptureFixture[str]) -> Any:
    def replay(receipt: Path, *more: str, data: str = PICTURES) -> tuple[int, dict[str, Any], str]:
        code, out, err = run(capsys, "replay", str(receipt), bundle, data, "--json", *more)
        return code, json.loads(out) if out else {}, err

    return replay


def edited(receipt: Path, change: Any) -> Path:
    """Changed, with a digest that is right again, as by somebody who means to deceive."""
    content = json.loads(receipt.read_text())
    change(content)
    content["sha256"] = plan_digest(content)
    receipt.write_text(json.dumps(content))
    return receipt


def test_the_same_bits_come_again(train: Any, replay: Any) -> None:
    receipt = train("--receipt-every", "20", "--seed", "5")
    points = [point.step for point in read_receipt(receipt).points]
    assert points == [0, 20, 40, 60]
    code, result, _ = replay(receipt)
    assert code == 0
    assert result == {"exact": True, "compared": 4, "equal_until": 60, "parted": None}


def test_weights_that_early_stopping_returns_to_come_again(
    bundle: str, replay: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "end.safetensors")
    words = ["train", bundle, PICTURES, "--epochs", "30", "--patience", "1", "--json"]
    words += ["--receipt", str(tmp_path / "run.json"), "--device", TWIN, "--out", out]
    code, result, err = run(capsys, *words, "--eval", str(DIGITS / "test.safetensors"))
    assert code == 0, err
    best, last = json.loads(result)["steps"], json.loads(result)["step"]
    assert best < last < 660 and f"no lower loss since step {best}: these are its weights" in err
    assert read_receipt(tmp_path / "run.json").points[-1].step == best
    code, replayed, _ = replay(tmp_path / "run.json")
    assert (code, replayed["equal_until"]) == (0, best)
    assert run(capsys, *words, "--steps", "3")[0] == 2


@pytest.mark.parametrize("option", ["--epochs", "--patience", "--captured", "--receipt"])
def test_options_of_one_process_are_refused_for_several(
    bundle: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "train", bundle, PICTURES, option, "3", "--workers", "2")
    assert code == 2 and f"{option} is for a single process, not for --workers" in err


def test_it_says_between_which_steps_weights_depart(train: Any, replay: Any) -> None:
    def forge(content: dict[str, Any]) -> None:
        content["points"][2]["weights"] = "0" * 64

    code, result, err = replay(edited(train("--receipt-every", "20"), forge))
    assert (code, result["equal_until"], result["parted"]) == (3, 20, 40)
    assert "weights depart between step 20, where they are equal, and 40" in err


def test_other_seeds_depart_at_the_start(train: Any, replay: Any) -> None:
    def forge(content: dict[str, Any]) -> None:
        content["run"]["seed"] = 6

    code, result, err = replay(edited(train("--seed", "5"), forge))
    assert (code, result["parted"]) == (3, 0)
    assert "--weights or --from" in err


def test_a_training_that_went_on_is_one_receipt(train: Any, replay: Any, tmp_path: Path) -> None:
    train("--receipt-every", "20", steps=40)
    half = tmp_path / "half.safetensors"
    half.write_bytes((tmp_path / "end.safetensors").read_bytes())
    receipt = train("--receipt-every", "20", "--resume", steps=80)
    assert [point.step for point in read_receipt(receipt).points] == [0, 20, 40, 60, 80]
    assert replay(receipt)[:2] == (
        0, {"exact": True, "compared": 5, "equal_until": 80, "parted": None},
    )  # fmt: skip
    code, result, _ = replay(receipt, "--from", str(half))
    assert (code, result["compared"], result["equal_until"]) == (0, 3, 80)


def test_a_gpus_receipt_is_compared_by_its_losses(train: Any, replay: Any) -> None:
    receipt = train(device="lavapipe")
    assert not read_receipt(receipt).exact
    code, result, err = replay(receipt)
    assert (code, result["exact"], result["equal_until"]) == (0, False, STEPS)
    assert "comparing losses" in err

    def forge(content: dict[str, Any]) -> None:
        content["points"][3]["loss"] *= 1.1

    assert replay(edited(receipt, forge))[0] == 3


def test_a_twins_receipt_can_be_replayed_on_a_gpu(train: Any, replay: Any) -> None:
    code, result, _ = replay(train(), "--device", "lavapipe")
    assert (code, result["exact"], result["equal_until"]) == (0, False, STEPS)


def test_other_bundles_and_data_are_refused(
    train: Any, replay: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    receipt = train()
    code, _, err = replay(receipt, data=str(DIGITS / "test.safetensors"))
    assert code == 1 and "the receipt is of other data: `image` is u8 23040 " in err
    other = str(build(DIGITS / "model.wg", tmp_path / "other", B=32))
    code, _, err = run(capsys, "replay", str(receipt), other, PICTURES)
    assert code == 1 and "the receipt is of another bundle" in err


def test_options_of_reading_are_in_the_receipt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(3)
    rows = [f"{a:.3f};{b:.3f};{'yes' if a > b else 'no'}" for a, b in random.normal(size=(90, 2))]
    Path("points.csv").write_text("\n".join(["left;right;larger", *rows]) + "\n")
    Path("model.wg").write_text(MODEL)
    build(Path("model.wg"), Path("bundle"))
    words = ["bundle", "points.csv"]
    train = ["--target", "larger", "--scale", "--held-out", "0.2", "--steps", "30"]
    code, _, err = run(capsys, "train", *words, *train, "--device", TWIN, "--receipt", "run.json")
    assert code == 0, err
    made = read_receipt(Path("run.json"))
    assert list(made.run.reading) == ["--target=larger", "--scale"] and made.run.held_out == 0.2
    code, _, err = run(capsys, "replay", "run.json", *words)
    assert code == 0 and "weights are the same bits" in err


MODEL = """
dim B = 8
model Larger {
  fc: Linear[2, 2]
  optimizer opt: adam { lr = 0.05 }
  entry train(x: f32[B, 2], y: i32[B]) -> (loss: f32) {
    loss = cross_entropy(fc(x), y)
    minimize loss with opt
    return loss
  }
  entry eval(x: f32[B, 2], y: i32[B]) -> (loss: f32) = cross_entropy(fc(x), y)
}
"""


def test_damaged_receipts_are_refused_without_a_traceback(train: Any, replay: Any) -> None:
    receipt = train()
    whole, random = receipt.read_bytes(), Random(1)
    assert receipt_text(read_receipt(receipt)).encode() == whole
    for _ in range(60):
        start = random.randrange(len(whole))
        damage = random.choice((b"", b"\0", b"9", b'"', b"]", whole[:7]))
        receipt.write_bytes(whole[:start] + damage + whole[start + random.randrange(1, 40) :])
        code, _, err = replay(receipt)
        assert code == 1 and err.startswith("error[receipt]"), err


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("points", []),
        ("points", [{"step": 1}]),
        ("points", [{"step": 2, "weights": "0"}, {"step": 1, "weights": "0"}]),
        ("run", {}),
        ("version", 2),
        ("format", "another"),
    ],
)
def test_receipts_of_another_form_are_refused(
    train: Any, replay: Any, key: str, value: Any
) -> None:
    code, _, err = replay(edited(train(), lambda content: content.update({key: value})))
    assert code == 1 and "receipt" in err


@pytest.mark.parametrize(
    ("name", "value"), [("every", 0), ("seed", "x"), ("reading", ["--surprise"]), ("data", [])]
)
def test_runs_of_another_form_are_refused(train: Any, replay: Any, name: str, value: Any) -> None:
    code, _, err = replay(edited(train(), lambda content: content["run"].update({name: value})))
    assert code == 1 and err.startswith("error[receipt]")


def test_a_receipt_that_cannot_be_written_is_an_error_before_training(
    train: Any, bundle: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    receipt = str(tmp_path / "file" / "run.json")
    words = ["train", bundle, PICTURES, "--device", TWIN, "--receipt", receipt]
    code, _, err = run(capsys, *words)
    assert code == 1 and "receipt" in err and "step" not in err
    code, _, err = run(capsys, "train", bundle, PICTURES, "--receipt-every", "3")
    assert code == 2 and "--receipt FILE" in err


def test_the_receipt_is_there_when_training_was_stopped(bundle: str, tmp_path: Path) -> None:
    """What was done can be replayed."""
    from wgcc_runtime.receipts import ReceiptWriter, run_of
    from wgcc_runtime.weights import load_weights

    arrays, _ = load_weights(PICTURES)
    model = wgcc_runtime.load(bundle, device=TWIN)
    writer = ReceiptWriter(
        tmp_path / "run.json", run_of(model, Path(bundle), "train", arrays), period=10
    )
    model.fit(
        arrays, steps=500, callbacks=[writer], progress=False,
        stop=lambda: model.progress.step("train") >= 30,
    )  # fmt: skip
    points = read_receipt(tmp_path / "run.json").points
    assert points[-1].step == model.progress.step("train") >= 30
