"""The line that `fit` shows: on a terminal and in a notebook, and nowhere else."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

import wgcc
from wgcc_runtime import Model

TEXT = """dim B = 4
model Net {
  l: Linear[2, 1]
  optimizer opt: sgd { lr = 0.1 }
  entry train(x: f32[B, 2], y: f32[B, 1]) -> (loss: f32) {
    loss = mse(l(x), y)
    minimize loss with opt
    return loss
  }
}
"""
X = np.random.default_rng(0).normal(size=(10, 2)).astype(np.float32)
Y = X.sum(axis=1)


@pytest.fixture
def model() -> Model:
    return wgcc.compile(TEXT, device="wasm")


def test_progress_is_silent_in_pipes(model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    model.fit(X, Y, steps=10)
    assert capsys.readouterr() == ("", "")
    model.fit(X, Y, steps=10, progress=True)
    out, err = capsys.readouterr()
    assert out == "" and "20/20  loss" in err


def test_progress_of_epochs_and_unknown_lengths(
    model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    model.fit(X, Y, epochs=5, progress=True)
    assert "10/10  loss" in capsys.readouterr().err
    model.fit(({"x": X[:4], "y": Y[:4, None]} for _ in range(10)), progress=True)
    err = capsys.readouterr().err
    assert "20  loss" in err and "20/" not in err and "eta" not in err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    model.fit(X, Y, steps=10, progress=False)
    assert terminal.getvalue() == ""
    model.fit(X, Y, steps=10)
    assert "20/20  loss" in terminal.getvalue()


def test_progress_without_rich(
    model: Model, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "rich.live", None)
    model.fit(X, Y, steps=20, progress=True)
    err = capsys.readouterr().err
    assert err.count("\r") == 2 and "20/20  loss" in err and err.endswith("\n")


class Notebook:
    """As the module IPython in a kernel: it remembers what is displayed."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.kernel = self.display = self

    def get_ipython(self) -> Notebook:
        return self

    def __call__(self, data: dict[str, str], raw: bool, display_id: bool) -> Notebook:
        self.shown.append(data["text/plain"])
        return self

    def update(self, data: dict[str, str], raw: bool) -> None:
        self.shown[-1] = data["text/plain"]


def test_progress_in_a_notebook_is_one_output(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = Notebook()
    monkeypatch.setitem(sys.modules, "wgcc_runtime.notebook.live", None)  # as without anywidget
    monkeypatch.setitem(sys.modules, "IPython", notebook)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)  # type: ignore[arg-type]
    model.fit(X, Y, steps=20)
    assert len(notebook.shown) == 1 and "20/20  loss" in notebook.shown[0]
