// d.l3.w
// from halves.wg:14
// 2 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: l2.matmul f32[32, 32]
//   x1: l3.matmul.sum f32[32]
//   x2: y f32[32, 1]
//   y0: d.l3.w.copy f32[32, 1]
enable subgroups;
enable f16;

@group(0) @binding(0) var<storage, read_write> x0: array<f16, 1024>;
@group(0) @binding(1) var<storage, read_write> x1: array<f32, 32>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 32>;
@group(0) @binding(3) var<storage, read_write> y0: array<f32, 32>;

const OUTER = 32u;
const INNER = 32u;
const LANES = 64u;
const WIDTH = 16u;
const ROWS = 4u;

// One workgroup for WIDTH results that are side by side. Each of its lanes takes every ROWS-th row
// of one of them; then they combine what they found by halves.
var<workgroup> shared_sum_0: array<f32, LANES>;

@compute @workgroup_size(LANES)
fn main(
  @builtin(subgroup_invocation_id) wg_id: u32,
  @builtin(subgroup_size) wg_size: u32,
  @builtin(workgroup_id) id: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  wg_find_block(wg_id, wg_size);
  let tile = id.x;
  let first = tile * WIDTH;
  if (first >= OUTER) { return; }
  let column = lane % WIDTH;
  let o = first + column;
  let row = lane / WIDTH;
  var sum_0: f32 = 0.0f;
  for (var r = row; r < INNER; r += ROWS) {
    let x_0 = f32(x0[r * 32u + o]);
    let x_1 = x1[r];
    let x_2 = x2[r];
    let sub_0 = (x_1 - x_2);
    let mul_0 = (sub_0 * 2.0f);
    let mul_1 = (32.0f * mul_0);
    let mul_2 = (x_0 * mul_1);
    sum_0 = (sum_0 + mul_2);
  }
  shared_sum_0[lane] = sum_0;
  workgroupBarrier();
  sum_0 = wg_shared_sum_0(column);
  let copy_0 = sum_0;
  if (lane < WIDTH) {
    y0[o] = copy_0;
  }
}

var<private> wg_block: u32;
var<private> wg_member: u32;
var<private> wg_first: u32;

// Blocks of 32 or fewer invocations of a subgroup; of 1, unless all of them are there.
fn wg_find_block(id: u32, size: u32) {
  let block = min(size, 32u);
  wg_member = id % block;
  wg_first = id - wg_member;
  let mask = (0xffffffffu >> (32u - block)) << (wg_first % 32u);
  let whole = (subgroupBallot(true)[id / 32u] & mask) == mask;
  wg_block = select(1u, block, subgroupAll(whole && block >= 4u));
}

fn wg_shared_sum_0_pair(a: f32, b: f32) -> f32 {
  return (a + b);
}

// Every `step`-th element, by halves.
fn wg_shared_sum_0_some(first: u32, step: u32) -> f32 {
  var stack: array<f32, 9>;
  var depth = 0u;
  let count = 64u / step;
  for (var i = 0u; i < count; i++) {
    var x = shared_sum_0[first + step * (reverseBits(i) >> (countLeadingZeros(count) + 1u))];
    for (var ones = i; ones % 2u == 1u; ones /= 2u) {
      depth--;
      x = wg_shared_sum_0_pair(stack[depth], x);
    }
    stack[depth] = x;
    depth++;
  }
  return stack[0];
}

// All invocations shuffle, if they need it or not: shuffles must be in uniform control flow.
fn wg_shared_sum_0(own: u32) -> f32 {
  var x: f32;
  var y: f32;
  if (wg_block == 32u) {
    x = wg_shared_sum_0_pair(shared_sum_0[wg_member + 0u], shared_sum_0[wg_member + 32u]);
  } else {
    x = wg_shared_sum_0_some(select(own, wg_member, wg_block > 16u), max(wg_block, 16u));
  }
  y = f32(subgroupShuffleXor(f32(x), 16u));
  if (wg_block > 16u) { x = wg_shared_sum_0_pair(x, y); }
  y = f32(subgroupShuffle(f32(x), wg_first + own));
  return select(x, y, wg_block > 16u);
}
