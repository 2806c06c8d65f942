// sums
// from memory.wg:15
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: window_update f32[6, 3]
//   y0: sums f32[6, 3]
@group(0) @binding(0) var<storage, read> x0: array<f32, 18>;
@group(0) @binding(1) var<storage, read_write> y0: array<f32, 18>;

const OUTER = 3u;
const INNER = 6u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var h = 0.0;
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[r * 3u + o];
    h = fma(1.0f, h, x_0);
    y0[r * 3u + o] = h;
  }
}
