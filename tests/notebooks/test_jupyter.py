"""Notebooks that a Jupyter kernel executes: `%%wg`, the widget of `fit`, a front end's messages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from adapters import ROOT
from wgcc.cell_magic import CellError, workbench_cell
from wgcc.workbench.address import address_of
from wgcc.workbench.frame import _serve_site

# The cells of one notebook; each test looks at the outputs of some of them.
LINE = """%%wg net B=width rate=0.01 --seed 7
const rate = 0.1
dim B = 8
model Line {
  fc: Linear[1, 1]
  optimizer opt: sgd { lr = rate }
  entry train(x: f32[B, 1], y: f32[B, 1]) -> (loss: f32) {
    loss = mse(fc(x), y)
    minimize loss with opt
    return loss
  }
}
"""
CELLS = {
    "load": "%load_ext wgcc\nimport numpy as np\nwidth = np.int64(4)\nx = np.arange(4.0)[:, None]",
    "compile": LINE,
    "fit": "history = net.fit({'x': x, 'y': 2 * x}, steps=40, every=10)",
    "history": "history",
    "beside": "from wgcc_runtime.notebook import train\n"
    "live = train(net, {'x': x, 'y': 2 * x}, steps=10**9)\nlive",
    "id": "print(live.widget.model_id)",
    "end": "print(live.wait(100).stopped, net.steps_done > 40, live.widget.status['state'])",
    "silent": "_ = net.fit({'x': x, 'y': 2 * x}, steps=10, progress=False)",
    "plain": "import sys\nsys.modules['anywidget'] = None\n"
    "for name in [n for n in sys.modules if n.startswith('wgcc_runtime.notebook')]: "
    "del sys.modules[name]\n"
    "_ = net.fit({'x': x, 'y': 2 * x}, steps=10)",
}
WIDGET = "application/vnd.jupyter.widget-view+json"


class Notebook:
    """A kernel with the cells that it has executed."""

    def __init__(self, client: NotebookClient) -> None:
        self.client = client
        self.cells: dict[str, Any] = {}

    def run(self, source: str) -> Any:
        cell = nbformat.v4.new_code_cell(source)
        self.client.nb.cells.append(cell)
        return self.client.execute_cell(cell, len(self.client.nb.cells) - 1)

    def send(self, comm: str, content: dict[str, Any]) -> None:
        """A message as a front end sends it, by ipywidgets' protocol."""
        data = {"method": "custom", "content": content}
        kernel = self.client.kc
        message = kernel.session.msg("comm_msg", {"comm_id": comm, "data": data})
        kernel.shell_channel.send(message)


@pytest.fixture(scope="module")
def notebook() -> Iterator[Notebook]:
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "runtime_py")])
    client = NotebookClient(nbformat.v4.new_notebook(), timeout=300, kernel_name="python3")
    with client.setup_kernel():
        notebook = Notebook(client)
        for name, source in CELLS.items():
            if name == "end":
                comm = text(notebook.cells["id"]).strip()
                notebook.send(comm, {"kind": "pause"})
                notebook.send(comm, {"kind": "step"})
                notebook.send(comm, {"kind": "stop"})
            notebook.cells[name] = notebook.run(source)
        yield notebook


def text(cell: Any) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


def shown(cell: Any) -> list[dict[str, Any]]:
    return [output["data"] for output in cell.outputs if "data" in output]


def state_of(notebook: Notebook, cell: Any) -> dict[str, Any]:
    """What a front end knows of the widget that a cell shows."""
    (data,) = (data for data in shown(cell) if WIDGET in data)
    state: dict[str, Any] = notebook.client.widget_state[data[WIDGET]["model_id"]]
    return state


def test_a_cell_becomes_a_model(notebook: Notebook) -> None:
    output = text(notebook.cells["compile"])
    assert output.startswith("net = <Line: 2 parameters (8 B); train; on ")


def test_fit_shows_the_widget_with_its_curve(notebook: Notebook) -> None:
    state = state_of(notebook, notebook.cells["fit"])
    assert state["status"]["state"] == "finished" and state["status"]["steps"] == 40
    assert [step for step, _ in state["curve"]] == [10, 20, 30, 40]
    assert state["settings"] == {"rate": pytest.approx(0.01)}
    assert "export default" in state["_esm"] and ".wgcc-training" in state["_css"]
    assert "4 reports" in shown(notebook.cells["history"])[0]["text/html"]


def test_controls_of_the_front_end_reach_a_training_beside_the_kernel(notebook: Notebook) -> None:
    assert WIDGET in shown(notebook.cells["beside"])[0]
    assert text(notebook.cells["end"]) == "callback True stopped\n"


def test_progress_can_be_off(notebook: Notebook) -> None:
    assert shown(notebook.cells["silent"]) == []


def test_without_anywidget_there_is_a_line_of_text(notebook: Notebook) -> None:
    (data,) = shown(notebook.cells["plain"])
    assert set(data) == {"text/plain"} and "loss" in data["text/plain"]


def test_a_cell_is_shown_in_the_workbench(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, because a kernel would write the whole site."""
    written: list[Path] = []

    def write(folder: Path) -> None:
        folder.mkdir()
        (folder / "index.html").write_text("the page")
        written.append(folder)

    monkeypatch.setattr("wgcc.workbench.folder.write_site", write)
    monkeypatch.setattr("wgcc.workbench.frame._serve_site", cache(_serve_site.__wrapped__))
    shell = SimpleNamespace(user_ns={"tall": 900})
    first, second = (workbench_cell(shell, line, "model M {}\n") for line in ("", "tall"))
    # One site for all cells of a process.
    assert len(written) == 1
    with urlopen(first.address.partition("?")[0]) as answer:
        assert answer.read() == b"the page"
    assert first.address.endswith("?embed" + address_of({"model.wg": "model M {}\n"}, "model.wg"))
    assert f'src="{first.address}"' in first._repr_html_()
    assert 'height="900"' in second._repr_html_()
    with pytest.raises(CellError, match="height is `high`, neither a number"):
        workbench_cell(shell, "high", "model M {}\n")


def test_mistakes_are_shown_as_html_without_our_frames(notebook: Notebook) -> None:
    with pytest.raises(CellExecutionError) as raised:
        notebook.run("%%wg\nmodel M {\n  fc: Linear[2, D]\n}\n")
    cell = notebook.client.nb.cells[-1]
    (data,) = shown(cell)
    assert "unknown name" in data["text/html"] or "`D`" in data["text/html"]
    # The line as the notebook counts it, the first of the cell included.
    assert "&lt;text&gt;:3:" in data["text/html"]
    (failure,) = (output for output in cell.outputs if output["output_type"] == "error")
    assert failure["traceback"] == ["the cell was not compiled: 1 error"]
    assert "wgcc/" not in str(raised.value)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("net H", "does not understand `H`"),
        ("net H=many", "H is `many`, neither a number nor the name of one"),
        ("--seed", "--seed needs a value"),
        ("net 'H=1", "cannot read"),
        ("net H=3", "H"),
        ("net opt.speed=0.1", "speed"),
    ],
)
def test_a_wrong_first_line_is_explained(notebook: Notebook, line: str, expected: str) -> None:
    with pytest.raises(CellExecutionError):
        notebook.run(LINE.replace("net B=width rate=0.01 --seed 7", line))
    (data,) = shown(notebook.client.nb.cells[-1])
    assert re.search(re.escape(expected), data["text/html"].replace("&#x27;", "'"))
