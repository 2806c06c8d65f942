// attention_2
// from attention.wg:16
// 1 x 1 x 1 workgroups of 64 threads (gpu)
//   y0: attention f32[1, 2, 5, 4]
//   y1: attention_2 f32[1, 2, 5, 2]
//   x0: q f32[2, 5, 4]
//   x1: k f32[1, 5, 4]
//   x2: v f32[1, 5, 4]
@group(0) @binding(0) var<storage, read_write> y0: array<vec4f, 10>;
@group(0) @binding(1) var<storage, read_write> y1: array<f32, 20>;
@group(0) @binding(2) var<storage, read> x0: array<vec4f, 10>;
@group(0) @binding(3) var<storage, read> x1: array<vec4f, 5>;
@group(0) @binding(4) var<storage, read> x2: array<vec4f, 5>;

const KEY_HEADS = 1u;
const PAIRS = 1u;
const SHARED = 2u;
const TALL = 10u;
const KEYS = 5u;
const INNER_VEC4 = 1u;
const WIDTH_VEC4 = 1u;
const ACROSS = 8u;
const DOWN = 8u;
const THREADS = 64u;
const OWN = 32u;
const TILE = 32u;
const CHUNK = 1u;
const STRIDE = 1u;
const WEIGHTS_STRIDE = 9u;
const WIDTH_PART = 32u;
const OWN_AREA = 288u;
const OTHER_AREA = 40u;

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

fn put_y(z: u32, h: u32, t: u32, c: u32, x: vec4f) {
  y0[h * 5u + t] = vec4f(x.x, x.y, x.z, x.w);
}

fn put_rows(z: u32, h: u32, t: u32, d: u32, x: f32) {
  y1[h * 10u + t * 2u + d] = x;
}

fn load_query(z: u32, h: u32, t: u32, c: u32) -> vec4f {
  let four_0 = x0[h * 5u + t];
  return four_0;
}

fn load_key(z: u32, h: u32, t: u32, c: u32) -> vec4f {
  let four_1 = x1[t];
  return four_1;
}

