// opt.add
// from halves.wg:15
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: l3.matmul.sum f32[32]
//   x1: y f32[32, 1]
//   scalars: values of one element
@group(0) @binding(0) var<storage, read> x0: array<f32, 32>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 32>;
@group(0) @binding(2) var<storage, read_write> scalars: array<u32, 4>;

const OUTER = 1u;
const INNER = 32u;
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
    let x_1 = x1[r];
    let sub_0 = (x_0 - x_1);
    let square_0 = (sub_0 * sub_0);
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
  let mul_0 = (sum_0 * 0.03125f);
  let x_2 = scalars[0u];
  let add_0 = (x_2 + 1u);
  if (lane == 0u) {
    scalars[1u] = bitcast<u32>(mul_0);
    scalars[0u] = add_0;
  }
}
