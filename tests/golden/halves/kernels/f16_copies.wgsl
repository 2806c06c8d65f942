// f16 copies
// 1 x 1 x 1 workgroups of 256 threads (gpu)
//   x0: params, words 0 to 1024
//   y0: the same as f16
enable f16;

@group(0) @binding(0) var<storage, read> x0: array<vec4f, 256>;
@group(0) @binding(1) var<storage, read_write> y0: array<vec4h, 256>;

const SIZE = 256u;
const WORKGROUP = 256u;

// Element by element, whatever tensor it belongs to; a thread makes four of them.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = id.x;
  if (i >= SIZE) { return; }
  y0[i] = vec4h(x0[i]);
}
