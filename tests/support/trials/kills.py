"""Processes killed while they save a checkpoint: the file is complete, stray files are removed."""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from wgcc_runtime.replace_file import previous, replace_file
from wgcc_runtime.weights import load_weights, save_weights

# 16 MB: most of a save is spent in writing and in fsync, as with a real model.
WORDS = 4_000_000


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("count", type=int, help="how many kills")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    parser.add_argument("--words", type=int, default=WORDS, help="numbers per checkpoint")


def run(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="wgcc-kills-") as folder:
        found = kill_savers(Path(folder), options.count, options.seed, options.words)
    print(f"{options.count} kills: {dict(found)}")
    return 1 if found["unreadable"] or found["left after a save"] else 0


def kill_savers(folder: Path, count: int, seed: int, words: int) -> Counter[str]:
    """What the kills left behind. Each process saves in a loop and is killed some time after it
    began to write the file of its second save."""
    path, chance, found = folder / "ck.safetensors", random.Random(seed), Counter[str]()
    found.update({"unreadable": 0, "left after a save": 0})
    seconds = _write_seconds(path, words)
    for _ in range(count):
        _kill_one(path, words, chance.random() ** 2 * seconds)
        found["in the midst of a save"] += bool(_strays(folder))
        for file in (path, previous(path)):
            found["unreadable"] += not _is_whole(file, words)
    replace_file(path, b"done")
    found["left after a save"] += len(_strays(folder))
    return found


def _write_seconds(path: Path, words: int) -> float:
    for number in range(2):
        _save(path, np.zeros(words, np.float32), number)
    data = path.read_bytes()
    started = time.monotonic()
    replace_file(path, data)
    return time.monotonic() - started


def _kill_one(path: Path, words: int, wait: float) -> None:
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        _save_for_ever(path, words, writer)
    os.read(reader, 1)
    while not _strays(path.parent):
        time.sleep(0.0005)
    time.sleep(wait)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    os.close(reader)
    os.close(writer)


def _save_for_ever(path: Path, words: int, writer: int) -> None:
    array, number = np.empty(words, np.float32), 0
    while True:
        _save(path, array, number)
        if number == 0:
            os.write(writer, b"1")
        number += 1


def _save(path: Path, array: np.ndarray, number: int) -> None:
    array[:] = number
    save_weights(path, {"w": array}, {"steps": {"train": number}}, keep_previous=True)


def _is_whole(file: Path, words: int) -> bool:
    """Reading checks the checksum; the content must be of one save."""
    try:
        arrays, facts = load_weights(file)
    except Exception as error:
        print(f"{file.name}: {error}", flush=True)
        return False
    return arrays["w"].shape == (words,) and bool((arrays["w"] == facts["steps"]["train"]).all())


def _strays(folder: Path) -> list[Path]:
    return list(folder.glob(".*.tmp"))
