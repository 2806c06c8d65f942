// d.cell.gates
// from loops.wg:11
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: d.cell.c_2 f32[2, 5]
//   round0: index_2 u32
//   x1: cell.new.all f32[6, 2, 5], then cell.input.all f32[6, 2, 5], then state1.all f32[6, 2, 5], then cell.forget.all f32[6, 2, 5], then cell.tanh_2.all f32[6, 2, 5], then cell.output.all f32[6, 2, 5]
//   x2: d.cell.h f32[2, 5]
//   x3: d.out.reshape f32[12, 5]
//   y0: d.cell.wx.add.all f32[6, 2, 20]
@group(0) @binding(0) var<storage, read> x0: array<f32, 10>;
@group(0) @binding(1) var<uniform> round0: vec4u;
@group(0) @binding(2) var<storage, read> x1: array<f32, 420>;
@group(0) @binding(3) var<storage, read> x2: array<f32, 10>;
@group(0) @binding(4) var<storage, read> x3: array<f32, 60>;
@group(0) @binding(5) var<storage, read_write> y0: array<f32, 240>;

const OUTER = 40u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let inside_0 = (o % 20u) < 5u;
  let at_0 = select(0u, (o % 20u), inside_0);
  let x_0 = x0[(o / 20u) * 5u + at_0];
  let x_1 = x1[round0.x * 10u + (o / 20u) * 5u + at_0 + 240u];
  let mul_0 = (x_0 * x_1);
  let x_2 = x1[round0.x * 10u + (o / 20u) * 5u + at_0 + 180u];
  let sub_0 = (1.0f - x_2);
  let mul_1 = (x_2 * sub_0);
  let mul_2 = (mul_0 * mul_1);
  let piece_0 = select(0.0f, mul_2, inside_0);
  let inside_1 = (o % 20u) - 5u < 5u;
  let at_1 = select(0u, (o % 20u) - 5u, inside_1);
  let x_3 = x0[(o / 20u) * 5u + at_1];
  let x_4 = x1[round0.x * 10u + (o / 20u) * 5u + at_1 + 120u];
  let mul_3 = (x_3 * x_4);
  let x_5 = x1[round0.x * 10u + (o / 20u) * 5u + at_1 + 60u];
  let sub_1 = (1.0f - x_5);
  let mul_4 = (x_5 * sub_1);
  let mul_5 = (mul_3 * mul_4);
  let piece_1 = select(piece_0, mul_5, inside_1);
  let inside_2 = (o % 20u) - 10u < 5u;
  let at_2 = select(0u, (o % 20u) - 10u, inside_2);
  let x_6 = x0[(o / 20u) * 5u + at_2];
  let x_7 = x1[round0.x * 10u + (o / 20u) * 5u + at_2 + 180u];
  let mul_6 = (x_6 * x_7);
  let x_8 = x1[round0.x * 10u + (o / 20u) * 5u + at_2 + 240u];
  let square_0 = (x_8 * x_8);
  let sub_2 = (1.0f - square_0);
  let mul_7 = (mul_6 * sub_2);
  let piece_2 = select(piece_1, mul_7, inside_2);
  let inside_3 = (o % 20u) >= 15u;
  let at_3 = select(0u, (o % 20u) - 15u, inside_3);
  let x_9 = x2[(o / 20u) * 5u + at_3];
  let x_10 = x3[(o / 20u) * 30u + round0.x * 5u + at_3];
  let add_0 = (x_9 + x_10);
  let x_11 = x1[round0.x * 10u + (o / 20u) * 5u + at_3 + 360u];
  let mul_8 = (add_0 * x_11);
  let x_12 = x1[round0.x * 10u + (o / 20u) * 5u + at_3 + 300u];
  let sub_3 = (1.0f - x_12);
  let mul_9 = (x_12 * sub_3);
  let mul_10 = (mul_8 * mul_9);
  let piece_3 = select(piece_2, mul_10, inside_3);
  let copy_0 = piece_3;
  y0[round0.x * 40u + o] = copy_0;
}
