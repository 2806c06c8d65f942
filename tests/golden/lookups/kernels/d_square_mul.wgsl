// d.square.mul
// from lookups.wg:12
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: rows i32[6]
//   x1: cols i32[6]
//   x2: w f32[4, 40]
//   y0: add i32[6]
//   y1: d.square.mul f32[6]
//   scalars: values of one element
@group(0) @binding(0) var<storage, read> x0: array<i32, 6>;
@group(0) @binding(1) var<storage, read> x1: array<i32, 6>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 160>;
@group(0) @binding(3) var<storage, read_write> y0: array<i32, 6>;
@group(0) @binding(4) var<storage, read_write> y1: array<f32, 6>;
@group(0) @binding(5) var<storage, read_write> scalars: array<u32, 4>;

const OUTER = 1u;
const INNER = 6u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[r];
    let mul_0 = (x_0 * 40i);
    let x_1 = x1[r];
    let add_0 = (mul_0 + x_1);
    let row_0 = u32(clamp(add_0, 0, 159));
    let x_2 = x2[row_0];
    let square_0 = (x_2 * x_2);
    let mul_1 = (x_2 * 2.0f);
    sum_0 = (sum_0 + square_0);
    y0[r] = add_0;
    y1[r] = mul_1;
  }
  scalars[2u] = bitcast<u32>(sum_0);
}
