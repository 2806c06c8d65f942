// running_argmax
// from lookups.wg:11
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: w f32[4, 40]
//   y0: running_argmax i32[4, 40]
@group(0) @binding(0) var<storage, read> x0: array<f32, 160>;
@group(0) @binding(1) var<storage, read_write> y0: array<i32, 160>;

const OUTER = 4u;
const INNER = 40u;
const WORKGROUP = 64u;

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var h = 0;
  var best = 0u;
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[o * 40u + r];
    let bits = bitcast<u32>(select(x_0, 0.0, x_0 == 0.0));
    let ordered = select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
    let key = select(ordered, 0xffffffffu, (bits & 0x7fffffffu) > 0x7f800000u);
    if (key >= best) { best = key; h = i32(r); }
    y0[o * 40u + r] = h;
  }
}
