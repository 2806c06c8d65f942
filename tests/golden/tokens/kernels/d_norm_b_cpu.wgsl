// d.norm.b
// from tokens.wg:13
// 1 x 1 x 1 workgroups of 8 threads (cpu)
//   x0: d.mix.reshape f32[10, 4]
//   x1: norm.layer_norm.mul_8 f32[2, 5, 4]
//   y0: d.norm.g f32[4]
//   y1: d.norm.b f32[4]
@group(0) @binding(0) var<storage, read> x0: array<f32, 40>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 40>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 4>;
@group(0) @binding(3) var<storage, read_write> y1: array<f32, 4>;

const OUTER = 4u;
const INNER = 10u;
const WORKGROUP = 8u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  var sum_1: f32 = 0.0f;
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[r * 4u + o];
    let x_1 = x1[r * 4u + o];
    let mul_0 = (x_0 * x_1);
    sum_0 = (sum_0 + mul_0);
    sum_1 = (sum_1 + x_0);
  }
  y0[o] = sum_0;
  y1[o] = sum_1;
}
