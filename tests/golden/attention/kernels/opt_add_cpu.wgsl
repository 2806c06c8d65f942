// opt.add
// from attention.wg:17
// 1 x 1 x 1 workgroups of 8 threads (cpu)
//   x0: attention f32[1, 2, 5, 4]
//   x1: y f32[2, 5, 4]
//   scalars: values of one element
@group(0) @binding(0) var<storage, read> x0: array<f32, 40>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 40>;
@group(0) @binding(2) var<storage, read_write> scalars: array<u32, 4>;

const OUTER = 1u;
const INNER = 40u;
const WORKGROUP = 8u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[r];
    let x_1 = x1[r];
    let sub_0 = (x_0 - x_1);
    let square_0 = (sub_0 * sub_0);
    sum_0 = (sum_0 + square_0);
  }
  let mul_0 = (sum_0 * 0.025f);
  let x_2 = scalars[0u];
  let add_0 = (x_2 + 1u);
  scalars[2u] = bitcast<u32>(mul_0);
  scalars[0u] = add_0;
}
