"""Damaged and derived texts for the compiler: no crash, no traceback, an answer within 5 s."""

from __future__ import annotations

import argparse
import gc
import time
from collections import Counter
from pathlib import Path

from fuzzing.corpus import make_text
from fuzzing.judge import Verdict, judge

# One in this many texts that pass the check is also built, which takes much longer.
BUILD_EVERY = 5
REPORT_EVERY = 10_000


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("count", type=int, help="how many texts")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--save", type=Path, help="a folder for the texts that break something")


def run(options: argparse.Namespace) -> int:
    judge(make_text(0), build=True)
    # The tables of grammar and corpus stay alive; not collecting garbage in them saves 10 %.
    gc.freeze()
    gc.set_threshold(20_000)
    started, outcomes, problems, slowest = time.monotonic(), Counter[str](), 0, 0.0
    for number in range(options.count):
        seed = options.start + number
        verdict = judge(make_text(seed), build=seed % BUILD_EVERY == 0)
        outcomes[verdict.outcome] += 1
        slowest = max(slowest, verdict.seconds)
        if verdict.problem:
            problems += 1
            _report(options, seed, verdict)
        if number % REPORT_EVERY == REPORT_EVERY - 1:
            print(f"{number + 1} texts, {problems} problems, slowest {slowest:.1f} s", flush=True)
    seconds = time.monotonic() - started
    print(f"{options.count} texts: {dict(outcomes)}, {problems} problems, {seconds:.0f} s")
    return 1 if problems else 0


def _report(options: argparse.Namespace, seed: int, verdict: Verdict) -> None:
    print(f"seed {seed} ({verdict.outcome}): {verdict.problem[:500]}", flush=True)
    if options.save:
        options.save.mkdir(parents=True, exist_ok=True)
        text = make_text(seed).encode("utf-8", "surrogatepass")
        (options.save / f"{seed}.wg").write_bytes(text)
