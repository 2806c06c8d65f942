// d.reshape
// from lookups.wg:12
// 3 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: add i32[6]
//   x1: d.square.mul f32[6]
//   y0: d.reshape f32[160]
@group(0) @binding(0) var<storage, read> x0: array<i32, 6>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 6>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 160>;

const OUTER = 160u;
const COUNT = 6u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var total = 0.0f;
  for (var r = 0u; r < COUNT; r++) {
    let x_0 = x0[r];
    if (u32(clamp(x_0, 0, 159)) == o) {
      let x_1 = x1[r];
      total += x_1;
    }
  }
  y0[o] = total;
}
