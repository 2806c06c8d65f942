"""The JavaScript runtime mirrors Python's for plans, initial values and files; its size."""

from __future__ import annotations

import base64
import gzip
import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

import line_bundle
from adapters import ROOT
from changed_plans import REMOVED, change
from test_rows_plan import MALFORMED as MALFORMED_ROWS
from test_runtime_plan import MALFORMED
from test_twin_plan import MALFORMED as MALFORMED_TWINS
from test_twin_plan import plan_with_twin
from web_stacks import NODE, run_node, tool
from wgcc.bundle.page import (
    page_modules,
    readable_files,
    runtime_files,
    runtime_modules,
)
from wgcc_runtime.drawn import initial_values, random_words
from wgcc_runtime.errors import WgccError
from wgcc_runtime.plan import read_plan

RUNTIME = ROOT / "runtime_js"
# After parsing, JavaScript cannot distinguish 1.0 from 1.
SAME_IN_JAVASCRIPT = [("version", 1.0), ("buffers.0.bytes", 256.0)]


def test_plans_are_refused_alike() -> None:
    plans = [line_bundle.make_plan(), {**line_bundle.make_plan(), "version": 2}]
    cases = [
        (path, value)
        for path, value, _ in (*MALFORMED, *MALFORMED_ROWS)
        if not any(path == p and value is not True and value == v and isinstance(value, float)
                   for p, v in SAME_IN_JAVASCRIPT)
    ]  # fmt: skip
    plans += [change(line_bundle.make_plan(), path, value) for path, value in cases]
    texts = [json.dumps(plan) for plan in plans]
    answers = run_node("mirror.mjs", data={"plans": texts})["plans"]
    assert answers[0] == {"value": "Line"}
    for text, answer, case in zip(texts[1:], answers[1:], [("version", 2), *cases], strict=True):
        with pytest.raises(WgccError) as caught:
            read_plan(text.encode())
        expected = {"code": caught.value.code, "field": caught.value.field}
        assert answer == expected, (case if case[1] is not REMOVED else case[0], caught.value)
    assert len(cases) > 100


def test_twins_are_refused_alike() -> None:
    cases = [
        ("generator", "wgcc 0.1.0"),
        *((f"twin.{p}", value) for p, value, _ in MALFORMED_TWINS),
    ]
    texts = [json.dumps(change(plan_with_twin(), path, value)) for path, value in cases]
    sound, *answers = run_node("mirror.mjs", data={"plans": texts})["plans"]
    assert sound == {"value": "Line"}
    for text, answer, (path, _) in zip(texts[1:], answers, cases[1:], strict=True):
        with pytest.raises(WgccError) as caught:
            read_plan(text.encode())
        assert answer == {"code": caught.value.code, "field": caught.value.field}, path


def test_plans_are_objects() -> None:
    """A text is refused, because parsing would hide a key that occurs twice."""
    texts = [json.dumps(value) for value in (json.dumps(line_bundle.make_plan()), None, 7, [])]
    answers = run_node("mirror.mjs", data={"plans": texts})["plans"]
    assert answers == [{"code": "plan", "field": "format"}] * 4


DRAWS: list[tuple[str, dict[str, float], tuple[int, ...]]] = [
    ("zeros", {}, (3,)),
    ("ones", {}, (2, 2)),
    ("uniform", {"low": -0.5, "high": 2.0}, (300,)),
    ("normal", {"mean": 0.1, "std": 0.02}, (70, 90)),
    ("normal", {}, ()),
    ("trunc_normal", {"std": 0.02}, (50, 40)),
    ("kaiming_uniform", {"fan": 7}, (31,)),
    ("kaiming_uniform", {}, (3, 3, 8, 5)),
    ("kaiming_normal", {}, (64, 10)),
    ("xavier_uniform", {"gain": 1.5}, (13, 29)),
    ("xavier_uniform", {"fan_in": 3, "fan_out": 9}, (27,)),
    ("orthogonal", {}, (9, 9)),
    ("orthogonal", {"gain": 1.4}, (5, 12)),
    ("orthogonal", {}, (12, 5)),
    ("orthogonal", {}, (4, 3, 3)),
]


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1])
def test_initial_values_have_the_same_bits(seed: int) -> None:
    data = []
    for kind, args, shape in DRAWS:
        tensor = {"init": {"kind": kind, "args": args}, "shape": shape, "dtype": "f32"}
        data.append({"tensor": tensor, "seed": seed, "name": "blocks.0.w"})
    for case, answer in zip(
        DRAWS, run_node("mirror.mjs", data={"draws": data})["draws"], strict=True
    ):
        kind, args, shape = case
        wanted = initial_values({"kind": kind, "args": args}, shape, seed, "blocks.0.w")
        assert answer["value"] == wanted.tobytes().hex(), case


@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_given_zeros_keep_their_sign(dtype: str) -> None:
    lists = [[0.0], [-0.0], [-0.0, 0.0, -0.0]]
    inits = [{"kind": "value", "values": values} for values in lists]
    tensors = [{"init": init, "shape": [3], "dtype": dtype} for init in inits]
    data = [{"tensor": tensor, "seed": 0, "name": "w"} for tensor in tensors]
    answers = run_node("mirror.mjs", data={"draws": data})["draws"]
    for init, answer in zip(inits, answers, strict=True):
        wanted = initial_values(init, (3,), 0, "w", dtype)
        assert answer["value"] == wanted.tobytes().hex(), init


