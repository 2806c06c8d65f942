"""Which checkpoints a model accepts: those of the same model and optimizers; errors for others say
what differs and what to do. Python and JavaScript decide alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import wgcc_runtime
from line_training import refused
from web_stacks import build_web, run_job, to_base64
from wgcc.cli.group import cli
from wgcc_runtime import Model, WgccWarning
from wgcc_runtime.weights import load_weights, save_weights

TEXT = """\
dim B = 4
model Net {{
  seed = 1
  f: Linear[2, 3]
  optimizer opt: {optimizer}
  entry train(x: f32[B, 2], y: f32[B, 3]) -> (loss: f32) {{
    loss = mse(x |> f |> {through}, y)
    minimize loss with opt
    return loss
  }}
}}
"""
MORE = """\
  entry more(x: f32[B, 2]) -> (loss: f32) {
    loss = mean(x |> f)
    minimize loss with more
    return loss
  }
"""
SGD, ADAM = "sgd {{ lr = {lr} }}", "adam {{ lr = {lr} }}"
BATCH = {"x": np.ones((4, 2), np.float32), "y": np.zeros((4, 3), np.float32)}


def text(optimizer: str = ADAM, lr: float = 0.1, through: str = "tanh") -> str:
    return TEXT.format(optimizer=optimizer.format(lr=lr), through=through)


TEXTS = {
    "adam": text(),
    "slower": text(lr=0.01),
    "sgd": text(SGD),
    "momentum": text(SGD.replace(" }}", "; momentum = 0.9 }}")),
    "adamw": text(ADAM.replace("adam", "adamw")),
    "renamed": text().replace("Net", "Other"),
    "relu": text(through="relu"),
    "two": text().replace("  entry", f"  optimizer more: sgd {{ lr = 0.1 }}\n{MORE}  entry"),
}
# What loading each of them into a model with `adam` gives: the code, and part of the message.
REFUSED = {
    "sgd": "`opt` was sgd and is adam now",
    "momentum": "`opt` was sgd and is adam now",
    "adamw": "`opt` was adamw and is adam now",
    "renamed": "is of the model `Other`; this is `Net`",
    "two": "`more` was sgd and is absent now",
}
TAKEN = {"adam": 0, "slower": 1, "relu": 1}
# Impossible facts, which replace the true ones in the file's metadata.
IMPOSSIBLE: dict[str, Any] = {
    "step": {"steps": {"train": 10**30}},
    "step of a double": {"steps": {"train": 2**53}},
    "position": {"data": {"position": 10**30, "seed": 0}},
    "seed": {"data": {"position": 0, "seed": 10**30}},
    "seed of 33 bits": {"data": {"position": 0, "seed": 2**32}},
    "optimizers in a list": {"optimizer": ["adam"]},
}


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("identity")
    for name, source in TEXTS.items():
        (folder / f"{name}.wg").write_text(source, encoding="utf-8")
    return {name: build_web(folder / f"{name}.wg", folder / name) for name in TEXTS}


@pytest.fixture(scope="module")
def checkpoints(bundles: dict[str, Path]) -> dict[str, Path]:
    """Of each model, after two steps; and some of `adam` with other facts."""
    found = {}
    for name, bundle in bundles.items():
        found[name] = bundle.parent / f"{name}.safetensors"
        with wgcc_runtime.load(bundle, device="lavapipe") as model:
            for _ in range(2):
                model.train(**BATCH)
            model.save(found[name])
    arrays, facts = load_weights(found["adam"])
    del facts["crc32"]
    for name, change in IMPOSSIBLE.items():
        found[name] = found["adam"].with_name(f"{name}.safetensors")
        save_weights(found[name], arrays, {**facts, **change})
    found["old"] = found["adam"].with_name("old.safetensors")
    save_weights(found["old"], arrays, {"model": "Net", "steps": {"train": 2}})
    arrays, facts = load_weights(found["sgd"])
    found["old sgd"] = found["adam"].with_name("old sgd.safetensors")
    save_weights(found["old sgd"], arrays, {"model": "Net", "steps": {"train": 2}})
    return found


@pytest.fixture
def model(bundles: dict[str, Path]) -> Any:
    with wgcc_runtime.load(bundles["adam"], device="lavapipe") as found:
        yield found


@pytest.mark.parametrize("name", REFUSED)
def test_another_model_or_optimizer_is_refused(
    model: Model, checkpoints: dict[str, Path], name: str
) -> None:
    before = model.params()
    path = checkpoints[name]
    with refused("mismatch", REFUSED[name]) as caught:
        model.load(path)
    assert f"model.load({str(path)!r}, weights_only=True)" in str(caught.value)
    assert f"wgcc train --weights {path}" in str(caught.value)
    with refused("mismatch"):
        model.fit({**BATCH}, steps=5, resume=path)
    assert model.steps_done == 0
    assert all((model.params()[key] == before[key]).all() for key in before)


@pytest.mark.parametrize("name", TAKEN)
def test_settings_and_text_may_change(
    model: Model, checkpoints: dict[str, Path], name: str, recwarn: pytest.WarningsRecorder
) -> None:
    found = model.load(checkpoints[name])
    assert model.steps_done == int(model.state()["opt/opt/step"]) == 2
    assert [str(warning.message) for warning in recwarn] == list(found.notes)
    assert len(found.notes) == TAKEN[name]
    assert all("another version of the source of `Net`" in note for note in found.notes)


def test_weights_of_another_model_reset_the_optimizer(
    bundles: dict[str, Path], model: Model, checkpoints: dict[str, Path]
) -> None:
    """The first step has the size of Adam's first step, no matter what trained the weights."""
    for name in [*REFUSED, "old sgd"]:
        model.load(checkpoints[name], weights_only=True)
        weights = load_weights(checkpoints[name])[0]
        np.testing.assert_array_equal(model.params()["f.w"], weights["f.w"])
        assert (model.steps_done, int(model.state()["opt/opt/step"])) == (0, 0)
        model.train(**BATCH)
        moved = np.abs(model.params()["f.w"] - weights["f.w"])
        np.testing.assert_allclose(moved, 0.1, rtol=1e-3)
        with wgcc_runtime.load(
            bundles["adam"], device="lavapipe", weights=checkpoints[name]
        ) as other:
            other.train(**BATCH)
            np.testing.assert_array_equal(other.params()["f.w"], model.params()["f.w"])


