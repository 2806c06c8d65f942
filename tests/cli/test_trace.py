"""`wgcc trace`: timelines that follow the rules of Chrome's trace format, and a viewer reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import line_bundle
import line_twin
from adapters import ROOT
from building import build
from cli_runs import run
from web_stacks import run_node

DISPATCHES = 2


def read(path: Path) -> dict[str, Any]:
    trace: dict[str, Any] = json.loads(path.read_text(), parse_constant=pytest.fail)
    check_format(trace["traceEvents"])
    return trace


def check_format(events: list[dict[str, Any]]) -> None:
    """The rules of the "Trace Event Format" for the two kinds of events that wgcc writes."""
    threads: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in events:
        assert event["ph"] in ("X", "M") and isinstance(event["name"], str) and event["name"]
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            assert isinstance(event["args"]["name"], str)
        else:
            assert event["ts"] >= 0 and event["dur"] >= 0 and isinstance(event["cat"], str)
            threads.setdefault((event["pid"], event["tid"]), []).append(event)
    for slices in threads.values():
        check_nesting(slices)


def check_nesting(slices: list[dict[str, Any]]) -> None:
    """Slices of a thread are one inside the other, or one after the other; in nanoseconds."""
    around: list[int] = []
    for event in slices:
        begin, length = round(1000 * event["ts"]), round(1000 * event["dur"])
        while around and around[-1] <= begin:
            around.pop()
        assert not around or begin + length <= around[-1], event
        around.append(begin + length)


def dispatches(trace: dict[str, Any], process: int = 1) -> list[dict[str, Any]]:
    return [
        event
        for event in trace["traceEvents"]
        if (event["ph"], event["pid"], event["tid"]) == ("X", process, DISPATCHES)
    ]


def test_a_gpu_step(tmp_path: Path, adapter: str, capsys: pytest.CaptureFixture[str]) -> None:
    bundle, file = line_bundle.write_bundle(tmp_path / "line"), tmp_path / "trace.json"
    code, _, error = run(capsys, "trace", str(bundle), "-o", str(file), "--device", adapter)
    assert code == 0, error
    slices = dispatches(read(file))
    assert [event["args"]["kernel"] for event in slices][1:] == ["gradient", "update"]
    assert slices[0]["args"]["line"] == "line.wg:1" and slices[0]["args"]["bytes"] > 0
    assert all(event["args"]["predicted us"] > 0 for event in slices)


def test_slices_add_up_and_a_viewer_reads_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = build(ROOT / "examples" / "chargpt" / "model.wg", tmp_path / "gpt")
    file = tmp_path / "trace.json"
    options = ("--device", "wasm", "--repeat", "1", "--like", "M2")
    assert run(capsys, "trace", str(bundle), "-o", str(file), *options)[0] == 0
    trace = read(file)
    slices = dispatches(trace)
    assert {"blocks.0.attn", "blocks.1.attn backward"} <= {e["args"]["place"] for e in slices}
    total = sum(event["args"]["measured us"] for event in slices)
    # Times are rounded to nanoseconds.
    assert slices[-1]["ts"] + slices[-1]["dur"] == pytest.approx(total, abs=1e-3 * len(slices))
    for event in dispatches(trace, process=2):
        assert event["dur"] == pytest.approx(event["args"]["predicted us"], abs=2e-3)
    seen = run_node("speedscope.mjs", str(file))
    assert not [text for text in seen["problems"] if text.startswith("error")]
    profiles = {profile["name"]: profile for profile in seen["saved"]["profiles"]}
    (layers,) = (p for name, p in profiles.items() if "measured" in name and "layers" in name)
    assert layers["endValue"] == pytest.approx(total, abs=1e-3 * len(slices))
    frames = [frame["name"] for frame in seen["saved"]["shared"]["frames"]]
    assert {"forward", "backward", "optimizer", "blocks.0.mlp", "blocks.1.attn.qkv"} <= set(frames)


def test_rounds_of_loops_are_slices_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle, file = build(ROOT / "tests" / "golden" / "loops.wg", tmp_path / "b"), tmp_path / "t"
    entries = json.loads((bundle / "plan.json").read_text())["entries"]
    name = next(name for name, entry in entries.items() if entry.get("repeats"))
    options = ("-o", str(file), "--entry", name, "--device", "wasm", "--repeat", "1")
    assert run(capsys, "trace", str(bundle), *options)[0] == 0
    slices = dispatches(read(file))
    rounds = [event["args"]["rounds"] for event in slices if "rounds" in event["args"]]
    assert len(slices) > len(entries[name]["dispatches"]) and any("2 of" in r for r in rounds)
    monkeypatch.setattr("wgcc.cli.commands.trace.events.MOST_DISPATCHES", 1)
    assert run(capsys, "trace", str(bundle), *options)[0] == 0
    assert len(dispatches(read(file))) == len(entries[name]["dispatches"])


def test_bad_input_is_refused_before_measuring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = line_twin.write_bundle(tmp_path / "line")
    code, _, error = run(capsys, "trace", str(bundle), "--entry", "fly")
    assert code == 1 and "there is no entry fly; there are: train" in error
    (tmp_path / "empty").mkdir()
    assert run(capsys, "trace", str(tmp_path / "empty"))[0] == 1
    nowhere = tmp_path / "file.txt" / "trace.json"
    (tmp_path / "file.txt").write_text("")
    code, _, error = run(capsys, "trace", str(bundle), "-o", str(nowhere))
    assert code == 1 and "measuring" not in error
