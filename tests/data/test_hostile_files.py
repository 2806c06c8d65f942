"""People's files that would block, or fill the memory: each is one clear error, before it is read.

Everything runs in a process with limits of its own, so that a regression fails and does not hang.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import line_bundle
from trials.interrupts import python_path
from wgcc.cli import group
from wgcc_runtime.data.csv_records import read_records
from wgcc_runtime.data.source import Source
from wgcc_runtime.errors import WgccError

SECONDS = 120
READ = """
import json, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_CPU, (100, 100))
import wgcc_runtime
from wgcc.errors import WgError
from wgcc.importing.weight_files import read_weights
from wgcc_runtime.data.picture_files import read_pixels
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
plan = wgcc_runtime.load_plan(sys.argv[1])
readers = {
    "data": lambda path: wgcc_runtime.read_data(path, plan),
    "weights": lambda path: wgcc_runtime.weights.load_weights(path),
    "import": lambda path: read_weights(Path(path)),
    "picture": lambda path: read_pixels(Path(path)),
}
answers = []
for kind, path in json.load(sys.stdin):
    try:
        readers[kind](path)
        answers.append("read")
    except wgcc_runtime.WgccError as error:
        answers.append(str(error))
    except (WgError, OSError) as error:
        answers.append(f"error: {error}")
