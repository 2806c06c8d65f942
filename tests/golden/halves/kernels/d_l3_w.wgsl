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
  for (var r = row; r < INNER; r += ROWS) {
    let x_0 = f32(x0[r * 32u + o]);
    let x_1 = x1[r];
    let x_2 = x2[r];
    let sub_0 = (x_1 - x_2);
    let mul_0 = (sub_0 * 2.0f);
    let mul_1 = (32.0f * mul_0);
    let mul_2 = (x_0 * mul_1);
    sum_0 = (sum_0 + mul_2);
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
