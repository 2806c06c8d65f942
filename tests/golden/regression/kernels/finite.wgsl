// finite
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: opt/opt/exp_avg/l1.w to opt/opt/exp_avg/l2.b
//   x1: opt/opt/exp_avg_sq/l1.w to opt/opt/exp_avg_sq/l2.b
//   x2: l1.w to l2.b
//   flag: 1 if a word is NaN or infinite
@group(0) @binding(0) var<storage, read> x0: array<u32, 193>;
@group(0) @binding(1) var<storage, read> x1: array<u32, 193>;
@group(0) @binding(2) var<storage, read> x2: array<u32, 193>;
@group(0) @binding(3) var<storage, read_write> flag: array<atomic<u32>, 1>;

const STRIDE = 64u;
const WORKGROUP = 64u;
const FIRST_0 = 0u;
const FIRST_1 = 0u;
const FIRST_2 = 0u;
const COUNT_0 = 193u;
const COUNT_1 = 193u;
const COUNT_2 = 193u;

// The bits are tested, because WGSL compilers may assume that NaN does not occur.
fn is_bad(word: u32) -> bool {
  return (word & 0x7f800000u) == 0x7f800000u;
}

// One thread looks at every STRIDE-th word of each range, from its FIRST on.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  var bad = false;
  for (var i = FIRST_0 + id.x; i < COUNT_0; i += STRIDE) {
    bad = bad || is_bad(x0[i]);
  }
  for (var i = FIRST_1 + id.x; i < COUNT_1; i += STRIDE) {
    bad = bad || is_bad(x1[i]);
  }
  for (var i = FIRST_2 + id.x; i < COUNT_2; i += STRIDE) {
    bad = bad || is_bad(x2[i]);
  }
  if (bad) {
    atomicOr(&flag[0], 1u);
  }
}
