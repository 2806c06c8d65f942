// d.l3.w
// from halves.wg:14
// 2 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: l2.matmul f32[32, 32]
//   x1: l3.matmul.sum f32[32]
//   x2: y f32[32, 1]
//   y0: d.l3.w.copy f32[32, 1]
enable f16;

@group(0) @binding(0) var<storage, read_write> x0: array<f16, 1024>;
@group(0) @binding(1) var<storage, read_write> x1: array<f32, 32>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 32>;
@group(0) @binding(3) var<storage, read_write> y0: array<f32, 32>;

const OUTER = 32u;
const INNER = 32u;
const LANES = 64u;
const WIDTH = 16u;
const ROWS = 4u;

// One workgroup for WIDTH results that are side by side. Each of its lanes takes every ROWS-th row
// of one of them; then they combine what they found by halves.
var<workgroup> shared_sum_0: array<f32, LANES>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) lane: u32) {
  let tile = id.x;
  let first = tile * WIDTH;
  if (first >= OUTER) { return; }
  let column = lane % WIDTH;
  let o = first + column;
  let row = lane / WIDTH;
  var sum_0: f32 = 0.0f;
  for (var r_first = row; r_first < INNER; r_first += 8u * ROWS) {
    let r_0 = r_first;
    let x_0_0 = f32(x0[r_0 * 32u + o]);
    let x_1_0 = x1[r_0];
    let x_2_0 = x2[r_0];
    let sub_0_0 = (x_1_0 - x_2_0);
    let mul_0_0 = (sub_0_0 * 2.0f);
    let mul_1_0 = (32.0f * mul_0_0);
    let mul_2_0 = (x_0_0 * mul_1_0);
    sum_0 = (sum_0 + mul_2_0);
    let r_1 = r_first + 1u * ROWS;
    let x_0_1 = f32(x0[r_1 * 32u + o]);
    let x_1_1 = x1[r_1];
    let x_2_1 = x2[r_1];
    let sub_0_1 = (x_1_1 - x_2_1);
    let mul_0_1 = (sub_0_1 * 2.0f);
    let mul_1_1 = (32.0f * mul_0_1);
    let mul_2_1 = (x_0_1 * mul_1_1);
    sum_0 = (sum_0 + mul_2_1);
    let r_2 = r_first + 2u * ROWS;
    let x_0_2 = f32(x0[r_2 * 32u + o]);
    let x_1_2 = x1[r_2];
    let x_2_2 = x2[r_2];
    let sub_0_2 = (x_1_2 - x_2_2);
    let mul_0_2 = (sub_0_2 * 2.0f);
    let mul_1_2 = (32.0f * mul_0_2);
    let mul_2_2 = (x_0_2 * mul_1_2);
    sum_0 = (sum_0 + mul_2_2);
    let r_3 = r_first + 3u * ROWS;
    let x_0_3 = f32(x0[r_3 * 32u + o]);
    let x_1_3 = x1[r_3];
    let x_2_3 = x2[r_3];
    let sub_0_3 = (x_1_3 - x_2_3);
    let mul_0_3 = (sub_0_3 * 2.0f);
    let mul_1_3 = (32.0f * mul_0_3);
    let mul_2_3 = (x_0_3 * mul_1_3);
    sum_0 = (sum_0 + mul_2_3);
    let r_4 = r_first + 4u * ROWS;
    let x_0_4 = f32(x0[r_4 * 32u + o]);
    let x_1_4 = x1[r_4];
    let x_2_4 = x2[r_4];
    let sub_0_4 = (x_1_4 - x_2_4);
    let mul_0_4 = (sub_0_4 * 2.0f);
    let mul_1_4 = (32.0f * mul_0_4);
    let mul_2_4 = (x_0_4 * mul_1_4);
    sum_0 = (sum_0 + mul_2_4);
    let r_5 = r_first + 5u * ROWS;
    let x_0_5 = f32(x0[r_5 * 32u + o]);
    let x_1_5 = x1[r_5];
    let x_2_5 = x2[r_5];
    let sub_0_5 = (x_1_5 - x_2_5);
    let mul_0_5 = (sub_0_5 * 2.0f);
    let mul_1_5 = (32.0f * mul_0_5);
    let mul_2_5 = (x_0_5 * mul_1_5);
    sum_0 = (sum_0 + mul_2_5);
    let r_6 = r_first + 6u * ROWS;
    let x_0_6 = f32(x0[r_6 * 32u + o]);
    let x_1_6 = x1[r_6];
    let x_2_6 = x2[r_6];
    let sub_0_6 = (x_1_6 - x_2_6);
    let mul_0_6 = (sub_0_6 * 2.0f);
    let mul_1_6 = (32.0f * mul_0_6);
    let mul_2_6 = (x_0_6 * mul_1_6);
    sum_0 = (sum_0 + mul_2_6);
    let r_7 = r_first + 7u * ROWS;
    let x_0_7 = f32(x0[r_7 * 32u + o]);
    let x_1_7 = x1[r_7];
    let x_2_7 = x2[r_7];
    let sub_0_7 = (x_1_7 - x_2_7);
    let mul_0_7 = (sub_0_7 * 2.0f);
    let mul_1_7 = (32.0f * mul_0_7);
    let mul_2_7 = (x_0_7 * mul_1_7);
    sum_0 = (sum_0 + mul_2_7);
  }
  shared_sum_0[lane] = sum_0;
  for (var half = LANES / 2u; half >= WIDTH; half /= 2u) {
    workgroupBarrier();
    if (lane < half) {
      shared_sum_0[lane] = (shared_sum_0[lane] + shared_sum_0[lane + half]);
    }
  }
  workgroupBarrier();
  sum_0 = shared_sum_0[column];
  let copy_0 = sum_0;
  if (lane < WIDTH) {
    y0[o] = copy_0;
  }
}
