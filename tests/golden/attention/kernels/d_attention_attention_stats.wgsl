// d.attention.attention_stats
// from attention.wg:16
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: attention_2 f32[1, 2, 5, 2]
//   x1: attention f32[1, 2, 5, 4]
//   x2: d.sub f32[2, 5, 4]
//   y0: d.attention.attention_stats f32[1, 2, 5, 3]
@group(0) @binding(0) var<storage, read> x0: array<f32, 20>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 40>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 40>;
@group(0) @binding(3) var<storage, read_write> y0: array<f32, 30>;

const OUTER = 10u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = x0[o * 2u];
  let x_1 = x0[o * 2u + 1u];
  var mean = 0.0;
  for (var d = 0u; d < 4u; d++) {
    let x_2 = x1[o * 4u + d];
    let x_3 = x2[o * 4u + d];
    mean += x_2 * x_3;
  }
  y0[o * 3u] = x_0;
  y0[o * 3u + 1u] = x_1;
  y0[o * 3u + 2u] = mean;
}
