// Sets flag[0] when any word of the given ranges, each from its FIRST on, is NaN or infinite.
// The bits are tested because WGSL compilers may assume that NaN does not occur. Seven ranges are
// what fits beside the flag, so that an optimizer's tensors take one dispatch; a range that is not
// needed has a FIRST beyond its end.

override FIRST_0: u32;
override FIRST_1: u32;
override FIRST_2: u32;
override FIRST_3: u32;
override FIRST_4: u32;
override FIRST_5: u32;
override FIRST_6: u32;

@group(0) @binding(0) var<storage, read> values_0: array<u32>;
@group(0) @binding(1) var<storage, read> values_1: array<u32>;
@group(0) @binding(2) var<storage, read> values_2: array<u32>;
@group(0) @binding(3) var<storage, read> values_3: array<u32>;
@group(0) @binding(4) var<storage, read> values_4: array<u32>;
@group(0) @binding(5) var<storage, read> values_5: array<u32>;
@group(0) @binding(6) var<storage, read> values_6: array<u32>;
@group(0) @binding(7) var<storage, read_write> flag: array<atomic<u32>>;

fn is_bad(word: u32) -> bool {
  return (word & 0x7f800000u) == 0x7f800000u;
}

// One thread looks at every (number of threads)-th word of each range.
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let step = groups.x * 64u;
  var bad = false;
  for (var i = FIRST_0 + id.x; i < arrayLength(&values_0); i += step) {
    bad = bad || is_bad(values_0[i]);
  }
  for (var i = FIRST_1 + id.x; i < arrayLength(&values_1); i += step) {
    bad = bad || is_bad(values_1[i]);
  }
  for (var i = FIRST_2 + id.x; i < arrayLength(&values_2); i += step) {
    bad = bad || is_bad(values_2[i]);
  }
  for (var i = FIRST_3 + id.x; i < arrayLength(&values_3); i += step) {
    bad = bad || is_bad(values_3[i]);
  }
  for (var i = FIRST_4 + id.x; i < arrayLength(&values_4); i += step) {
    bad = bad || is_bad(values_4[i]);
  }
  for (var i = FIRST_5 + id.x; i < arrayLength(&values_5); i += step) {
    bad = bad || is_bad(values_5[i]);
  }
  for (var i = FIRST_6 + id.x; i < arrayLength(&values_6); i += step) {
    bad = bad || is_bad(values_6[i]);
  }
  if (bad) {
    atomicOr(&flag[0], 1u);
  }
}
