// opt.grad_norm
// from tokens.wg:28
// 1 x 1 x 1 workgroups of 8 threads (cpu)
//   x0: opt.sum_squares.flat f32[328]
//   scalars: values of one element
@group(0) @binding(0) var<storage, read> x0: array<f32, 328>;
@group(0) @binding(1) var<storage, read_write> scalars: array<u32, 8>;

const OUTER = 1u;
const INNER = 328u;
const WORKGROUP = 8u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[r];
    let square_0 = (x_0 * x_0);
    sum_0 = (sum_0 + square_0);
  }
  let sqrt_0 = sqrt(sum_0);
  scalars[3u] = bitcast<u32>(sqrt_0);
}