fn load_value(z: u32, h: u32, t: u32, c: u32) -> vec4f {
  let four_2 = x2[t];
  return four_2;
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

fn query_row(z: u32, h_key: u32, m: u32, c: u32) -> vec4f {
  let at = min(m, TALL - 1u);
  return load_query(z, h_key * SHARED + at % SHARED, at / SHARED, c);
}

fn key_row(z: u32, h_key: u32, s: u32, c: u32) -> vec4f {
  return load_key(z, h_key, min(s, KEYS - 1u), c);
}

fn value_row(z: u32, h_key: u32, s: u32, c: u32) -> vec4f {
  return load_value(z, h_key, min(s, KEYS - 1u), c);
}

// Scores as they count: scaled, with the mask, HIDDEN where a row does not see a key.
fn scores(x: vec4f, z: u32, h_key: u32, m: vec4u, s: u32, origin: i32, near: bool) -> vec4f {
  let t = m / SHARED;
  let seen = vec4<bool>(
    near & sees(origin + i32(t.x), i32(s)),
    near & sees(origin + i32(t.y), i32(s)),
    near & sees(origin + i32(t.z), i32(s)),
    near & sees(origin + i32(t.w), i32(s)),
  );
  return select(vec4f(HIDDEN), SCALE * x, seen);
}

fn finish_y(z: u32, h_key: u32, m: u32, c: u32, x: vec4f) {
  if (m < TALL && c < WIDTH_VEC4) { put_y(z, h_key * SHARED + m % SHARED, m / SHARED, c, x); }
}

// A workgroup makes OWN rows of one key head's result, TILE keys at a time. ACROSS threads share four
// rows: each of them computes the scores of some keys, and a part of the result. Heads are shared
// CHUNK vectors at a time. `peak` is the greatest score so far of each of the four rows, and results
// are relative to it; `total` is the sum of the exponentials that this thread has computed.
var<workgroup> own_tile: array<vec4f, OWN_AREA>;
var<workgroup> other_tile: array<vec4f, OTHER_AREA>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) slot: u32) {
  let o = id.x;
  let z = o % PAIRS / KEY_HEADS;
  let h_key = o % KEY_HEADS;
  // Of eight threads, four are side by side and two below each other: so they read least of tiles.
  let across = slot % 4u + slot / 8u % (ACROSS / 4u) * 4u;
  let down = slot / 4u % 2u + slot / (2u * ACROSS) * 2u;
  let m = o / PAIRS * OWN + down + vec4u(0u, DOWN, 2u * DOWN, 3u * DOWN);
  let m_first = min(o / PAIRS * OWN, TALL - 1u);
  var y_0_0 = vec4f();
  var y_1_0 = vec4f();
  var y_2_0 = vec4f();
  var y_3_0 = vec4f();
  var peak = vec4f(HIDDEN);
  var total = vec4f();
  let origin = 0;
  let first = first_key(origin + i32(m_first / SHARED));
  let end = end_key(origin + i32(min(m_first + OWN - 1u, TALL - 1u) / SHARED));
  for (var tile = first; tile < end; tile += TILE) {
    var x_0 = vec4f();
    var x_1 = vec4f();
    var x_2 = vec4f();
    var x_3 = vec4f();
    if (slot < OWN * CHUNK) {
      let i = slot;
      let c = min(i % CHUNK, INNER_VEC4 - 1u);
      let at = i / CHUNK * STRIDE + i % CHUNK;
      own_tile[at] = vec4f(query_row(z, h_key, m_first + i / CHUNK, c));
      other_tile[at] = vec4f(key_row(z, h_key, tile + i / CHUNK, c));
    }
    workgroupBarrier();
    for (var c = 0u; c < INNER_VEC4; c++) {
      let own_0 = vec4f(own_tile[down * STRIDE + c]);
      let own_1 = vec4f(own_tile[(down + DOWN) * STRIDE + c]);
      let own_2 = vec4f(own_tile[(down + 2u * DOWN) * STRIDE + c]);
      let own_3 = vec4f(own_tile[(down + 3u * DOWN) * STRIDE + c]);
      let other_0 = vec4f(other_tile[across * STRIDE + c]);
      x_0 = fma(vec4f(own_0.x, own_1.x, own_2.x, own_3.x), vec4f(other_0.x), x_0);
      x_0 = fma(vec4f(own_0.y, own_1.y, own_2.y, own_3.y), vec4f(other_0.y), x_0);
      x_0 = fma(vec4f(own_0.z, own_1.z, own_2.z, own_3.z), vec4f(other_0.z), x_0);
      x_0 = fma(vec4f(own_0.w, own_1.w, own_2.w, own_3.w), vec4f(other_0.w), x_0);
      let other_1 = vec4f(other_tile[(across + ACROSS) * STRIDE + c]);
      x_1 = fma(vec4f(own_0.x, own_1.x, own_2.x, own_3.x), vec4f(other_1.x), x_1);
      x_1 = fma(vec4f(own_0.y, own_1.y, own_2.y, own_3.y), vec4f(other_1.y), x_1);
      x_1 = fma(vec4f(own_0.z, own_1.z, own_2.z, own_3.z), vec4f(other_1.z), x_1);
      x_1 = fma(vec4f(own_0.w, own_1.w, own_2.w, own_3.w), vec4f(other_1.w), x_1);
      let other_2 = vec4f(other_tile[(across + 2u * ACROSS) * STRIDE + c]);
      x_2 = fma(vec4f(own_0.x, own_1.x, own_2.x, own_3.x), vec4f(other_2.x), x_2);
      x_2 = fma(vec4f(own_0.y, own_1.y, own_2.y, own_3.y), vec4f(other_2.y), x_2);
      x_2 = fma(vec4f(own_0.z, own_1.z, own_2.z, own_3.z), vec4f(other_2.z), x_2);
      x_2 = fma(vec4f(own_0.w, own_1.w, own_2.w, own_3.w), vec4f(other_2.w), x_2);
      let other_3 = vec4f(other_tile[(across + 3u * ACROSS) * STRIDE + c]);
      x_3 = fma(vec4f(own_0.x, own_1.x, own_2.x, own_3.x), vec4f(other_3.x), x_3);
      x_3 = fma(vec4f(own_0.y, own_1.y, own_2.y, own_3.y), vec4f(other_3.y), x_3);
      x_3 = fma(vec4f(own_0.z, own_1.z, own_2.z, own_3.z), vec4f(other_3.z), x_3);
      x_3 = fma(vec4f(own_0.w, own_1.w, own_2.w, own_3.w), vec4f(other_3.w), x_3);
    }
    workgroupBarrier();
    var high = vec4f(HIDDEN);
    let key_0 = tile + across;
    x_0 = scores(x_0, z, h_key, m, key_0, origin, key_0 < end);
    high = max(high, x_0);
    let key_1 = tile + across + ACROSS;
    x_1 = scores(x_1, z, h_key, m, key_1, origin, key_1 < end);
    high = max(high, x_1);
    let key_2 = tile + across + 2u * ACROSS;
    x_2 = scores(x_2, z, h_key, m, key_2, origin, key_2 < end);
    high = max(high, x_2);
    let key_3 = tile + across + 3u * ACROSS;
    x_3 = scores(x_3, z, h_key, m, key_3, origin, key_3 < end);
    high = max(high, x_3);
    own_tile[across * WEIGHTS_STRIDE + down] = high;
    workgroupBarrier();
    high = peak;
    for (var i = 0u; i < ACROSS; i++) {
      high = max(high, own_tile[i * WEIGHTS_STRIDE + down]);
    }
    // Weights take the place of these scores.
    workgroupBarrier();
    let shrink = exp(peak - high);
    peak = high;
    total *= shrink;
    y_0_0 *= shrink.x;
    y_1_0 *= shrink.y;
    y_2_0 *= shrink.z;
    y_3_0 *= shrink.w;
    // A score that is not a number is no hidden one.
    x_0 = select(vec4f(), exp(x_0 - high), x_0 != vec4f(HIDDEN));
    total += x_0;
    x_1 = select(vec4f(), exp(x_1 - high), x_1 != vec4f(HIDDEN));
    total += x_1;
    x_2 = select(vec4f(), exp(x_2 - high), x_2 != vec4f(HIDDEN));
    total += x_2;
    x_3 = select(vec4f(), exp(x_3 - high), x_3 != vec4f(HIDDEN));
    total += x_3;
    own_tile[across * WEIGHTS_STRIDE + down] = vec4f(x_0);
    own_tile[(across + ACROSS) * WEIGHTS_STRIDE + down] = vec4f(x_1);
    own_tile[(across + 2u * ACROSS) * WEIGHTS_STRIDE + down] = vec4f(x_2);
    own_tile[(across + 3u * ACROSS) * WEIGHTS_STRIDE + down] = vec4f(x_3);
    if (slot < WIDTH_PART * WIDTH_VEC4) {
      let i = slot;
      other_tile[i] = vec4f(value_row(
        z,
        h_key,
        tile + i / WIDTH_VEC4,
        i % WIDTH_VEC4,
      ));
    }
    workgroupBarrier();
    for (var c = 0u; c < WIDTH_PART; c++) {
      let weights = vec4f(own_tile[c * WEIGHTS_STRIDE + down]);
      let other_0 = vec4f(other_tile[c * WIDTH_VEC4 + across]);
      y_0_0 += weights.x * other_0;
      y_1_0 += weights.y * other_0;
      y_2_0 += weights.z * other_0;
      y_3_0 += weights.w * other_0;
    }
    workgroupBarrier();
  }
  own_tile[across * WEIGHTS_STRIDE + down] = total;
  workgroupBarrier();
  // A sum that is not zero is at least 1, of the greatest score.
  var sum = vec4f();
  for (var i = 0u; i < ACROSS; i++) { sum += own_tile[i * WEIGHTS_STRIDE + down]; }
  sum = max(sum, vec4f(1.0));
  finish_y(z, h_key, m.x, across, 1.0 / sum.x * y_0_0);
  finish_y(z, h_key, m.y, across, 1.0 / sum.y * y_1_0);
  finish_y(z, h_key, m.z, across, 1.0 / sum.z * y_2_0);
  finish_y(z, h_key, m.w, across, 1.0 / sum.w * y_3_0);
  // The first thread of the four rows stores one of them, the next one another.
  let row = m[across % 4u];
  if (across < 4u && row < TALL) {
    let h = h_key * SHARED + row % SHARED;
    put_rows(z, h, row / SHARED, 0u, peak[across]);
    put_rows(z, h, row / SHARED, 1u, wg_log(sum[across]));
  }
}
