// attention_2
// from attention.wg:16
// 1 x 1 x 1 workgroups of 32 threads (gpu)
//   y0: attention f32[1, 2, 5, 4]
//   y1: attention_2 f32[1, 2, 5, 2]
//   x0: q f32[2, 5, 4]
//   x1: k f32[1, 5, 4]
//   x2: v f32[1, 5, 4]
@group(0) @binding(0) var<storage, read_write> y0: array<f32, 40>;
@group(0) @binding(1) var<storage, read_write> y1: array<f32, 20>;
@group(0) @binding(2) var<storage, read> x0: array<f32, 40>;
@group(0) @binding(3) var<storage, read> x1: array<f32, 20>;
@group(0) @binding(4) var<storage, read> x2: array<f32, 20>;

const KEY_HEADS = 1u;
const PAIRS = 1u;
const SHARED = 2u;
const TALL = 10u;
const KEYS = 5u;
const INNER_VEC4 = 1u;
const WIDTH_VEC4 = 1u;
const TILE = 32u;
const LANES = 32u;

// log x. Some adapters give a finite number for x <= 0, which would hide mistakes: here 0 gives
// -infinity and anything below (or NaN) NaN. The bits are a variable because no constant may be
// infinite.
fn wg_log(x: f32) -> f32 {
  if (x > 0.0f) {
    return log(x);
  }
  var bits = select(0x7fc00000u, 0xff800000u, x == 0.0f);
  return bitcast<f32>(bits);
}

fn put_y(z: u32, h: u32, t: u32, d: u32, x: f32) {
  y0[h * 20u + t * 4u + d] = x;
}

fn put_rows(z: u32, h: u32, t: u32, d: u32, x: f32) {
  y1[h * 10u + t * 2u + d] = x;
}

fn query_at(z: u32, h: u32, t: u32, d: u32) -> f32 {
  let x_0 = x0[h * 20u + t * 4u + d];
  return x_0;
}

fn load_query(z: u32, h: u32, t: u32, c: u32) -> vec4f {
  return vec4f(query_at(z, h, t, c * 4u), query_at(z, h, t, c * 4u + 1u), query_at(z, h, t, c * 4u + 2u), query_at(z, h, t, c * 4u + 3u));
}

fn key_at(z: u32, h: u32, t: u32, d: u32) -> f32 {
  let x_1 = x1[t * 4u + d];
  return x_1;
}

fn load_key(z: u32, h: u32, t: u32, c: u32) -> vec4f {
  return vec4f(key_at(z, h, t, c * 4u), key_at(z, h, t, c * 4u + 1u), key_at(z, h, t, c * 4u + 2u), key_at(z, h, t, c * 4u + 3u));
}

fn value_at(z: u32, h: u32, t: u32, d: u32) -> f32 {
  let x_2 = x2[t * 4u + d];
  return x_2;
}

fn load_value(z: u32, h: u32, t: u32, c: u32) -> vec4f {
  return vec4f(value_at(z, h, t, c * 4u), value_at(z, h, t, c * 4u + 1u), value_at(z, h, t, c * 4u + 2u), value_at(z, h, t, c * 4u + 3u));
}

const SCALE = 0.5f;
const HIDDEN = (-1e+30f);

fn sees(row: i32, key: i32) -> bool {
  return (key <= row);
}

fn first_key(row: i32) -> u32 {
  return u32(0);
}

fn end_key(row: i32) -> u32 {
  return u32(max(0, min(5, row + 1)));
}

// A workgroup makes LANES rows of one key head's result; it shares TILE keys and values at a time.
// Each thread keeps a row of q and of the result in registers, with the greatest score so far and
// the sum of exponentials relative to it.
var<workgroup> key_tile: array<vec4f, TILE * INNER_VEC4>;
var<workgroup> value_tile: array<vec4f, TILE * WIDTH_VEC4>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) lane: u32) {
  let o = id.x;
  let z = o % PAIRS / KEY_HEADS;
  let h_key = o % KEY_HEADS;
  let m_first = min(o / PAIRS * LANES, TALL - 1u);
  let m = min(m_first + lane, TALL - 1u);
  let h = h_key * SHARED + m % SHARED;
  let t = m / SHARED;
  let q_0 = SCALE * load_query(z, h, t, 0u);
  var y_0 = vec4f();
  var peak = HIDDEN;
  var total = 0.0;
  let origin = 0;
  let first = first_key(origin + i32(m_first / SHARED));
  let end = end_key(origin + i32(min(m_first + LANES - 1u, TALL - 1u) / SHARED));
  for (var tile = first; tile < end; tile += TILE) {
    for (var i = lane; i < TILE * INNER_VEC4; i += LANES) {
      key_tile[i] = load_key(z, h_key, min(tile + i / INNER_VEC4, KEYS - 1u), i % INNER_VEC4);
    }
    for (var i = lane; i < TILE * WIDTH_VEC4; i += LANES) {
      value_tile[i] = load_value(z, h_key, min(tile + i / WIDTH_VEC4, KEYS - 1u), i % WIDTH_VEC4);
    }
    workgroupBarrier();
    for (var i = 0u; i < min(TILE, end - tile); i++) {
      var x = dot(q_0, key_tile[i * INNER_VEC4]);
      let seen = sees(origin + i32(t), i32(tile + i));
      x = select(HIDDEN, x, seen);
      if (x > peak) {
        let shrink = exp(peak - x);
        peak = x;
        total *= shrink;
        y_0 *= shrink;
      }
      let p = select(0.0, exp(x - peak), seen);
      total += p;
      y_0 += p * value_tile[i * WIDTH_VEC4 + 0u];
    }
    workgroupBarrier();
  }
  if (o / PAIRS * LANES + lane < TALL) {
    // A sum that is not zero is at least 1, of the greatest score.
    let share = 1.0 / max(total, 1.0);
    put_y(z, h, t, 0u, share * y_0.x);
    put_y(z, h, t, 1u, share * y_0.y);
    put_y(z, h, t, 2u, share * y_0.z);
    put_y(z, h, t, 3u, share * y_0.w);
    put_rows(z, h, t, 0u, peak);
    put_rows(z, h, t, 1u, wg_log(max(total, 1.0)));
  }
}
