// d.best.add_along
// from lookups.wg:10
// 3 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: argsort i32[4, 40]
//   y0: d.best.add_along f32[4, 40]
@group(0) @binding(0) var<storage, read> x0: array<i32, 160>;
@group(0) @binding(1) var<storage, read_write> y0: array<f32, 160>;

const OUTER = 160u;
const COUNT = 3u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var total = 0.0f;
  for (var r = 0u; r < COUNT; r++) {
    let x_0 = x0[(o / 40u) * 40u + r];
    if (u32(clamp(x_0, 0, 39)) == (o % 40u)) {
      total += 0.08333333333333333f;
    }
  }
  y0[o] = total;
}
