// d.state1
// from loops.wg:15
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: d.cell.c f32[2, 5], then d.state1 f32[2, 5]
//   x1: d.cell.h f32[2, 5]
//   round0: index_2 u32
//   x2: d.out.reshape f32[12, 5]
//   x3: cell.output.all f32[6, 2, 5], then cell.tanh_2.all f32[6, 2, 5], then cell.forget.all f32[6, 2, 5]
//   y0: d.cell.c_2 f32[2, 5]
@group(0) @binding(0) var<storage, read_write> x0: array<f32, 10>;
@group(0) @binding(1) var<storage, read_write> x1: array<f32, 10>;
@group(0) @binding(2) var<uniform> round0: vec4u;
@group(0) @binding(3) var<storage, read_write> x2: array<f32, 60>;
@group(0) @binding(4) var<storage, read> x3: array<f32, 420>;
@group(0) @binding(5) var<storage, read_write> y0: array<f32, 10>;

const OUTER = 10u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = x0[o];
  let x_1 = x1[o];
  let x_2 = x2[(o / 5u) * 30u + round0.x * 5u + (o % 5u)];
  let add_0 = (x_1 + x_2);
  let x_3 = x3[round0.x * 10u + o + 300u];
  let mul_0 = (add_0 * x_3);
  let x_4 = x3[round0.x * 10u + o + 360u];
  let square_0 = (x_4 * x_4);
  let sub_0 = (1.0f - square_0);
  let mul_1 = (mul_0 * sub_0);
  let add_1 = (x_0 + mul_1);
  let x_5 = x3[round0.x * 10u + o + 60u];
  let mul_2 = (add_1 * x_5);
  y0[o] = add_1;
  x0[o] = mul_2;
}
