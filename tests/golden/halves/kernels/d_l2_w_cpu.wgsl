// d.l2.w
// from halves.wg:13
// 4 x 1 x 1 workgroups of 8 threads (cpu)
//   x0: tanh f32[32, 32]
//   x1: l2.matmul.sum f32[32]
//   x2: y f32[32, 1]
//   y0: d.l2.w.copy f32[32, 1]
enable f16;

@group(0) @binding(0) var<storage, read> x0: array<f16, 1024>;
@group(0) @binding(1) var<storage, read_write> x1: array<f32, 32>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 32>;
@group(0) @binding(3) var<storage, read_write> y0: array<f32, 32>;

const OUTER = 32u;
const INNER = 32u;
const WORKGROUP = 8u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  for (var r = 0u; r < INNER; r++) {
    let x_0 = f32(x0[r * 32u + o]);
    let x_1 = x1[r];
    let x_2 = x2[r];
    let sub_0 = (x_1 - x_2);
    let mul_0 = (sub_0 * 2.0f);
    let mul_1 = (32.0f * mul_0);
    let mul_2 = (x_0 * mul_1);
    sum_0 = (sum_0 + mul_2);
  }
  let copy_0 = sum_0;
  y0[o] = copy_0;
}
