// opt.grad_norm
// from tokens.wg:28
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: opt.sum_squares.flat f32[328]
//   scalars: values of one element
@group(0) @binding(0) var<storage, read> x0: array<f32, 328>;
@group(0) @binding(1) var<storage, read_write> scalars: array<u32, 8>;

const OUTER = 1u;
const INNER = 328u;
const LANES = 64u;

// One workgroup per result: its lanes share the row, then combine what they found by halves.
var<workgroup> shared_sum_0: array<f32, LANES>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) lane: u32) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  for (var r_first = lane; r_first < 320u; r_first += 5u * LANES) {
    let r_0 = r_first;
    let x_0_0 = x0[r_0];
    let square_0_0 = (x_0_0 * x_0_0);
    sum_0 = (sum_0 + square_0_0);
    let r_1 = r_first + 1u * LANES;
    let x_0_1 = x0[r_1];
    let square_0_1 = (x_0_1 * x_0_1);
    sum_0 = (sum_0 + square_0_1);
    let r_2 = r_first + 2u * LANES;
    let x_0_2 = x0[r_2];
    let square_0_2 = (x_0_2 * x_0_2);
    sum_0 = (sum_0 + square_0_2);
    let r_3 = r_first + 3u * LANES;
    let x_0_3 = x0[r_3];
    let square_0_3 = (x_0_3 * x_0_3);
    sum_0 = (sum_0 + square_0_3);
    let r_4 = r_first + 4u * LANES;
    let x_0_4 = x0[r_4];
    let square_0_4 = (x_0_4 * x_0_4);
    sum_0 = (sum_0 + square_0_4);
  }
  for (var r = lane + 320u; r < INNER; r += LANES) {
    let x_0 = x0[r];
    let square_0 = (x_0 * x_0);
    sum_0 = (sum_0 + square_0);
  }
  shared_sum_0[lane] = sum_0;
  for (var half = LANES / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) {
      shared_sum_0[lane] = (shared_sum_0[lane] + shared_sum_0[lane + half]);
    }
  }
  workgroupBarrier();
  sum_0 = shared_sum_0[0];
  let sqrt_0 = sqrt(sum_0);
  if (lane == 0u) {
    scalars[3u] = bitcast<u32>(sqrt_0);
  }
}
