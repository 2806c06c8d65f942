// d.cell.gates
// from loops.wg:11
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: d.cell.slice_4 f32[2, 5]
//   x1: d.cell.c_2 f32[2, 5]
//   round0: index_2 u32
//   x2: cell.input.all f32[6, 2, 5], then cell.new.all f32[6, 2, 5], then state1.all f32[6, 2, 5], then cell.forget.all f32[6, 2, 5]
//   y0: d.cell.wx.add.all f32[6, 2, 20]
@group(0) @binding(0) var<storage, read> x0: array<f32, 10>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 10>;
@group(0) @binding(2) var<uniform> round0: vec4u;
@group(0) @binding(3) var<storage, read> x2: array<f32, 420>;
@group(0) @binding(4) var<storage, read_write> y0: array<f32, 240>;

const OUTER = 40u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let inside_0 = (o % 20u) >= 15u;
  let at_0 = select(0u, (o / 20u) * 5u + (o % 20u) - 15u, inside_0);
  let x_0 = x0[at_0];
  let piece_0 = select(0.0f, x_0, inside_0);
  let inside_1 = (o % 20u) - 10u < 5u;
  let at_1 = select(0u, (o % 20u) - 10u, inside_1);
  let x_1 = x1[(o / 20u) * 5u + at_1];
  let x_2 = x2[round0.x * 10u + (o / 20u) * 5u + at_1 + 180u];
  let mul_0 = (x_1 * x_2);
  let x_3 = x2[round0.x * 10u + (o / 20u) * 5u + at_1 + 240u];
  let square_0 = (x_3 * x_3);
  let sub_0 = (1.0f - square_0);
  let mul_1 = (mul_0 * sub_0);
  let piece_1 = select(0.0f, mul_1, inside_1);
  let add_0 = (piece_0 + piece_1);
  let inside_2 = (o % 20u) - 5u < 5u;
  let at_2 = select(0u, (o % 20u) - 5u, inside_2);
  let x_4 = x1[(o / 20u) * 5u + at_2];
  let x_5 = x2[round0.x * 10u + (o / 20u) * 5u + at_2 + 120u];
  let mul_2 = (x_4 * x_5);
  let x_6 = x2[round0.x * 10u + (o / 20u) * 5u + at_2 + 60u];
  let sub_1 = (1.0f - x_6);
  let mul_3 = (x_6 * sub_1);
  let mul_4 = (mul_2 * mul_3);
  let piece_2 = select(0.0f, mul_4, inside_2);
  let add_1 = (add_0 + piece_2);
  let inside_3 = (o % 20u) < 5u;
  let at_3 = select(0u, (o % 20u), inside_3);
  let x_7 = x1[(o / 20u) * 5u + at_3];
  let x_8 = x2[round0.x * 10u + (o / 20u) * 5u + at_3 + 240u];
  let mul_5 = (x_7 * x_8);
  let x_9 = x2[round0.x * 10u + (o / 20u) * 5u + at_3 + 180u];
  let sub_2 = (1.0f - x_9);
  let mul_6 = (x_9 * sub_2);
  let mul_7 = (mul_5 * mul_6);
  let piece_3 = select(0.0f, mul_7, inside_3);
  let add_2 = (add_1 + piece_3);
  y0[round0.x * 40u + o] = add_2;
}
