// d.tok.w
// from tokens.wg:12
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: ids i32[2, 5]
//   x1: d.x f32[2, 5, 4]
//   x2: d.transpose.transpose f32[7, 4]
//   y0: d.tok.w f32[7, 4]
@group(0) @binding(0) var<storage, read> x0: array<i32, 10>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 40>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 28>;
@group(0) @binding(3) var<storage, read_write> y0: array<f32, 28>;

const OUTER = 28u;
const COUNT = 10u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var total = 0.0f;
  for (var r = 0u; r < COUNT; r++) {
    let x_0 = x0[r];
    if (u32(clamp(x_0, 0, 6)) == (o / 4u)) {
      let x_1 = x1[r * 4u + (o % 4u)];
      total += x_1;
    }
  }
  let x_2 = x2[o];
  y0[o] = x_2 + total;
}