print(json.dumps(answers))
"""


def read_all(bundle: Path, cases: list[tuple[str, Path]], **variables: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", READ, str(bundle)],
        env={**os.environ, "PYTHONPATH": python_path(), **variables},
        input=json.dumps([(kind, str(path)) for kind, path in cases]),
        capture_output=True, text=True, check=False, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers: list[str] = json.loads(done.stdout)
    return answers


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return line_bundle.write_bundle(tmp_path_factory.mktemp("files") / "bundle")


KINDS = {"fifo": "a named pipe", "zero": "a device", "socket": "a socket", "folder": "a folder"}


def special(folder: Path, kind: str, suffix: str) -> Path:
    path = folder / f"{kind}{suffix}"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "zero":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.relpath(path))
    return path


def test_only_regular_files_are_read(bundle: Path, tmp_path: Path) -> None:
    suffixes = {
        "data": (".csv", ".json", ".npz", ".npy", ".safetensors", ".txt"),
        "weights": (".safetensors",),
        "import": (".npz", ".bin", ".h5", ".safetensors", ".pt"),
        "picture": (".png",),
    }
    cases, wanted = [], []
    for kind, what in KINDS.items():
        for reader, endings in suffixes.items():
            for ending in endings:
                if (kind, reader) == ("folder", "data"):
                    continue  # a folder of arrays or pictures
                folder = tmp_path / f"{len(cases)}"
                folder.mkdir()
                cases.append((reader, special(folder, kind, ending)))
                wanted.append(what)
    for (reader, path), what, answer in zip(cases, wanted, read_all(bundle, cases), strict=True):
        assert f"it is {what}" in answer, (reader, path, answer)
        assert answer.startswith(("data: ", "weights: ", "error: "))


def npz(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


def header(shape: str, kind: str = "<f4") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def test_sizes_are_checked_before_memory_is_taken(bundle: Path, tmp_path: Path) -> None:
    bomb = npz(tmp_path / "bomb.npz", x=header("4000000,") + bytes(16_000_000))
    assert bomb.stat().st_size < 100_000
    lying = npz(tmp_path / "lying.npz", x=header("1000000000000,") + bytes(100))
    short = tmp_path / "short.npy"
    short.write_bytes(header("1000000000000,") + bytes(100))
    negative = tmp_path / "negative.npy"
    negative.write_bytes(header("-4,") + bytes(100))
    objects = tmp_path / "objects.npy"
    objects.write_bytes(header("1,", "|O") + bytes(100))
    text = tmp_path / "large.csv"
    text.write_bytes(b"1,2\n" * 1_000_000)
    cases = [("data", bomb), ("import", bomb), ("data", lying), ("data", short), ("data", negative),
             ("data", objects), ("data", text)]  # fmt: skip
    answers = read_all(bundle, cases, WGCC_DATA_BYTES="2000000")
    words = ("unpacked it has 16,0", "unpacked it has 16,0", "cut off", "cut off", "cut off",
             "Python objects", "it has 4,000,000 bytes, at most 2,000,000 are read")  # fmt: skip
    for (_, path), answer, word in zip(cases, answers, words, strict=True):
        assert word in answer and path.name in answer, answer


def test_arrays_are_read_as_numpy_wrote_them(tmp_path: Path) -> None:
    from wgcc_runtime.data.numpy_files import read_numpy

    arrays: dict[str, Any] = {
        "rows": np.arange(12, dtype=np.float32).reshape(3, 4),
        "fortran": np.asfortranarray(np.arange(24).reshape(2, 3, 4)),
        "scalar": np.float64(3),
        "empty": np.zeros((0, 4), np.float32),
        "big": np.arange(5, dtype=">i4"),
        "bool": np.array([True, False]),
    }
    np.savez_compressed(tmp_path / "packed.npz", **arrays)
    np.savez(tmp_path / "plain.npz", **arrays)
    for name in ("packed.npz", "plain.npz"):
        found = read_numpy(tmp_path / name)
        assert found.keys() == arrays.keys()
        for key, array in arrays.items():
            assert found[key].dtype == array.dtype and found[key].shape == array.shape
            np.testing.assert_array_equal(found[key], array)
    np.save(tmp_path / "one.npy", arrays["fortran"])
    np.testing.assert_array_equal(read_numpy(tmp_path / "one.npy")[""], arrays["fortran"])


def test_huge_pictures_are_refused(bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "wide.png"
    Image.new("1", (9_000, 9_000)).save(path)
    eps = tmp_path / "eps.png"
    Image.new("RGB", (4, 4)).save(eps, "EPS")
    first, second = read_all(bundle, [("picture", path), ("picture", eps)])
    assert "wide.png: it has 9000 x 9000 pixels; at most 67,108,864 are read" in first
    assert "eps.png: this picture cannot be read" in second


def test_an_unclosed_quote_is_cheap() -> None:
    def seconds(text: str) -> float:
        started = time.process_time()
        with pytest.raises(WgccError, match="line 2, column 2: the quote that opens here"):
            read_records(text, Source("f.csv"))
        return time.process_time() - started

    for rest in ("3,4\n" * 250_000, '""' * 250_000, "x" * 1_000_000):
        assert seconds('a,b\n1,"2\n' + rest) < 5


def test_full_memory_is_no_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert group._explain(MemoryError()) == group.PROBLEM
    said = capsys.readouterr()
    assert "not enough memory" in said.out + said.err
    assert "bug" not in said.out + said.err


def test_the_command_line_refuses_devices(bundle: Path, tmp_path: Path) -> None:
    fifo = special(tmp_path, "fifo", ".csv")
    for path in ("/dev/zero", str(fifo)):
        done = subprocess.run(
            [sys.executable, "-m", "wgcc", "train", str(bundle), path],
            env={**os.environ, "PYTHONPATH": python_path()},
            capture_output=True, text=True, check=False, timeout=SECONDS,
        )  # fmt: skip
        assert done.returncode == 1
        assert f"cannot read {path}: it is a" in done.stderr + done.stdout


def train_from_pipe(
    bundle: Path, data: bytes, **variables: str
) -> subprocess.CompletedProcess[str]:
    out = str(bundle.parent / "out.safetensors")
    command = [
        sys.executable,
        "-m",
        "wgcc",
        "train",
        str(bundle),
        "-",
        "--steps",
        "2",
        "--out",
        out,
    ]
    done = subprocess.run(
        command,
        input=data,
        capture_output=True,
        timeout=SECONDS,
        env={**os.environ, "PYTHONPATH": python_path(), **variables},
    )
    return subprocess.CompletedProcess(command, done.returncode, "", done.stderr.decode())


def test_a_pipe_is_read_where_a_dash_asks_for_it(tmp_path: Path) -> None:
    bundle = line_bundle.write_bundle(tmp_path / "line")
    rows = "".join(f"{i},{i + 1},{i + 2},{i + 3},{4 * i + 6}\n" for i in range(32))
    table = f"a,b,c,d,y\n{rows}".encode()
    done = train_from_pipe(bundle, table)
    assert done.returncode == 0, done.stderr
    assert "standard-input: 32 rows" in done.stderr
    endless = train_from_pipe(bundle, table, WGCC_DATA_BYTES="100")
    assert endless.returncode == 1
    assert "at most 100 bytes are read here" in endless.stderr
