// d.l1.b
// from regression.wg:9
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: d.l1.add f32[6, 5]
//   y0: d.l1.b f32[5]
@group(0) @binding(0) var<storage, read> x0: array<f32, 30>;
@group(0) @binding(1) var<storage, read_write> y0: array<f32, 5>;

const OUTER = 5u;
const INNER = 6u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[r * 5u + o];
    sum_0 = (sum_0 + x_0);
  }
  y0[o] = sum_0;
}
