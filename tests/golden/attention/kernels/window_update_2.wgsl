// window_update_2
// from attention.wg:24
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   scalars: values of one element
//   x0: key f32[1, 1, 4]
//   y0: window_update f32[1, 5, 4]
//   x1: value f32[1, 1, 4]
//   y1: window_update_2 f32[1, 5, 4]
@group(0) @binding(0) var<storage, read> scalars: array<u32, 4>;
@group(0) @binding(1) var<storage, read> x0: array<f32, 4>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 20>;
@group(0) @binding(3) var<storage, read> x1: array<f32, 4>;
@group(0) @binding(4) var<storage, read_write> y1: array<f32, 20>;

const OUTER = 4u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = bitcast<i32>(scalars[1u]);
  let start_0 = u32(clamp(x_0, 0, 4));
  let fits_0 = x_0 >= 0 && x_0 <= 4;
  let x_1 = x0[o];
  let x_2 = x1[o];
  if (fits_0) { y0[start_0 * 4u + o] = x_1; }
  if (fits_0) { y1[start_0 * 4u + o] = x_2; }
}
