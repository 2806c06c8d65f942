"""Kernels that run without checks: only where the compiler here proved that they need none."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import wgcc
import wgcc_runtime
from adapters import ROOT
from building import build
from kernel_threads import Number, Thread, TooLong, elements_of
from random_kernels import RandomKernel
from wgcc.backends.wgsl.print_tree import print_file
from wgcc.bundle.plan import plan_text
from wgcc.bundle.prove import prove
from wgcc.kernel.check import MAX_STATEMENTS, check
from wgcc.kernel.parse import parse_module
from wgcc.kernel.tree import Module, root_of
from wgcc_runtime import provers
from wgcc_runtime.bundle_files import code_digest
from wgcc_runtime.device import Device
from wgcc_runtime.plan import Plan, read_plan
from wgcc_runtime.unchecked import ALL, LOOPS, Unchecked

MODEL = ROOT / "examples" / "sin" / "model.wg"
KERNEL = """@group(0) @binding(0) var<storage, read> x0: array<u32, 8>;
@group(0) @binding(1) var<storage, read_write> y0: array<u32, 8>;
var<workgroup> tile: array<u32, 16>;
var<private> own: u32;
HEAD
@compute @workgroup_size(16)
fn main(@builtin(local_invocation_index) lane: u32) {
  let wild = x0[0];
  BODY
}
"""
GRID = (1, 1, 1)
ATTACKS, LANES, GROUPS = 300, 6, 2
BITS = 1 << 32


def kernel(body: str, head: str = "") -> str:
    """A kernel as the compiler prints it."""
    return print_file(parse_module(KERNEL.replace("HEAD", head).replace("BODY", body)), "")


def test_what_is_proven_needs_no_checks() -> None:
    assert prove(kernel("tile[lane] = wild;"), GRID) == (True, True)
    assert prove(kernel("tile[min(wild, 15u)] = 1u;"), GRID) == (True, True)
    ends = "for (var k = lane; k < min(wild, 9u); k += 4u) { tile[k] = 1u; }"
    assert prove(kernel(ends), GRID) == (True, True)
    halving = "for (var half = 8u; half > 0u; half /= 2u) { tile[half] = 1u; }"
    assert prove(kernel(halving), GRID) == (True, True)
    doubling = "for (var block = 2u; block <= 16u; block *= 2u) { tile[block / 4u] = 1u; }"
    assert prove(kernel(doubling), GRID) == (True, True)


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("fn min(a: u32, b: u32) -> u32 { return a; }", "tile[min(wild, 15u)] = 1u;"),
        ("fn u32(a: u32) -> u32 { return x0[a]; }", "tile[u32(3u)] = 1u;"),
        ("fn f() { own = x0[1]; }", "own = 3u; f(); tile[own] = 1u;"),
        (
            "fn f() { own = x0[1]; }",
            "own = 3u; for (var i = 0u; i < 2u; i++) { tile[own] = 1u; f(); }",
        ),
        ("fn f(a: u32) -> u32 { return a; }", "tile[f(3u)] = 1u; tile[f(wild)] = 1u;"),
        (
            "fn f(a: u32) -> u32 { if (a > 3u) { return a; } return 2u; }",
            "tile[f(wild)] = 1u;",
        ),
        ("const N = 15u;", "let N = wild; tile[min(wild, N)] = 1u;"),
        ("const N = 4294967295u + 17u;", "tile[min(wild, N)] = 1u;"),
        ("alias u32 = i32;", "tile[min(wild, 15u)] = 1u;"),
        ("", "let min = wild; tile[min] = 1u;"),
        ("", "if (true) { let lane = wild; tile[lane] = 1u; }"),
        ("", "let k = i32(wild); if (k < 16) { tile[k] = 1u; }"),
        ("", "if (tile[0] < 16u) { tile[tile[0]] = 1u; }"),
        ("", "tile[(wild >> 28u) << 32u] = 1u;"),
        ("", "tile[wild % (lane - lane)] = 1u;"),
        ("", "tile[abs(i32(wild))] = 1u;"),
        ("", "var v = vec4u(0u, 1u, 2u, 3u); v.x = wild; tile[v.x] = 1u;"),
        ("", "var v: array<u32, 4>; v[wild] = 1u;"),
        ("var<workgroup> two: array<array<u32, 4>, 4>;", "two[lane / 4u][wild] = 1u;"),
        ("struct S { a: array<u32, 4>, }\nvar<workgroup> s: S;", "s.a[wild] = 1u;"),
    ],
)
def test_an_index_that_can_be_too_large_keeps_its_check(head: str, body: str) -> None:
    assert not prove(kernel(body, head), GRID)[0]


@pytest.mark.parametrize(
    "text",
    [
        KERNEL.replace("HEAD", "").replace("BODY", "// x\r tile[wild] = 1u;\n  tile[0] = 1u;"),
        KERNEL.replace("HEAD", "").replace("BODY", "// x\u2028 tile[wild] = 1u;\n"),
        KERNEL.replace("HEAD", "").replace("BODY", "/* /* */ tile[wild] = 1u; // */ */"),
        kernel("tile[0] = 1u;").replace("tile[0] = 1u", "tile[ 0 ] = 1u"),
        "",
        "fn main() {",
    ],
)
def test_what_the_compiler_would_not_print_so_keeps_its_checks(text: str) -> None:
    """Code could hide in what two parsers read differently."""
    assert prove(text, GRID) == (False, False)


def test_random_kernels_without_checks_stay_in_their_arrays() -> None:
    """What `prove` lets go unchecked is run, thread by thread, on memory of random numbers."""
    proven = 0
    for seed in range(1000, 1000 + ATTACKS):
        random = RandomKernel(seed, LANES)
        text = print_file(parse_module(random.text), "")
        if prove(text, (GROUPS, 1, 1))[0]:
            proven += 1
            for array, index in indices_used(random, parse_module(text), Random(seed)):
                assert index < random.lengths[array], text
    assert proven >= ATTACKS // 10


def indices_used(kernel: RandomKernel, module: Module, random: Random) -> Iterator[tuple[str, int]]:
    memory = {
        name: [random.randrange(BITS) for _ in range(n)] for name, n in kernel.lengths.items()
    }
    arrays = {id(e): root_of(e).name for e in elements_of(module)}
    for group in range(GROUPS):
        for lane in range(LANES):
            identity = {
                "@workgroup_id": {"x": Number(group, "u32")},
                "@local_invocation_index": Number(lane, "u32"),
            }
            thread = Thread(module, identity, memory)
            with suppress(TooLong):
                thread.run()
            for place, indices in thread.trace.indices.items():
                yield from ((arrays[place], index) for index in indices)


def test_a_proof_takes_a_bounded_time() -> None:
    calls = "".join(f"fn f{n}() {{ f{n - 1}(); f{n - 1}(); }}\n" for n in range(1, 40))
    text = kernel("f39();", "fn f0() { own = 1u; }\n" + calls)
    assert prove(text, GRID) == (False, False)
    with pytest.raises(ValueError, match=f"more than {MAX_STATEMENTS:,} statements"):
        check(parse_module(text), GRID)


def test_loops_that_are_proven_end() -> None:
    """Random loops whose numbers wrap around, beside what they really do."""
    random, proven, endless = Random(3), 0, 0
    edges = (0, 1, 2, 3, 15, 16, BITS // 2, BITS - 17, BITS - 3, BITS - 2, BITS - 1)
    for _ in range(300):
        start, bound = random.choice(edges), random.choice(edges)
        test = random.choice(("<", "<=", ">", ">=", "!="))
        op = random.choice(("+", "-", "*", "/", ">>"))
        step = random.choice((0, 1, 2, 3, 5, 1 << 27, BITS - 1))
        head = f"var k = {start}u; k {test} {bound}u; k {op}= {step}u"
        is_proven = prove(kernel(f"for ({head}) {{ y0[0] = k; }}"), GRID)[1]
        ends = really_ends(start, test, bound, op, step)
        assert not is_proven or ends is not False, head
        proven += is_proven
        endless += ends is False
    assert proven > 40 and endless > 40


def really_ends(k: int, test: str, bound: int, op: str, step: int) -> bool | None:
    """False where a number comes again; None where that takes too long to see."""
    seen = set[int]()
    for _ in range(200):
        if not _tests(k, test, bound):
            return True
        if k in seen:
            return False
        seen.add(k)
        k = _next(k, op, step)
    return None


def _tests(a: int, test: str, b: int) -> bool:
    return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "!=": a != b}[test]


def _next(k: int, op: str, step: int) -> int:
    if op == "/":
        return k // step if step else k
    return {"+": k + step, "-": k - step, "*": k * step, ">>": k >> step % 32}[op] % BITS


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(MODEL, tmp_path_factory.mktemp("unchecked") / "bundle")


@pytest.fixture(autouse=True)
def prover() -> Iterator[None]:
    yield
    provers.use_prover("wgcc.bundle.prove")


def device(backend: str = "Vulkan", kind: str = "DiscreteGPU") -> Device:
    """The facts of a device; nothing runs on it."""
    adapter = SimpleNamespace(info={"backend_type": backend, "adapter_type": kind})
    return Device(SimpleNamespace(adapter=adapter), "a card")


def flags(plan: Plan, folder: Path, on: Device, checked: bool | None = None) -> list[int]:
    """The checks that each kernel of the plan keeps."""
    unchecked = Unchecked(on, plan, "gpu", checked)
    texts = [(folder / "kernels" / kernel.file).read_text() for kernel in plan.kernels]
    return [unchecked.flags(number, text) for number, text in enumerate(texts)]


def plan_of(folder: Path) -> Plan:
    return read_plan((folder / "plan.json").read_bytes())


def test_only_vulkan_runs_them_and_software_adapters_on_request(bundle: Path) -> None:
    plan = plan_of(bundle)
    kept = [ALL] * len(plan.kernels)
    assert flags(plan, bundle, device()).count(0) > len(kept) / 2
    for backend in ("Metal", "D3D12", "OpenGL", "OpenGLES"):
        assert flags(plan, bundle, device(backend)) == kept
        assert flags(plan, bundle, device(backend), checked=False) == kept
    assert flags(plan, bundle, device(kind="CPU")) == kept
    assert flags(plan, bundle, device(kind="CPU"), checked=False).count(0) > len(kept) / 2
    assert flags(plan, bundle, device(), checked=True) == kept


def test_without_the_compiler_all_checks_stay(bundle: Path) -> None:
    provers._modules.clear()
    assert set(flags(plan_of(bundle), bundle, device())) == {ALL}


def test_what_was_edited_or_is_started_with_a_larger_grid_keeps_its_checks(bundle: Path) -> None:
    plan = plan_of(bundle)
    raw = json.loads((bundle / "plan.json").read_text())
    first = f"kernels/{plan.kernels[0].file}"
    raw["edited"] = {first: plan.kernels[0].sha256}
    edited = read_plan(plan_text(raw).encode())
    assert flags(plan, bundle, device())[0] == 0 and flags(edited, bundle, device())[0] == ALL
    unchecked = Unchecked(device(), plan, "gpu", None)
    dispatch = next(iter(plan.entries.values())).dispatches[0]
    x, y, z = dispatch.grid
    larger = SimpleNamespace(kernel=dispatch.kernel, grid=(x + 1, y, z))
    assert unchecked.covers(dispatch) and not unchecked.covers(larger)  # type: ignore[arg-type]


def test_a_foreign_plan_cannot_say_that_its_kernel_is_proven(bundle: Path, tmp_path: Path) -> None:
    """Its digests are right, and it names no edits, as an attacker would write it."""
    folder = tmp_path / "foreign"
    shutil.copytree(bundle, folder)
    raw = json.loads((folder / "plan.json").read_text())
    spec = raw["kernels"][0]
    path = folder / "kernels" / spec["file"]
    attack = "var<workgroup> attack: array<f32, 4>;\n"
    text = path.read_text()
    end = text.rindex("}")
    text = attack + text[:end] + "  attack[u32(x0[0])] = 1.0;\n}\n"
    path.write_text(print_file(parse_module(text), ""))
    spec["sha256"] = code_digest(path.read_text())
    spec.pop("subgroups", None)
    (folder / "plan.json").write_text(plan_text(raw))
    assert flags(plan_of(bundle), bundle, device())[0] == 0
    assert flags(plan_of(folder), folder, device())[0] == ALL
    spec["proven"] = True
    with pytest.raises(wgcc_runtime.WgccError, match="proven"):
        read_plan(plan_text(raw).encode())


@pytest.mark.parametrize("adapter", ["llvmpipe", "SwiftShader"])
def test_results_are_the_same_bits(
    bundle: Path, adapter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    module = Unchecked.module

    def noted(self: Unchecked, text: str, label: str, flags: int) -> Any:
        made.append(flags)
        result = module(self, text, label, flags)
        assert result is not None, "this wgpu makes no such modules"
        return result

    monkeypatch.setattr(Unchecked, "module", noted)
    digests = []
    for checked in (True, False):
        with wgcc.load(bundle, device=adapter, checked=checked) as model:
            inputs = random_inputs(model.plan)
            model.train(**inputs)
            digests.append(hashlib.sha256(b"".join(x.tobytes() for x in model.params().values())))
            assert bool(made) != checked
    assert digests[0].digest() == digests[1].digest()
    assert set(made) <= {0, LOOPS}


def random_inputs(plan: Plan) -> dict[str, Any]:
    random = np.random.default_rng(5)
    tensors = plan.entries["train"].inputs
    return {name: random.random(item.shape, np.float32) for name, item in tensors.items()}
