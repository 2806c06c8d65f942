// opt.add
// from loops.wg:32
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: out.matmul.sum f32[12]
//   x1: out.b f32[1]
//   x2: y f32[2, 6, 1]
//   x3: d.sub f32[2, 6, 1]
//   scalars: values of one element
//   y0: d.out.b f32[1]
@group(0) @binding(0) var<storage, read_write> x0: array<f32, 12>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 1>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 12>;
@group(0) @binding(3) var<storage, read_write> x3: array<f32, 12>;
@group(0) @binding(4) var<storage, read_write> scalars: array<u32, 8>;
@group(0) @binding(5) var<storage, read_write> y0: array<f32, 1>;

const OUTER = 1u;
const INNER = 12u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  var sum_1: f32 = 0.0f;
  let x_1 = x1[0u];
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[r];
    let add_0 = (x_0 + x_1);
    let x_2 = x2[r];
    let sub_0 = (add_0 - x_2);
    let square_0 = (sub_0 * sub_0);
    let x_3 = x3[r];
    sum_0 = (sum_0 + square_0);
    sum_1 = (sum_1 + x_3);
  }
  let mul_0 = (sum_0 * 0.08333333333333333f);
  let x_4 = scalars[0u];
  let add_1 = (x_4 + 1u);
  scalars[3u] = bitcast<u32>(mul_0);
  y0[0u] = sum_1;
  scalars[0u] = add_1;
}
