// sum_2
// from lookups.wg:12
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: argsort i32[4, 40]
//   x1: w f32[4, 40]
//   scalars: values of one element
@group(0) @binding(0) var<storage, read> x0: array<i32, 160>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 160>;
@group(0) @binding(2) var<storage, read_write> scalars: array<u32, 4>;

const OUTER = 1u;
const INNER = 12u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[(r / 3u) * 40u + (r % 3u)];
    let row_0 = u32(clamp(x_0, 0, 39));
    let x_1 = x1[(r / 3u) * 40u + row_0];
    sum_0 = (sum_0 + x_1);
  }
  scalars[3u] = bitcast<u32>(sum_0);
}
