"""The access model: patterns whose counts are known by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from example_runs import ROOT
from wgcc.access.devices import DEVICES, device_like, seconds
from wgcc.access.model import Access, access_of, access_or_none
from wgcc.backends.wgsl.print_tree import print_kernel
from wgcc.compiler import compile_file
from wgcc.kernel.parse import parse_module, readable_module
from wgcc.kernel.tree import Module
from wgcc.schedule.kernels.context import tree_of

HEAD = """
@group(0) @binding(0) var<storage, read> x0: array<f32, 65536>;
@group(0) @binding(1) var<storage, read_write> y0: array<f32, 65536>;
@group(0) @binding(2) var<storage, read> v0: array<vec4f, 16384>;
@group(0) @binding(3) var<storage, read> ids: array<u32, 1024>;
const STRIDE = {stride}u;
var<workgroup> words: array<f32, 2112>;
var<workgroup> vectors: array<vec4f, 1024>;

fn at(row: u32, col: u32) -> u32 {{ return row * 1024u + col; }}

@compute @workgroup_size({lanes})
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) group: vec3u) {{
{body}
}}
"""


def kernel(body: str, stride: int = 33, lanes: int = 32) -> Module:
    return parse_module(HEAD.format(body=body, stride=stride, lanes=lanes))


def modelled(body: str, stride: int = 33, groups: int = 1) -> Access:
    return access_of(kernel(body, stride), (groups, 1, 1))


@pytest.mark.parametrize(
    ("load", "sectors", "ideal"),
    [
        ("x0[lane]", 4, 4),  # side by side
        ("x0[lane + 1u]", 5, 4),  # not aligned
        ("x0[lane * 2u]", 8, 4),
        ("x0[lane * 4u]", 16, 4),
        ("x0[at(lane, 3u)]", 32, 4),  # a column of a matrix of rows
        ("x0[at(lane / 4u, lane % 4u)]", 8, 4),  # 8 rows of 4
        ("x0[7u]", 1, 1),  # the same for all
        ("x0[31u - lane]", 4, 4),
        ("v0[lane].x", 16, 4),  # one component of each vector
    ],
)
def test_sectors_of_a_load(load: str, sectors: int, ideal: int) -> None:
    found = modelled(f"  let x = {load};")
    (site,) = found.sites
    assert (site.sectors, site.ideal, site.is_store) == (sectors, ideal, False)
    assert found.sector_ratio == sectors / ideal


def test_vectors_are_one_access() -> None:
    (site,) = modelled("  let x = v0[lane];").sites
    assert (site.size, site.accesses, site.sectors, site.ideal) == (16, 1, 16, 16)


def test_inactive_lanes_touch_nothing() -> None:
    (site,) = modelled("  if (lane >= 8u) { return; }\n  y0[lane] = 1.0;").sites
    assert (site.sectors, site.is_store) == (1, True)


def test_lanes_of_64() -> None:
    (site,) = access_of(kernel("  let x = x0[lane / 32u * 8u];", lanes=64), (1, 1, 1)).sites
    # Two subgroups of 32 read a sector each; together they read two different ones.
    assert (site.sectors, site.sectors_64, site.ideal, site.ideal_64) == (2, 2, 2, 1)


@pytest.mark.parametrize(
    ("access", "stride", "ways", "cycles"),
    [
        ("words[lane]", 0, 1, 1),
        ("words[lane * 2u]", 0, 2, 2),
        ("words[lane * STRIDE]", 32, 32, 32),  # a column of a tile
        ("words[lane * STRIDE]", 33, 1, 1),  # a column of a padded tile
        ("words[lane % 16u * STRIDE + lane / 16u]", 34, 1, 1),  # two columns of 16
        ("words[5u]", 0, 1, 1),  # broadcast
        ("vectors[lane]", 0, 1, 4),  # quarters of 8 lanes
        ("vectors[lane * 2u]", 0, 2, 8),
        ("vectors[lane * STRIDE]", 16, 8, 32),
        ("vectors[lane * STRIDE]", 17, 1, 4),
        ("vectors[lane % 4u * 4u * STRIDE + lane / 4u]", 17, 2, 8),
    ],
)
def test_bank_conflicts(access: str, stride: int, ways: int, cycles: int) -> None:
    found = modelled(f"  let x = {access};", stride)
    (site,) = found.shared
    assert (site.ways, site.cycles) == (ways, cycles)
    assert found.bank_conflicts == ways


def test_half_the_bandwidth_takes_twice_as_long_unless_lanes_read_the_same() -> None:
    assert modelled("  let x = vectors[lane];").shared_cycles(64) == 8
    assert modelled("  let x = vectors[lane / 8u];").shared_cycles(64) == 4


def test_loops_are_weighted_by_their_length() -> None:
    body = "  var s = 0.0;\n  for (var k = 0u; k < 1000u; k++) { s = fma(x0[lane], 2.0, s); }"
    found = modelled(body)
    assert found.counts.fma == pytest.approx(1000)
    assert found.sites[0].accesses == pytest.approx(1000)
    # Lanes take turns: the last iterations have fewer of them.
    found = modelled("  for (var i = lane; i < 40u; i += 32u) { let x = x0[i]; }")
    assert found.sites[0].sectors == 5


def test_all_workgroups_count() -> None:
    body = "  let i = group.x * 32u + lane;\n  if (i >= 2992u) { return; }\n  y0[i] = 1.0;"
    # 94 workgroups, of which the last has 16 lanes to do.
    assert modelled(body, groups=94).sites[0].sectors == 93 * 4 + 2


def test_what_numbers_decide_goes_both_ways() -> None:
    body = "  if (x0[lane] > 0.0) { y0[lane] = 1.0; } else { y0[lane * 2u] = 2.0; }"
    assert [site.sectors for site in modelled(body).sites] == [4, 4, 8]


def test_looked_up_rows_are_scattered() -> None:
    found = modelled("  let row = min(ids[lane], 999u);\n  let x = x0[at(row, 0u)];")
    assert found.sites[0].sectors == 4 and found.sites[1].sectors > 24


def test_registers_that_are_alive_at_once() -> None:
    body = """
  let a = x0[lane];
  let b = x0[lane + 32u];
  let c = a + b;
  let four = vec4f(c);
  y0[lane] = four.x;
