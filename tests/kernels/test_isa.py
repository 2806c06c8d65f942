"""`wgcc show --isa`: what real GPU compilers say of kernels, on a machine without a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adapters import ROOT
from cli_runs import run
from wgcc.errors import WgError
from wgcc.isa import tools
from wgcc.isa.causes import causes, count_causes
from wgcc.isa.listing import parse_listing
from wgcc.isa.radv.compile import compile_files
from wgcc.isa.report import CompilerReport, report
from wgcc.isa.targets import warps_per_scheduler
from wgcc.isa.tiles import RADEON_SLOTS, fma_share, tile_share

BUNDLE = str(ROOT / "tests" / "golden" / "regression")
# An index of workgroup memory that no compiler can prove, a counted loop and a conversion.
CHECKED = """
@group(0) @binding(0) var<storage, read> x0: array<u32, 4096>;
@group(0) @binding(1) var<storage, read_write> y0: array<f32, 64>;
var<workgroup> tile: array<f32, 256>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32) {
  tile[lane] = f32(lane);
  workgroupBarrier();
  var sum = 0.0;
  for (var i = 0u; i < x0[0]; i++) {
    let at = x0[i * 64u + lane];
    sum = fma(tile[at], f32(at), sum);
  }
  y0[lane] = sum;
}
"""
# More values are alive at the barrier than a thread has registers.
SPILLED = """
@group(0) @binding(0) var<storage, read> x0: array<f32, 32768>;
@group(0) @binding(1) var<storage, read_write> y0: array<f32, 32768>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32) {
LOADS
  storageBarrier();
STORES
}
"""
RADEON = """
BB0:
\ts_mov_b32 s0, 0                                             ; be800380
BB1:
\tv_min_u32_e32 v9, 7, v8                                     ; 2612
\tv_lshlrev_b32_e32 v9, 2, v9                                 ; 3412
\tds_read_b32 v10, v9                                         ; d8d8
\ts_waitcnt lgkmcnt(0)                                        ; bf8c
\tv_cvt_f32_u32_e32 v11, v8                                   ; 7e16
\tv_fmac_f32_e32 v1, v10, v11                                 ; 5602
\tv_dual_fmac_f32 v2, v10, v11 :: v_dual_fmac_f32 v3, v10, v11 ; c800
\ts_add_u32 s0, s0, 1                                         ; 8000
\ts_cmp_lg_u32 s0, 16                                         ; bf07
\ts_cbranch_scc1 BB1                                          ; bf85
BB2:
\tv_pk_fma_f16 v4, v1, v2, v3                                 ; cc0e
\ts_endpgm                                                    ; bf81
"""
NVIDIA = """
.text.kernel:
\t//## File "kernels.cu", line 7
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   LDS R4, [R2] ;
\t//## File "kernels.cu", line 9
        /*0020*/                   FFMA R5, R4, R6, R5 ;
        /*0030*/                   IADD3 R2, R2, 0x4, RZ ;
        /*0040*/                   ISETP.NE.AND P0, PT, R2, 0x40, PT ;
        /*0050*/               @P0 BRA `(.L_x_1) ;
        /*0060*/                   EXIT ;
"""


@pytest.fixture(autouse=True)
def _dawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_PATH", str(ROOT / ".cache" / "node" / "node_modules"))


def test_a_listing_of_a_radeon():
    listing = parse_listing(RADEON)
    hot = listing.hot_loop()
    assert (hot[0].opcode, hot[-1].opcode) == ("v_min_u32_e32", "s_cbranch_scc1")
    assert causes(hot) == [
        *("clamp", "address", "load", "", "conversion", "fma", "fma", "loop", "loop", "loop"),
    ]
    assert [item.multiply_adds for item in hot if item.kind == "fma"] == [1, 2]
    # Two of five vector instructions; scalar ones take no slot of theirs.
    assert fma_share(((item, 1) for item in hot), RADEON_SLOTS) == pytest.approx(0.4)
    assert listing.multiply_adds(0, len(listing.instructions) - 1) == 5


def test_a_listing_of_nvidia():
    hot = parse_listing(NVIDIA).hot_loop()
    assert [(item.opcode.split(".")[0], item.line) for item in hot] == [
        *(("LDS", 7), ("FFMA", 9), ("IADD3", 9), ("ISETP", 9), ("BRA", 9)),
    ]
    assert count_causes(hot) == {"fma": 1, "load": 1, "loop": 2, "address": 1}


def test_a_tile_counts_the_loops_around_its_products():
    product = "const TK = 16u;\nconst TM = 1u;\nconst TN = 3u;"
    inner = RADEON.replace("BB0:", "BB0:\n\tv_mov_b32_e32 v7, 0 ; 7e").replace(
        "BB2:", "BB2:\n\ts_cbranch_scc0 BB0 ; bf85"
    )
    # 16 times five vector instructions, two of them multiply-adds, and one more per tile.
    assert tile_share(product, parse_listing(inner), RADEON_SLOTS) == pytest.approx(32 / 81, 0.03)
    assert tile_share("", parse_listing(inner), RADEON_SLOTS) is None


@pytest.mark.parametrize(
    ("registers", "shared", "threads", "warps"),
    [(32, 0, 64, 12), (128, 0, 64, 4), (128, 12800, 64, 3), (255, 0, 256, 2)],
)
def test_warps_of_a_scheduler(registers: int, shared: int, threads: int, warps: int):
    assert warps_per_scheduler(registers, shared, threads) == warps


def by_route(text: str, target: str, *routes: str) -> dict[str, CompilerReport]:
    return {item.route: item for item in report({"k": text}, target, routes)}


def test_checks_at_run_time_are_seen():
    made = by_route(CHECKED, "rdna2", "naga", "tint", "trusted")
    assert {route: "clamp" in item.causes for route, item in made.items()} == {
        **{"naga": True, "tint": True, "trusted": False},
    }
    for item in made.values():
        assert item.causes["conversion"] >= 1 and item.causes["fma"] == 1, item
        assert (item.spills, item.threads, item.error) == (0, 64, "")
        assert item.shared == 1024 and item.waves == 16


def test_registers_that_do_not_fit_are_seen():
    numbers = range(400)
    loads = "\n".join(f"  let a{i} = x0[lane + {64 * i}u];" for i in numbers)
    stores = "\n".join(f"  y0[lane + {64 * i}u] = a{399 - i};" for i in numbers)
    text = SPILLED.replace("LOADS", loads).replace("STORES", stores)
    assert by_route(text, "rdna2", "naga")["naga"].spills > 50
    assert by_route(text, "sm_89", "nvrtc")["nvrtc"].spills > 50


def test_a_kernel_that_does_not_compile_is_an_error_of_its_own():
    wrong = CHECKED.replace("f32(at)", "missing")
    for target, route in (("rdna2", "naga"), ("rdna2", "tint"), ("sm_89", "nvrtc")):
        good, bad = report({"good": CHECKED, "bad": wrong}, target, [route])
        assert not good.error and "missing" in bad.error


def test_a_kernel_that_was_edited_beyond_what_wgcc_reads():
    text = CHECKED.replace("y0[lane] = sum;", "switch lane { default: { y0[lane] = sum; } }")
    by_naga = by_route(text, "rdna2", "naga")["naga"]
    assert by_naga.registers > 0 and (by_naga.threads, by_naga.error) == (0, "")
    assert by_route(text, "sm_89", "nvrtc")["nvrtc"].error


def test_a_driver_that_crashes_is_an_error(tmp_path: Path):
    file = tmp_path / "0.spv"
    file.write_bytes(bytes.fromhex("03022307 00000100 00000000 05000000 00000000 ffff0300"))
    with pytest.raises(WgError, match="RADV"):
        result = compile_files({"broken": file}, ["navi21"])
        raise WgError(f"RADV: {result['broken']['error']}")
    with pytest.raises(WgError, match="this Mesa knows no nonsense"):
        compile_files({"broken": file}, ["nonsense"])


def test_the_command_shows_all_kernels(capsys: pytest.CaptureFixture[str]):
    code, text, _ = run(capsys, "show", BUNDLE, "--isa", "rdna3")
    assert code == 0 and "nothing ran" in text
    rows = [line.split()[:2] for line in text.splitlines() if "l2_matmul_mul " in line]
    assert rows == [["l2_matmul_mul", "naga"], ["l2_matmul_mul", "tint"]]


def test_the_command_shows_a_listing(capsys: pytest.CaptureFixture[str]):
    options = ("show", BUNDLE, "--isa", "sm_89", "--kernel", "l2_matmul_mul")
    code, text, _ = run(capsys, *options)
    assert code == 0 and "l2_matmul_mul by nvrtc, from regression.wg:9" in text
    assert "x0[m * 3u + k]" in text  # the kernel's line beside an instruction
    code, text, _ = run(capsys, *options, "--json")
    (facts,) = json.loads(text)
    assert facts["registers"] > 0 and facts["spills"] == 0
    assert {"fma", "load"} <= {row["cause"] for row in facts["listing"]}


def test_mistakes_are_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    code, _, said = run(capsys, "show", BUNDLE, "--isa", "rdna2", "--memory")
    assert code == 2 and "--isa goes with --kernel" in said
    code, _, said = run(capsys, "show", BUNDLE, "--isa", "rdna2", "--kernel", "nothing")
    assert code == 1 and "there is no kernel nothing" in said
    monkeypatch.setattr(tools, "driver_file", lambda driver: None)
    code, _, said = run(capsys, "show", BUNDLE, "--isa", "rdna2")
    assert code == 1 and "Mesa's RADV driver: apt install mesa-vulkan-drivers" in said
    code, text, _ = run(capsys, "doctor")
    assert "rdna2 by naga  needs Mesa's RADV driver" in text and "sm_89 by nvrtc ready" in text
