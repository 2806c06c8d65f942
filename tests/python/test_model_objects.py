"""What a model shows and how it is copied: summaries, parameters and gradients by name, pickles."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import line_twin
import wgcc
import wgcc_runtime
from line_training import assert_same, data, everything
from refusal import refusal
from wgcc_runtime import Model

NET = """dim B = 4
layer Block[D] {
  fc: Linear[D, D]
  fn forward(x: f32[.., D]) -> f32[.., D] = tanh(fc(x))
}
model Net {
  blocks[2]: Block[3]
  frozen head: Linear[3, 1]
  optimizer opt: sgd { lr = 0.5 }
  entry train(x: f32[B, 3], y: f32[B, 1]) -> (loss: f32) {
    h = x
    for block in blocks { h = block(h) }
    loss = mse(head(h), y)
    minimize loss with opt
    return loss
  }
  /// The value of each row.
  entry predict(x: f32[B, 3]) -> (y: f32[B, 1]) {
    h = x
    for block in blocks { h = block(h) }
    return head(h)
  }
}
"""
BATCH = {
    "x": np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3),
    "y": np.ones((4, 1), np.float32),
}


@pytest.fixture
def net() -> Model:
    return wgcc.compile(NET, device="wasm")


def test_summaries(net: Model) -> None:
    assert repr(net).startswith("<Net: 28 parameters (112 B); train, predict; on WebAssembly")
    text = net.summary()
    assert "train(x: f32[B=4, 3], y: f32[B=4, 1]) -> (loss: f32)" in text
    assert "blocks.0.fc  12          48 B   w f32[3, 3], b f32[3]" in text
    assert "head         4           16 B   w f32[3, 1] frozen, b f32[1] frozen" in text
    net.train(**BATCH)
    assert ", 1 steps trained" in net.summary()
    page = net._repr_html_()
    assert "<td" in page and "blocks.1.fc" in page and "-&gt;" in page
    console = Console(file=io.StringIO(), width=140)
    console.print(net)
    assert "blocks.1.fc" in console.file.getvalue()  # type: ignore[attr-defined]
    net.close()
    assert "closed" in repr(net)


def test_many_layers_are_cut() -> None:
    text = NET.replace("blocks[2]", "blocks[70]")
    assert "… and 11 more" in wgcc.compile(text, device="wasm").summary()


def test_parameters_by_name(net: Model) -> None:
    parameters = net.parameters
    assert list(parameters) == list(net.params()) and len(parameters) == 6
    parameters["blocks.0.fc.w"] = np.eye(3)
    assert np.array_equal(parameters["blocks.0.fc.w"], np.eye(3))
    parameters["blocks.1.fc.b"] += 1
    assert "blocks.1.fc.b" in parameters and "blocks.9.fc.b" not in parameters
    with pytest.raises(wgcc_runtime.WgccError, match=r"did you mean `blocks\.0\.fc\.w`"):
        parameters["blocks.0.fc.W"]
    with pytest.raises(wgcc_runtime.WgccError, match=r"`blocks\.0\.fc\.b` has shape \[2\]"):
        parameters["blocks.0.fc.b"] = np.zeros(2)
    with pytest.raises(wgcc_runtime.WgccError, match="cannot be removed"):
        del parameters["blocks.0.fc.b"]
    assert "blocks.0.fc.w: f32[3, 3]" in repr(parameters)


def test_gradients_by_name(net: Model) -> None:
    """SGD subtracts the rate times the gradient."""
    before = net.params()
    gradients = net.gradients(BATCH)
    np.testing.assert_array_equal(net.gradients(**BATCH), gradients)
    with pytest.raises(wgcc_runtime.WgccError, match="inputs are a dict or named, not both"):
        net.gradients(BATCH, **BATCH)
    assert set(dict(gradients)) == {n for n in before if n.startswith("blocks.")}
    net.apply(gradients)
    for name, gradient in gradients.items():
        assert np.abs(gradient).max() > 0
        np.testing.assert_allclose(
            net.params()[name], before[name] - 0.5 * gradient, rtol=1e-5, atol=1e-6
        )
    doubled = 2 * gradients
    np.testing.assert_array_equal(doubled["blocks.0.fc.w"], 2 * gradients["blocks.0.fc.w"])
    with pytest.raises(wgcc_runtime.WgccError, match=r"no gradient of `head\.w`"):
        gradients["head.w"]
    with pytest.raises(wgcc_runtime.WgccError, match="no gradient"):
        gradients[:3]["blocks.0.fc.w"]
    with pytest.raises(wgcc_runtime.WgccError, match="name of an entry is a str, not dict"):
        net.gradients(BATCH, BATCH)  # type: ignore[arg-type]


def test_gradients_of_parameters_that_an_optimizer_leaves_out() -> None:
    text = NET.replace("minimize loss with opt", 'minimize loss with opt over "blocks.1.*"')
    model = wgcc.compile(text, device="wasm")
    before, gradients = model.params(), model.gradients(BATCH)
    assert set(gradients.by_name()) == {"blocks.1.fc.w", "blocks.1.fc.b"}
    model.apply(gradients)
    np.testing.assert_allclose(
        model.params()["blocks.1.fc.w"],
        before["blocks.1.fc.w"] - 0.5 * gradients["blocks.1.fc.w"],
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.parametrize("how", ["pickle", "copy", "deepcopy"])
def test_copies(net: Model, how: str) -> None:
    net.fit(BATCH, steps=5)
    makers = {
        "pickle": lambda model: pickle.loads(pickle.dumps(model)),
        "copy": copy.copy,
        "deepcopy": copy.deepcopy,
    }
    other = makers[how](net)
    assert type(other) is type(net) and other.steps_done == 5
    assert_same(everything(other), everything(net))
    losses = [model.fit(BATCH, steps=5).losses for model in (net, other)]
    assert losses[0] == losses[1]
    other.reset()
    assert other.steps_done == 0 and net.steps_done == 10


def test_a_copy_of_a_bundle_needs_no_files(tmp_path: Path, target: str) -> None:
    bundle = line_twin.write_bundle(tmp_path / "bundle")
    model = wgcc_runtime.load(bundle, device=target)
    model.fit(data(), steps=10)
    stored = pickle.dumps(model)
    for path in sorted(bundle.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    other = pickle.loads(stored)
    assert other.device_name == model.device_name
    assert_same(everything(other), everything(model))


def test_entries_are_methods_with_signatures(net: Model) -> None:
    assert str(inspect.signature(net.predict)).startswith("(x: 'f32[4, 3]')")
    shown = "predict(x: f32[B=4, 3]) -> (y: f32[B=4, 1])"
    assert net.predict.__name__ == "predict"
    assert net.predict.__doc__ == f"The value of each row.\n\n{shown}"
    keyword = "model M { entry run(class: f32[2]) -> (y: f32[2]) = class + 1.0 }"
    odd = wgcc.compile(keyword, device="wasm")
    assert str(inspect.signature(odd.run)).startswith("(**inputs)")
    assert odd.run(**{"class": [1.0, 2.0]})["y"].tolist() == [2.0, 3.0]
    assert np.array_equal(net.predict(BATCH["x"])["y"], net.predict(x=BATCH["x"])["y"])
    assert refusal(lambda: net.predict(1, 2)).message == "`predict` was given 2 inputs; it takes x"
    assert "the input `x` twice" in refusal(lambda: net.predict(BATCH["x"], x=1)).message
    names = [*inspect.signature(net.fit).parameters]
    assert names[:4] == ["batches", "y", "steps", "epochs"] and "patience" in names
    assert {"train", "predict", "fit", "parameters"} <= set(dir(net))
    assert not [name for name in dir(net) if name.startswith("_")]


def test_public_names_of_the_runtime() -> None:
    assert set(dir(wgcc_runtime)) == {*wgcc_runtime.__all__, "__version__"}
