"""The WebAssembly twin of a bundle in Node, Deno, Chromium and Firefox, with the same bits."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import line_bundle
import line_twin
from web_stacks import JOBS, add_web_files, build_web, run_job, run_node, tool
from wgcc.cli.commands.verify.stacks import StackError, _program

STACKS = ["node", "deno", "chrome", "firefox"]
SEEN: dict[str, Any] = {}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return add_web_files(line_twin.write_bundle(tmp_path_factory.mktemp("twin") / "line"))


def batch(step: int) -> tuple[Any, Any]:
    x = np.sin(np.arange(32) + step).astype(np.float32).reshape(8, 4)
    return x, np.cos(3 * np.arange(8) + step).astype(np.float32)


def expected() -> tuple[list[float], Any]:
    model = line_bundle.Reference()
    losses = [model.train(*batch(step)) for step in range(60)]
    return losses[19::20], model.w


@pytest.mark.parametrize("stack", STACKS)
def test_twin(stack: str, bundle: Path) -> None:
    threads = [1, 2, 3]
    gpu = stack in ("node", "chrome")
    seen = run_job(stack, bundle, "wasm", {"threads": threads, "gpu": gpu})
    losses, w = expected()
    for count, run in zip(threads, seen["runs"], strict=True):
        check_run(run, count, losses, w)
    assert len({run["bits"] for run in seen["runs"]}) == 1
    SEEN[stack] = seen["runs"][0]["bits"]
    assert len(set(SEEN.values())) == 1, "the bits differ between engines"
    check_choices(seen["chosen"], gpu)
    check_faults(seen["faults"])
    check_refusals(seen["refused"])


def check_run(run: dict[str, Any], threads: int, losses: list[float], w: Any) -> None:
    wanted = {"name": "WebAssembly", "kind": "wasm", "profile": "wasm"}
    wanted |= {"threads": threads, "threadLimit": "asked"}
    assert run["adapter"] == wanted
    assert run["stages"] == ["weights", "kernels"]
    np.testing.assert_allclose(run["losses"], losses, rtol=1e-4)
    np.testing.assert_allclose(run["p"], batch(3)[0] @ w, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(run["rows"], [w[3], 0, w[0]], rtol=1e-4)
    assert run["nan"].startswith("nan: `train` step 61: `loss` is not finite; it first appears in")
    assert "kernel gradient, line.wg:2" in run["nan"]
    assert run["isUndone"] and run["isRestored"] and run["isKept"]
    assert run["method"] == "calls"
    assert run["times"] == [["predict", True], ["gradient", True], ["update", True]]
    assert run["steps"] == 60
    assert run["closed"] == "closed: the model was disposed"


def check_choices(chosen: dict[str, Any], gpu: bool) -> None:
    """The adapters here are software, which is never chosen if there is a twin."""
    assert (chosen["unasked"], chosen["wasm"]) == ("wasm", "wasm")
    if gpu:
        assert (chosen["gpu"], chosen["profile"]) == ("webgpu", "webgpu")
        first, on_twin, on_gpu = chosen["moved"]
        assert first > 0
        assert abs(on_twin - on_gpu) < 1e-5


def check_faults(faults: dict[str, Any]) -> None:
    lost = "device-lost: the WebAssembly twin failed: "
    assert faults["trap"].startswith(lost) and faults["after"] == faults["trap"]
    assert faults["counted"] <= 9
    assert faults["reason"] == "unknown"
    assert faults["isSame"]
    # A step that fails each time is not tried for ever.
    assert faults["trapTwice"]["message"].startswith(lost)
    assert faults["trapOnce"] == {"message": "done", "isSame": True}
    killed = faults["killed"]
    assert (killed["message"], killed["isSame"], killed["kills"]) == ("done", True, 2)
    assert killed["workers"] == 6
    aborted = faults["aborted"]
    assert aborted["reason"] == "enough" and 8 <= aborted["steps"] < 1e6
    assert "abort" in aborted["isLoading"].lower()
    assert faults["noMemory"] == "memory: there is no memory for 65536 bytes"


def check_refusals(refused: dict[str, str]) -> None:
    assert refused["threads"] == "range: `threads` is a whole number from 1 to 64, not 0"
    assert refused["half"] == "range: `threads` is a whole number from 1 to 64, not 1.5"
    assert refused["device"].startswith("name: `device` is webgpu, wasm, or a GPU,")
    assert refused["small"].startswith("memory: `maxBytes` is below")


def test_pages_without_a_gpu_train(bundle: Path) -> None:
    """From a disk, from http and under policies that forbid workers: it runs everywhere."""
    seen = run_node("wasm_pages.mjs", str(bundle))
    for place in ("disk", "http"):
        page = seen[place]
        assert page["status"] == "4 parameters, on your CPU (WebAssembly): no GPU was found"
        assert page["loss"] > 0
        assert page["longest"]["count"] > 20
        assert not page["longest"]["isFelt"], f"the twin blocks the page: {page['longest']}"
        assert not page["hasProblem"] and page["problems"] == []
        assert page["replies"] > 10, "it runs in no worker"
    free, inline = seen["free"], seen["noWorkers"]
    assert free["kind"] == inline["kind"] == "wasm"
    assert (free["threads"], inline["threads"]) == (2, 1)
    assert free["losses"] == inline["losses"] and free["losses"][1] < free["losses"][0]
    # Either the kernels or the twin, not both.
    on_gpu = seen["onGpu"]
    assert on_gpu["kind"] == "webgpu"
    assert "/twin.wasm" in free["fetched"] and "/kernels.js" not in free["fetched"]
    assert "/kernels.js" in on_gpu["fetched"] and "/twin.wasm" not in on_gpu["fetched"]
    assert "/wgcc/wasm.js" not in on_gpu["fetched"]
    refused = seen["noWasm"]["message"]
    assert refused.startswith("gpu: `twin.wasm` was refused") and "wasm-unsafe-eval" in refused
    assert seen["noWasmButSoftware"]["kind"] == "webgpu"


def test_page_in_firefox_trains_from_disk(tmp_path: Path) -> None:
    bundle = build_web(JOBS / "iris.wg", tmp_path / "iris")
    seen = run_node("firefox.mjs", str(bundle / "index.html"), _program("firefox"))
    assert seen["status"] == "131 parameters, on your CPU (WebAssembly): no GPU was found"
    assert seen["loss"] > 0
    assert seen["replies"] > 10, "it runs in no worker"
    # A person's table, too.
    assert seen["rows"] == "table.csv: 16 rows to learn from, and 4 rows held out"
    assert "decimal comma" in seen["notes"]
    assert (seen["cells"], seen["learned"] > 0) == ("0,5 0 0,0 1 u", True)


def damaged(folder: Path, name: str) -> Path:
    """The bundle with a twin that is missing, cut short, or another with the right digest."""
    bundle = add_web_files(line_twin.write_bundle(folder))
    twin = bundle / "twin.wasm"
    if name == "missing":
        twin.unlink()
    elif name == "cut":
        twin.write_bytes(twin.read_bytes()[:-9])
    else:
        plan = json.loads((bundle / "plan.json").read_text())
        code = b"\0asm\2\0\0\0" + twin.read_bytes()[8:]
        twin.write_bytes(code)
        plan["twin"]["sha256"] = hashlib.sha256(code).hexdigest()
        plan.pop("sha256", None)
        (bundle / "plan.json").write_text(json.dumps(plan))
        add_web_files(bundle)
    return bundle


DAMAGES = {
    "missing": r"bundle: `file:.*twin\.wasm` cannot be read .*: copy it beside the scripts",
    "cut": r"bundle: `twin\.wasm` was changed after the bundle was built: build it again",
    "other": r"bundle: `twin\.wasm` is not a module that wgcc writes",
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_twins_are_refused(name: str, tmp_path: Path) -> None:
    bundle = damaged(tmp_path / "line", name)
    with pytest.raises(StackError, match=DAMAGES[name]) as caught:
        run_job("node", bundle, "verified", {"device": "wasm"})
    assert caught.value.code == "bundle"


def test_bundle_without_a_twin_says_so(tmp_path: Path) -> None:
    bundle = add_web_files(line_bundle.write_bundle(tmp_path / "line"))
    with pytest.raises(StackError, match="`device` is wasm, but the bundle has no twin") as caught:
        run_job("node", bundle, "verified", {"device": "wasm"})
    assert caught.value.code == "name"


def test_more_memory_than_there_can_be_is_refused(tmp_path: Path) -> None:
    bundle = add_web_files(line_twin.write_bundle(tmp_path / "line", scratch=1 << 32))
    with pytest.raises(StackError, match=r"429\d+ bytes are more than WebAssembly") as caught:
        run_job("node", bundle, "verified", {"device": "wasm"})
    assert caught.value.code == "memory"


def test_workers_run_minified_code(tmp_path: Path) -> None:
    """They get the text of a class; a model that does nothing keeps no process alive."""
    bundle = add_web_files(line_twin.write_bundle(tmp_path / "line"))
    script = bundle / "app.mjs"
    options = ("--bundle", "--minify", "--format=esm", "--platform=neutral")
    done = tool("esbuild", str(bundle / "index.js"), *options, f"--outfile={script}")
    assert done.returncode == 0, done.stderr
    seen = run_node("minified.mjs", str(script))
    assert (seen["workers"], seen["threads"]) == (2, 2)
    assert seen["loss"] > 0


def test_digests_without_a_browsers_help() -> None:
    """As on pages from http, for lengths around those of a block."""
    texts = ["x" * length for length in (0, 1, 55, 56, 63, 64, 65, 1000)]
    seen = run_node("digests.mjs", data=texts)
    assert seen == [hashlib.sha256(text.encode()).hexdigest() for text in texts]
