"""What holds a kernel back: the busiest part of a GPU, or that it waits."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

import line_twin
from adapters import ROOT
from cli_runs import run
from wgcc.access.devices import DEVICES, LAUNCH_SECONDS, busy_seconds
from wgcc.access.model import access_of
from wgcc.access.verdict import LATENCY, LAUNCH, judge
from wgcc.cli.columns import BENCH_COLUMNS, KERNEL_COLUMNS, VERDICTS
from wgcc.kernel.parse import parse_module

RTX = DEVICES[0]


@dataclass
class Made:
    """Figures of a kernel that nobody wrote."""

    workgroups: int = 10_000
    threads: int = 256
    instructions: float = 0.0
    traffic: float = 0.0
    least_bytes: int = 0
    cycles: float = 0.0
    sector_ratio: float = 1.0
    bank_conflicts: int = 1
    barriers: float = 0.0
    useful: float | None = None

    def shared_cycles(self, per_cycle: int) -> float:
        return self.cycles


@pytest.mark.parametrize(
    ("work", "kind", "helps"),
    [
        (Made(least_bytes=10**9), "bandwidth", "f16"),
        (Made(least_bytes=10**9, sector_ratio=8.0), "bandwidth", "neighbours"),
        (Made(instructions=1e9), "arithmetic", "smaller"),
        (Made(instructions=1e9, useful=0.3), "arithmetic", "30%"),
        (Made(traffic=1e12), "caches", "tiles"),
        (Made(cycles=1e9, bank_conflicts=4), "workgroup memory", "tune"),
        (Made(least_bytes=1000), LAUNCH, "batch"),
        # 20,000 instructions in each thread of one subgroup, as a scan over a long sequence has.
        (Made(instructions=2e4, workgroups=1, threads=32), LATENCY, "scan"),
        (Made(least_bytes=10**9, workgroups=1), LATENCY, "more rows"),
        (Made(least_bytes=10**9, workgroups=46, threads=32), LATENCY, "batch"),
    ],
)
def test_the_busiest_part_is_named(work: Made, kind: str, helps: str) -> None:
    verdict = judge(work, RTX)
    assert verdict.kind == kind and helps in verdict.advice and verdict.why


def test_a_measurement_tells_waiting_from_work() -> None:
    work = Made(least_bytes=10**9)
    least = max(busy_seconds(work, RTX).values())
    assert judge(work, RTX, 1.2 * least).kind == "bandwidth"
    verdict = judge(work, RTX, 10 * least)
    assert verdict.kind == LATENCY and "10.0 x" in verdict.why
    small = Made(least_bytes=1000)
    assert judge(small, RTX, 2 * LAUNCH_SECONDS).kind == LAUNCH
    assert judge(small, RTX, 100 * LAUNCH_SECONDS).kind == LATENCY


def test_every_verdict_is_explained_and_consistent() -> None:
    """Random kernels: a part that is named is the busiest, and takes longer than a launch."""
    numbers = random.Random(5)
    for _ in range(2000):
        work = Made(
            workgroups=numbers.choice([1, 7, 46, 500, 10**5]),
            threads=numbers.choice([32, 64, 256]),
            instructions=10 ** numbers.uniform(0, 10),
            traffic=10 ** numbers.uniform(0, 12),
            least_bytes=int(10 ** numbers.uniform(0, 10)),
            cycles=10 ** numbers.uniform(0, 10),
        )
        device = numbers.choice(DEVICES)
        parts = busy_seconds(work, device)
        verdict = judge(work, device)
        assert verdict.kind in VERDICTS
        if verdict.kind == LAUNCH:
            assert max(parts.values()) < LAUNCH_SECONDS
        if verdict.kind in parts:
            assert parts[verdict.kind] == max(parts.values()) >= LAUNCH_SECONDS


def test_kernels_that_are_known_to_be_so() -> None:
    copied = access_of(parse_module(COPY), (65535, 1, 1), bound=[4 * 64 * 65535] * 2)
    assert judge(copied, RTX).kind == "bandwidth"
    assert judge(access_of(parse_module(COPY), (1, 1, 1), bound=[256, 256]), RTX).kind == LAUNCH


COPY = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  y[id.x] = x[id.x];
}
"""


def test_show_explains_every_column(capsys: pytest.CaptureFixture[str]) -> None:
    bundle = str(ROOT / "tests" / "golden" / "regression")
    code, out, _ = run(capsys, "show", bundle, "--kernels", "--explain")
    head, explained = out.splitlines()[0], out.partition("\n\n")[2]
    assert code == 0
    words = head
    for column in sorted(KERNEL_COLUMNS, key=len, reverse=True):
        assert column in words and f"{column} " in explained
        words = words.replace(column, "", 1)
    assert not words.strip()
    code, _, error = run(capsys, "show", bundle, "--explain")
    assert code == 2 and "--explain goes with --kernels" in error


def test_bench_explains_every_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = str(line_twin.write_bundle(tmp_path / "line"))
    options = ("--device", "wasm", "--seconds", "0.01", "--explain", "--like", "M2")
    code, out, _ = run(capsys, "bench", bundle, *options)
    assert code == 0 and "on Apple M2 (modelled, not measured)" in out
    table = next(line for line in out.splitlines() if "GFLOP/s" in line)
    assert all(word in BENCH_COLUMNS for word in table.split())
    assert "verdict workgroup memory" in out
