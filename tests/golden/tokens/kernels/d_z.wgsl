// d.z
// from tokens.wg:27
// 2 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: matmul f32[10, 7], then d.z f32[2, 5, 7]
//   x1: loss.peak f32[2, 5]
//   x2: loss.log f32[2, 5]
//   x3: labels i32[2, 5]
//   x4: d.loss.where f32[2, 5]
@group(0) @binding(0) var<storage, read_write> x0: array<f32, 70>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 10>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 10>;
@group(0) @binding(3) var<storage, read> x3: array<i32, 10>;
@group(0) @binding(4) var<storage, read> x4: array<f32, 10>;

const OUTER = 70u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = x0[o];
  let x_1 = x1[(o / 7u)];
  let sub_0 = (x_0 - x_1);
  let x_2 = x2[(o / 7u)];
  let sub_1 = (sub_0 - x_2);
  let exp_0 = exp(sub_1);
  let iota_0 = i32((o % 7u));
  let x_3 = x3[(o / 7u)];
  let eq_0 = (iota_0 == x_3);
  let where_0 = select(0.014285714285714287f, 0.9142857142857143f, eq_0);
  let sub_2 = (exp_0 - where_0);
  let x_4 = x4[(o / 7u)];
  let mul_0 = (sub_2 * x_4);
  x0[o] = mul_0;
}
