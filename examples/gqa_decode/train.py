"""Trains the decoder to repeat, then decodes with the cache: the prompt in chunks, then tokens.

wgcc build examples/gqa_decode/model.wg -o bundle
python examples/gqa_decode/train.py bundle
"""

from __future__ import annotations

import sys
import time

import numpy as np

import wgcc_runtime as wg

STEPS = 80
BATCH, SYMBOLS, SEPARATOR, CHUNK = 8, 16, 32, 8
PROMPTS = 8
GOOD_ENOUGH = 0.95


def main(bundle: str) -> int:
    model = wg.load(bundle)
    print(f"on {model.device_name}")
    model.fit(batch, steps=STEPS, every=5, callbacks=[show], log="loss.jsonl")
    rng = np.random.default_rng(99)
    prompts = rng.integers(0, SEPARATOR, (PROMPTS, SYMBOLS)).astype(np.int32)
    print(f"with the cache or without: scores differ by {difference(model, prompts[0]):.1e}")
    start = time.perf_counter()
    answers = np.stack([repeat(model, prompt) for prompt in prompts])
    rate = answers.size / (time.perf_counter() - start)
    correct = float((answers == prompts).mean())
    print("shown   ", *prompts[0])
    print("repeated", *answers[0])
    print(f"{correct:.1%} of {answers.size} symbols are correct; {rate:.0f} symbols a second")
    return 0 if correct >= GOOD_ENOUGH else 1


def batch(step: int) -> dict[str, np.ndarray]:
    """Symbols, the separator, the same symbols again; new ones in every step."""
    symbols = np.random.default_rng(step).integers(0, SEPARATOR, (BATCH, SYMBOLS)).astype(np.int32)
    separator = np.full((BATCH, 1), SEPARATOR, np.int32)
    return {"ids": np.concatenate([symbols, separator, symbols], axis=1)}


def show(report: wg.Report) -> None:
    print(f"step {report.step:4}  loss {report.loss:.4f}")


def read(model: wg.Model, ids: np.ndarray) -> np.ndarray:
    """Fills the cache chunk by chunk; returns the scores of all tokens."""
    chunks = range(0, len(ids), CHUNK)
    return np.concatenate([model.prefill(ids=ids[at : at + CHUNK])["scores"] for at in chunks])


def repeat(model: wg.Model, prompt: np.ndarray) -> np.ndarray:
    model.forget()
    read(model, prompt)
    token, answer = SEPARATOR, []
    for _ in prompt:
        token = int(model.decode(id=np.array([token], np.int32))["id"])
        answer.append(token)
    return np.array(answer)


def difference(model: wg.Model, prompt: np.ndarray) -> float:
    """The largest difference between scores of a sequence at once, and in chunks, then tokens."""
    ids = np.concatenate([prompt, [SEPARATOR], prompt[:-1]]).astype(np.int32)
    at_once = model.score(ids=ids[None])["scores"][0]
    model.forget()
    rows = [*read(model, ids[:SYMBOLS])]
    rows += [model.decode(id=ids[i : i + 1])["scores"] for i in range(SYMBOLS, len(ids))]
    return float((np.abs(np.stack(rows) - at_once) / (1 + np.abs(at_once))).max())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "bundle"))
