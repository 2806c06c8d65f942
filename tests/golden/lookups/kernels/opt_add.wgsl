// opt.add
// from lookups.wg:13
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: running_argmax i32[4, 40]
//   x1: w f32[4, 40]
//   scalars: values of one element
@group(0) @binding(0) var<storage, read> x0: array<i32, 160>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 160>;
@group(0) @binding(2) var<storage, read_write> scalars: array<u32, 4>;

const OUTER = 1u;
const INNER = 160u;
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
    let row_0 = u32(clamp(x_0, 0, 39));
    let x_1 = x1[(r / 40u) * 40u + row_0];
    sum_0 = (sum_0 + x_1);
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
  let x_2 = bitcast<f32>(scalars[2u]);
  let x_3 = bitcast<f32>(scalars[3u]);
  let mul_0 = (x_3 * 0.08333333333333333f);
  let add_0 = (x_2 + mul_0);
  let mul_1 = (sum_0 * 0.00625f);
  let sub_0 = (add_0 - mul_1);
  let x_4 = scalars[0u];
  let add_1 = (x_4 + 1u);
  if (lane == 0u) {
    scalars[1u] = bitcast<u32>(sub_0);
    scalars[0u] = add_1;
  }
}