def test_checkpoints_from_before_optimizers_were_named(
    model: Model, checkpoints: dict[str, Path]
) -> None:
    with pytest.warns(WgccWarning, match="does not record its kind of optimizer"):
        model.load(checkpoints["old"])
    assert model.steps_done == 2
    with refused("mismatch", "it lacks `opt/opt/exp_avg/f.b`"):
        model.load(checkpoints["old sgd"])


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_facts_are_refused(
    model: Model, checkpoints: dict[str, Path], name: str
) -> None:
    with refused("weights", "impossible|does not know"):
        model.load(checkpoints[name])


@pytest.mark.parametrize("stack", ["deno", "node"])
def test_javascript_decides_alike(
    bundles: dict[str, Path], checkpoints: dict[str, Path], stack: str
) -> None:
    files = {name: to_base64(path.read_bytes()) for name, path in checkpoints.items()}
    seen = run_job(stack, bundles["adam"], "checkpoints", {"files": files})
    for name in [*REFUSED, "old sgd"]:
        assert seen[name]["code"] == "mismatch", (name, seen[name])
        assert "restore(bytes, {weightsOnly: true})" in seen[name]["text"]
        assert seen[name]["weights"] == {"steps": 0, "step": 0}
    for name, notes in {**TAKEN, "old": 1}.items():
        assert (seen[name]["steps"], len(seen[name]["notes"])) == (2, notes), (name, seen[name])
    for name in IMPOSSIBLE:
        assert seen[name]["code"] == "weights", (name, seen[name])


def test_train_from_weights_by_command(
    bundles: dict[str, Path], checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    np.savez(tmp_path / "data.npz", **BATCH)
    out = tmp_path / "out.safetensors"
    out.write_bytes(checkpoints["sgd"].read_bytes())
    options = [str(bundles["adam"]), str(tmp_path / "data.npz"), "--steps", "3", "--out", str(out)]
    result = CliRunner().invoke(cli, ["train", *options, "--device", "lavapipe", "--resume"])
    assert result.exit_code == 1
    assert f"error[mismatch]: {out} was saved with other optimizers" in result.stderr
    assert f"wgcc train --weights {out}" in result.stderr
    weights = ["--weights", str(out), "--device", "lavapipe"]
    result = CliRunner().invoke(cli, ["train", *options, *weights])
    assert result.exit_code == 0, result.stderr
    assert load_weights(out)[1]["optimizer"] == {"opt": "adam"}
    assert load_weights(out)[1]["steps"] == {"train": 3}
