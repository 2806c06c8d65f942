// opt.grad_norm
// from tokens.wg:28
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: opt.sum_squares.flat f32[328]
//   scalars: values of one element
enable subgroups;

@group(0) @binding(0) var<storage, read> x0: array<f32, 328>;
@group(0) @binding(1) var<storage, read_write> scalars: array<u32, 8>;

const OUTER = 1u;
const INNER = 328u;
const LANES = 64u;

// One workgroup per result: its lanes share the row, then combine what they found by halves.
var<workgroup> shared_sum_0: array<f32, LANES>;

@compute @workgroup_size(LANES)
fn main(
  @builtin(subgroup_invocation_id) wg_id: u32,
  @builtin(subgroup_size) wg_size: u32,
  @builtin(workgroup_id) id: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  wg_find_block(wg_id, wg_size);
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  for (var r = lane; r < INNER; r += LANES) {
    let x_0 = x0[r];
    let square_0 = (x_0 * x_0);
    sum_0 = (sum_0 + square_0);
  }
  shared_sum_0[lane] = sum_0;
  workgroupBarrier();
  sum_0 = wg_shared_sum_0(0);
  let sqrt_0 = sqrt(sum_0);
  if (lane == 0u) {
    scalars[3u] = bitcast<u32>(sqrt_0);
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
  } else if (wg_block == 16u) {
    x = wg_shared_sum_0_pair(wg_shared_sum_0_pair(shared_sum_0[wg_member + 0u], shared_sum_0[wg_member + 32u]), wg_shared_sum_0_pair(shared_sum_0[wg_member + 16u], shared_sum_0[wg_member + 48u]));
  } else {
    x = wg_shared_sum_0_some(select(own, wg_member, wg_block > 1u), max(wg_block, 1u));
  }
  y = f32(subgroupShuffleXor(f32(x), 16u));
  if (wg_block > 16u) { x = wg_shared_sum_0_pair(x, y); }
  y = f32(subgroupShuffleXor(f32(x), 8u));
  if (wg_block > 8u) { x = wg_shared_sum_0_pair(x, y); }
  y = f32(subgroupShuffleXor(f32(x), 4u));
  if (wg_block > 4u) { x = wg_shared_sum_0_pair(x, y); }
  y = f32(subgroupShuffleXor(f32(x), 2u));
  if (wg_block > 2u) { x = wg_shared_sum_0_pair(x, y); }
  y = f32(subgroupShuffleXor(f32(x), 1u));
  if (wg_block > 1u) { x = wg_shared_sum_0_pair(x, y); }
  y = f32(subgroupShuffle(f32(x), wg_first + own));
  return select(x, y, wg_block > 1u);
}
