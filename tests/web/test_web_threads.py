"""Threads of the twin in pages of hosts that send no headers, such as most static ones."""

from __future__ import annotations

from typing import Any

import pytest

from web_stacks import build_web, run_node

MODEL = """
dim B = 64, H = 256

model Wide {
  hidden: Linear[H, H]
  out: Linear[H, 1]
  optimizer opt: sgd { lr = 1e-2 }
  entry train(x: f32[B, H], y: f32[B, 1]) -> (loss: f32) {
    loss = mse(x |> hidden |> relu |> out, y)
    minimize loss with opt
    return loss
  }
}
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("threads")
    (folder / "model.wg").write_text(MODEL, encoding="utf-8")
    return run_node("threads_anywhere.mjs", str(build_web(folder / "model.wg", folder / "bundle")))


def test_a_page_says_why_it_has_one_thread_and_offers_more(seen: Any) -> None:
    before = seen["before"]
    assert (before["threads"], before["threadLimit"]) == (1, "not-isolated")
    assert before["button"] == "Use more threads"


def test_the_service_worker_gives_it_threads_with_the_same_bits(seen: Any) -> None:
    isolated = seen["isolated"]
    assert (isolated["threads"], isolated["threadLimit"]) == (4, "enough")
    assert "WebAssembly, 4 threads" in isolated["status"]
    assert isolated["weights"] == seen["before"]["weights"]


def test_threads_and_an_offline_copy_go_together(seen: Any) -> None:
    assert seen["offline"]["threads"] == 4
    assert seen["offlineButton"] == "Forget offline copy"
    assert (seen["after"]["threads"], seen["after"]["button"]) == (1, "Use more threads")
    expected = ("Failed to load resource", "No available adapters")
    assert [text for text in seen["problems"] if not any(map(text.__contains__, expected))] == []


def test_frames_of_other_pages_have_threads(seen: Any) -> None:
    assert seen["framed"]["threads"] == 4
