// index_2.next, index.next
// from loops.wg:30, loops.wg:43
// 1 x 1 x 1 workgroups of 1 threads (gpu)
//   y0: index_2.next u32
@group(0) @binding(0) var<storage, read_write> y0: array<u32, 4>;

const OUTER = 1u;
const WORKGROUP = 1u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  y0[0] = y0[0] - 1u;
}
