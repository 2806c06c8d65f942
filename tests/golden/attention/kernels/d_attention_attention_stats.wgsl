// d.attention.attention_stats
// from attention.wg:16
// 2 x 1 x 1 workgroups of 64 threads (gpu)
//   x2: attention_2 f32[1, 2, 5, 2]
//   x0: attention f32[1, 2, 5, 4]
//   x1: d.sub f32[2, 5, 4]
//   y0: d.attention.attention_stats f32[1, 2, 5, 3]
@group(0) @binding(0) var<storage, read> x2: array<f32, 20>;
@group(0) @binding(1) var<storage, read> x0: array<vec4f, 10>;
@group(0) @binding(2) var<storage, read> x1: array<vec4f, 10>;
@group(0) @binding(3) var<storage, read_write> y0: array<f32, 30>;

const OUTER = 10u;
const HEADS = 2u;
const ROWS = 5u;
const WIDTH_VEC4 = 1u;
const THREADS = 64u;
const LANES = 8u;
const EACH = 8u;
const STRIDE = 9u;

fn load_y(z: u32, h: u32, t: u32, c: u32) -> vec4f {
  let four_0 = x0[h * 5u + t];
  return four_0;
}

fn load_dy(z: u32, h: u32, t: u32, c: u32) -> vec4f {
  let four_1 = x1[h * 5u + t];
  return four_1;
}

fn kept_at(z: u32, h: u32, t: u32, d: u32) -> f32 {
  let x_0 = x2[h * 10u + t * 2u + d];
  return x_0;
}

fn put_stats(z: u32, h: u32, t: u32, d: u32, x: f32) {
  y0[h * 15u + t * 3u + d] = x;
}

// LANES threads share a row: each adds up some of the products, and the third one stores their sum.
var<workgroup> part_tile: array<f32, EACH * STRIDE>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) slot: u32) {
  let row = slot / LANES;
  let lane = slot % LANES;
  let at = (id.x) * EACH + row;
  let o = min(at, OUTER - 1u);
  let z = o / (HEADS * ROWS);
  let h = o / ROWS % HEADS;
  let t = o % ROWS;
  var part = 0.0;
  for (var c = lane; c < WIDTH_VEC4; c += LANES) { part += dot(load_y(z, h, t, c), load_dy(z, h, t, c)); }
  part_tile[row * STRIDE + lane] = part;
  workgroupBarrier();
  if (at < OUTER) {
    if (lane < 2u) { put_stats(z, h, t, lane, kept_at(z, h, t, lane)); }
    if (lane == 2u) {
      var mean = 0.0;
      for (var i = 0u; i < LANES; i++) { mean += part_tile[row * STRIDE + i]; }
      put_stats(z, h, t, 2u, mean);
    }
  }
}
