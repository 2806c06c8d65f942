// d.x.gather_grad
// from tokens.wg:12
// 1 x 1 x 1 workgroups of 64 threads (cpu)
//   x0: ids i32[2, 5]
//   x1: d.x f32[2, 5, 4]
//   x2: d.x.gather_grad f32[7, 4]
@group(0) @binding(0) var<storage, read> x0: array<i32, 10>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 40>;
@group(0) @binding(2) var<storage, read_write> x2: array<f32, 28>;

const OUTER = 4u;
const COUNT = 10u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  for (var row = 0u; row < 7u; row++) { x2[row * 4u + o] = 0.0; }
  for (var r = 0u; r < COUNT; r++) {
    let x_0 = x0[r];
    let row = u32(clamp(x_0, 0, 6));
    let x_1 = x1[r * 4u + o];
    x2[row * 4u + o] = x2[row * 4u + o] + x_1;
  }
}
