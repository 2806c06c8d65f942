// repeat.start, repeat_2.start, d.state0.last.start, d.state1.last.start
// from loops.wg:30
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   y0: repeat.start f32[2, 5]
@group(0) @binding(0) var<storage, read_write> y0: array<f32, 10>;

const OUTER = 10u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let copy_0 = 0.0f;
  y0[o] = copy_0;
}
