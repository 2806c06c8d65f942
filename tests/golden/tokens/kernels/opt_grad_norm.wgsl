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
  for (var r = lane; r < INNER; r += LANES) {
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
