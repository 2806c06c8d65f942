// Sets flag[0] when any word of `values`, from word FIRST on, is NaN or infinite.
// The bits are tested because WGSL compilers may assume that NaN does not occur.

override FIRST: u32 = 0u;

@group(0) @binding(0) var<storage, read> values: array<u32>;
@group(0) @binding(1) var<storage, read_write> flag: array<atomic<u32>>;

// One thread looks at every (number of threads)-th word.
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let exponent = 0x7f800000u;
  var bad = 0u;
  for (var i = FIRST + id.x; i < arrayLength(&values); i += groups.x * 64u) {
    bad |= select(0u, 1u, (values[i] & exponent) == exponent);
  }
  if (bad != 0u) {
    atomicOr(&flag[0], 1u);
  }
}