"""
    # `a` and `b` end where `c` begins; `four` takes 4 beside `c`.
    assert modelled(body).live == 5
    kept = """
  var sums: array<f32, 8>;
  var four = vec4f();
  for (var k = 0u; k < 8u; k++) {
    let a = v0[lane + k];
    four += a;
  }
  y0[lane] = four.x + sums[0];
"""
    assert modelled(kept).live == 8 + 4 + 4
    # What all lanes have in common takes no register of a lane.
    assert modelled("  let i = group.x * 8u;\n  y0[i] = 1.0;").live == 0


def test_useful_share_and_roofline() -> None:
    loop = "for (var k = 0u; k < 1000u; k++) { s = fma(s, 2.0, s); }"
    body = f"  var s = 0.0;\n  {loop}\n  y0[lane] = s;"
    found = access_of(kernel(body), (46, 1, 1), flops=46 * 32 * 1000)
    assert found.useful == pytest.approx(0.5)
    nvidia = DEVICES[0]
    # 1000 multiply-adds and one store of a subgroup in each unit, four subgroups a cycle.
    cycles = (1000 + found.counts.integers / 46 + 1) / 4
    assert seconds(found, nvidia) == pytest.approx(cycles / 2.475e9)
    one_more = access_of(kernel(body), (47, 1, 1), flops=47 * 32 * 1000)
    assert seconds(one_more, nvidia) == pytest.approx(2 * cycles / 2.475e9, rel=1e-3)
    count = 504_200_000 // 128
    body = "  y0[32u * group.x + lane] = 1.0;"
    much = access_of(kernel(body), (count, 1, 1), bound=[0, 128 * count, 0, 0])
    assert seconds(much, nvidia) == pytest.approx(1e-3)


def test_bytes_that_memory_must_give_and_take() -> None:
    def least(body: str, groups: int = 1) -> int:
        return access_of(kernel(body), (groups, 1, 1), bound=[10**9, 10**9, 256, 64]).least_bytes

    assert least("  y0[lane] = 1.0;") == 128
    # An update in place loads and stores.
    assert least("  y0[lane] += 1.0;") == 2 * 128
    # What several workgroups load comes from memory once, and no binding gives more than it has.
    assert least("  y0[32u * group.x + lane] = v0[lane].x;", 8) == 8 * 128 + 256
    # A lookup loads rows, not the table.
    row = "x0[1024u * ids[group.x] + lane]"
    assert least(f"  y0[32u * group.x + lane] = {row};", 8) == 8 * 128 + 8 * 128 + 64


def test_devices_have_their_published_peaks() -> None:
    peaks = {"RTX 4070": 29.1, "Apple M2": 3.58, "Adreno 740": 2.09, "Radeon 780M": 8.29}
    for device in DEVICES:
        assert device.tflops == pytest.approx(peaks.get(device.name, 2.0), rel=0.01)
    assert device_like("NVIDIA GeForce RTX 4070").name == "RTX 4070"
    assert device_like("Apple M2 Max").name == "Apple M2"
    assert device_like("AMD Radeon RX 7600").name == "Radeon 780M"


def test_a_kernel_that_cannot_be_read_has_no_figures() -> None:
    unreadable = readable_module("fn main() { switch x { default: {} } }")
    assert access_or_none(unreadable, (1, 1, 1)) is None
    assert access_or_none(kernel("  y0[lane] = strange(lane)[3].q;"), (1, 1, 1)) is None


def test_a_tree_has_the_figures_of_its_text() -> None:
    """Nodes that stand at several places of a tree count at each of them."""
    schedule = compile_file(ROOT / "examples" / "sin" / "model.wg").schedule
    for dispatch in schedule.dispatches:
        launch = dispatch.launches["gpu"]
        text = print_kernel(launch.kernel)
        tree, parsed = tree_of(launch.kernel), parse_module(text)
        assert access_of(tree, launch.grid) == access_of(parsed, launch.grid), text
    shared = kernel("  y0[lane] = x0[lane * 8u];\n  y0[lane] = x0[lane * 8u];")
    main = shared.functions["main"]
    same = Module((*shared.declarations[:-1], replace(main, body=main.body[:1] * 2)))
    assert access_of(same, (1, 1, 1)) == access_of(shared, (1, 1, 1))


def test_arrays_in_arrays_have_the_addresses_of_one_array() -> None:
    """Rows of four words: lanes a row apart wait for the same banks, in either form."""
    page = """
    const ROWS = 64u;
    var<workgroup> tile: array<{kind}>;
    @group(0) @binding(0) var<storage, read_write> y: array<f32, 64>;
    @compute @workgroup_size(64)
    fn main(@builtin(local_invocation_index) i: u32) {{
      tile{at} = 1.0;
      workgroupBarrier();
      y[i] = tile{at};
    }}
    """
    nested = page.format(kind="array<array<f32, 4>, ROWS>, 2", at="[1u][i][2]")
    flat = page.format(kind="f32, 512", at="[256u + i * 4u + 2u]")
    one, other = (access_of(parse_module(text), (1, 1, 1)) for text in (nested, flat))
    assert one.bank_conflicts == other.bank_conflicts == 4
    assert one.shared_cycles(128) == other.shared_cycles(128)