def test_random_words_and_orders() -> None:
    # More rows than are sorted between two pauses; equal keys are likely.
    counts = (1, 1000, 100_000)
    orders = [{"seed": 9, "count": count, "epoch": e} for e, count in enumerate(counts)]
    answer = run_node("mirror.mjs", data={"orders": orders})
    assert answer["words"] == random_words(2**32 - 1, "a", 3, 2**32 - 1).tobytes().hex()
    for epoch, (order, count) in enumerate(zip(answer["orders"], counts, strict=True)):
        keys = random_words(9, "shuffle", count, epoch)
        assert order == np.argsort(keys, kind="stable").tolist()


def test_files_of_weights() -> None:
    """Every element type is read; each malformed file is an error with the code `weights`."""
    arrays: dict[str, Any] = {
        "half": np.array([1.5, -2.0, 6e-8, 65504], np.float16),
        "double": np.array([0.1], np.float64),
        "long": np.array([-5, 7], np.int64),
        "byte": np.array([[1, 255]], np.uint8),
        "truth": np.array([True, False]),
    }
    good = save(arrays)
    header = json.loads(good[8 : 8 + struct.unpack("<Q", good[:8])[0]])
    bad = [b"", b"abc", good[:-1], good + b"x", good[:8] + b"[" + good[9:], b"\xff" * 64]
    for damage in (
        {"dtype": "F9"},
        {"shape": [9]},
        {"data_offsets": [0, 5]},
        {"shape": "x"},
        {"data_offsets": None},
    ):
        text = json.dumps({**header, "half": {**header["half"], **damage}}).encode()
        bad.append(
            struct.pack("<Q", len(text)) + text + good[8 + struct.unpack("<Q", good[:8])[0] :]
        )
    files = [base64.b64encode(data).decode() for data in (good, *bad)]
    first, *rest = run_node("mirror.mjs", data={"files": files})["files"]
    assert first["value"] == {name: array.ravel().tolist() for name, array in arrays.items()}
    assert [answer.get("code") for answer in rest] == ["weights"] * len(bad)


def minified(*files: Path) -> int:
    """Bytes of scripts after minifying and gzip, as a server sends them."""
    total = b""
    for path in files:
        done = tool("esbuild", str(path), "--minify", "--target=es2022", "--format=esm")
        assert done.returncode == 0, done.stderr
        total += done.stdout.encode()
    return len(gzip.compress(total, 9, mtime=0))


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runtime as bundles ship it, but with comments, which hold its types."""
    folder = tmp_path_factory.mktemp("runtime")
    for name, text in readable_files().items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "package.json").write_text('{"type": "module"}')
    return folder


# wgcc.js is all that a page loads to train and predict; the others are loaded when first needed.
LARGEST = {
    "wgcc.js": 10250,
    "wgcc/fit.js": 4450,
    "wgcc/check.js": 13550,
    "wgcc/files.js": 8500,
    "wgcc/draw.js": 2550,
    "wgcc/inspect.js": 4550,
    "wgcc/calls.js": 8400,
    "wgcc/data.js": 24200,
    "wgcc/receipts.js": 2300,
    "wgcc/worker.js": 3100,
    "wgcc/serve.js": 1300,
    "wgcc/wasm.js": 4850,
    "wgcc/tokens.js": 8000,
    "wgcc/adapters.js": 6400,
}


def test_sizes(joined: Path) -> None:
    assert LARGEST.keys() == runtime_files().keys()
    readme = (RUNTIME / "README.md").read_text(encoding="utf-8")
    for name, most in LARGEST.items():
        size = minified(joined / name)
        assert size <= most, name
        shown = re.search(rf"^\| `{name}` \|.*\| ([\d.]+) KB \|$", readme, re.MULTILINE)
        assert shown and abs(float(shown[1]) - size / 1024) < 0.2, f"{name}: {size / 1024:.1f} KB"
    page = [RUNTIME / "page" / f"{name}.js" for name in ("plot", "invented", "problems", "state")]
    assert minified(*page) <= 5 * 1024


@pytest.mark.parametrize("form", ["modules", "joined"])
def test_types_of_the_runtime(form: str, joined: Path, tmp_path: Path) -> None:
    options = {
        "strict": True, "checkJs": True, "allowJs": True, "noEmit": True, "target": "es2023",
        "module": "nodenext", "types": [], "resolveJsonModule": True,
        "lib": ["es2024", "esnext.disposable", "dom", "dom.iterable", "dom.asynciterable"],
    }  # fmt: skip
    graph = [f"graph/{path.name}" for path in sorted((RUNTIME / "graph").glob("*.js"))]
    graph.append("live/reload.js")
    modules = [*runtime_modules(), *page_modules(), "page/places.d.ts", *graph]
    folder, names = (RUNTIME, modules) if form == "modules" else (joined, [*runtime_files()])
    files = [str(folder / name) for name in names]
    config = tmp_path / "tsconfig.json"
    config.write_text(json.dumps({"compilerOptions": options, "files": files}))
    done = tool("tsc", "--project", str(config))
    assert done.returncode == 0, done.stdout
    assert (NODE / "node_modules" / "typescript").is_dir()
