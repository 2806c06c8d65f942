// guard.range.where
// from attention.wg:23
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   scalars: values of one element
@group(0) @binding(0) var<storage, read_write> scalars: array<u32, 4>;

const OUTER = 1u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = bitcast<i32>(scalars[1u]);
  let add_0 = (x_0 + 1i);
  let lt_0 = (x_0 < 0i);
  let gt_0 = (x_0 > 4i);
  let logical_or_0 = (lt_0 || gt_0);
  let where_0 = select(0u, 1u, logical_or_0);
  scalars[1u] = bitcast<u32>(add_0);
  scalars[3u] = where_0;
}
