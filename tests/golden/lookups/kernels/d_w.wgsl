// d.w
// from lookups.wg:10
// 3 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: d.reshape f32[160]
//   x1: d.highest.add_along f32[4, 40]
//   x2: d.best.add_along f32[4, 40]
//   y0: d.w f32[4, 40]
@group(0) @binding(0) var<storage, read> x0: array<f32, 160>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 160>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 160>;
@group(0) @binding(3) var<storage, read_write> y0: array<f32, 160>;

const OUTER = 160u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = x0[o];
  let x_1 = x1[o];
  let add_0 = (x_0 + x_1);
  let x_2 = x2[o];
  let add_1 = (add_0 + x_2);
  y0[o] = add_1;
}
