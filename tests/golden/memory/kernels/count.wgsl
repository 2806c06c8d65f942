// count
// from memory.wg:14
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   scalars: values of one element
@group(0) @binding(0) var<storage, read_write> scalars: array<u32, 8>;

const OUTER = 1u;
const WORKGROUP = 64u;

// The remainder that has the divisor's sign; x where the divisor is 0.
fn wg_mod_i32(x: i32, z: i32) -> i32 {
  if (z == 0) { return x; }
  let r = x % z;
  return select(r, r + z, r != 0 && (r < 0) != (z < 0));
}

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = bitcast<i32>(scalars[0u]);
  let add_0 = (x_0 + 1i);
  let mod_0 = wg_mod_i32(add_0, 6i);
  let lt_0 = (x_0 < 0i);
  let gt_0 = (x_0 > 5i);
  let logical_or_0 = (lt_0 || gt_0);
  let where_0 = select(0u, 1u, logical_or_0);
  let copy_0 = mod_0;
  scalars[0u] = bitcast<u32>(mod_0);
  scalars[4u] = where_0;
  scalars[3u] = bitcast<u32>(copy_0);
}
