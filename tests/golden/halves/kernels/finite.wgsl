// finite
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: l2.w to l3.w
//   flag: 1 if a word is NaN or infinite
@group(0) @binding(0) var<storage, read> x0: array<u32, 1248>;
@group(0) @binding(1) var<storage, read_write> flag: array<atomic<u32>, 1>;

const STRIDE = 64u;
const WORKGROUP = 64u;
const FIRST_0 = 0u;
const COUNT_0 = 1248u;

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
  if (bad) {
    atomicOr(&flag[0], 1u);
  }
}
