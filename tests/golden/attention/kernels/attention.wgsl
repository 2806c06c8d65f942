// attention
// from attention.wg:25
// 2 x 1 x 1 workgroups of 64 threads (gpu)
//   y0: attention f32[1, 2, 1, 4]
//   x0: query f32[2, 1, 4]
//   x1: window_update f32[1, 5, 4]
//   x2: window_update_2 f32[1, 5, 4]
//   scalars: values of one element
@group(0) @binding(0) var<storage, read_write> y0: array<vec4f, 2>;
@group(0) @binding(1) var<storage, read> x0: array<vec4f, 2>;
@group(0) @binding(2) var<storage, read> x1: array<vec4f, 5>;
@group(0) @binding(3) var<storage, read> x2: array<vec4f, 5>;
@group(0) @binding(4) var<storage, read> scalars: array<u32, 4>;

const KEY_HEADS = 1u;
const PAIRS = 1u;
const SHARED = 2u;
const KEYS = 5u;
const INNER_VEC4 = 1u;
const WIDTH_VEC4 = 1u;
const THREADS = 64u;
const PARTS = 1u;
const PART_STRIDE = 1u;
const SPREAD = 1u;
const GROUPS = 64u;

fn put_y(z: u32, h: u32, t: u32, c: u32, x: vec4f) {
  y0[h] = vec4f(x.x, x.y, x.z, x.w);
}

fn load_query(z: u32, h: u32, t: u32, c: u32) -> vec4f {
  let four_0 = x0[h];
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

fn offset() -> i32 {
  let x_0 = bitcast<i32>(scalars[1u]);
  return clamp(x_0, -1, 5);
}

// A workgroup makes one row of the result, THREADS keys at a time. First PARTS threads share each key:
// every thread multiplies its part of q and of some keys. Then each thread adds up the score of one
// key. At last SPREAD threads share the values of each key: with neighbours it takes every GROUPS-th
// of them. So each group of threads has a greatest score, a sum of exponentials and a result of its
// own; in the end they are joined, always in the same order.
var<workgroup> part_tile: array<f32, THREADS * PART_STRIDE>;
var<workgroup> score_tile: array<f32, THREADS>;
var<workgroup> group_tile: array<vec2f, GROUPS>;
var<workgroup> result_tile: array<vec4f, THREADS>;
var<workgroup> shared_offset: i32;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) slot: u32) {
  let o = min(id.x, PAIRS * SHARED - 1u);
  let z = o / (KEY_HEADS * SHARED);
  let h = o % (KEY_HEADS * SHARED);
  let h_key = h / SHARED;
  let part = slot % PARTS;
  let q_0 = SCALE * load_query(z, h, 0u, min(part, INNER_VEC4 - 1u));
  let column = slot % SPREAD;
  let group = slot / SPREAD;
  var y_0 = vec4f();
  var peak = HIDDEN;
  var total = 0.0;
  if (slot == 0u) { shared_offset = offset(); }
  let origin = workgroupUniformLoad(&shared_offset);
  let first = first_key(origin);
  let end = end_key(origin);
  for (var tile = first; tile < end; tile += THREADS) {
    for (var i = slot / PARTS; i < THREADS; i += THREADS / PARTS) {
      let s = min(tile + i, KEYS - 1u);
      var product = dot(q_0, load_key(z, h_key, s, part));
      part_tile[i * PART_STRIDE + part] = product;
    }
    workgroupBarrier();
    var x = part_tile[slot * PART_STRIDE];
    let key = tile + slot;
    let seen = (key < end) & sees(origin, i32(key));
    score_tile[slot] = select(HIDDEN, x, seen);
    workgroupBarrier();
    var high = peak;
    for (var i = group; i < THREADS; i += GROUPS) { high = max(high, score_tile[i]); }
    let shrink = exp(peak - high);
    peak = high;
    total *= shrink;
    y_0 *= shrink;
    for (var i = group; i < min(THREADS, end - tile); i += GROUPS) {
      let score = score_tile[i];
      // A score that is not a number is no hidden one.
      let p = select(0.0, exp(score - high), score != HIDDEN);
      total += p;
      y_0 = fma(
        vec4f(p),
        load_value(z, h_key, tile + i, min(column, WIDTH_VEC4 - 1u)),
        y_0,
      );
    }
  }
  // Every group's greatest score and sum: with the first column's thread.
  if (column == 0u) { group_tile[group] = vec2f(peak, total); }
  workgroupBarrier();
  var high = HIDDEN;
  for (var i = 0u; i < GROUPS; i++) { high = max(high, group_tile[i].x); }
  let weight = exp(peak - high);
  var sum = 0.0;
  for (var i = 0u; i < GROUPS; i++) { sum = fma(exp(group_tile[i].x - high), group_tile[i].y, sum); }
  // A sum that is not zero is at least 1, of the greatest score.
  let share = 1.0 / max(sum, 1.0);
  result_tile[slot] = weight * y_0;
  workgroupBarrier();
  if (slot < WIDTH_VEC4 && slot < SPREAD) {
    var y = vec4f();
    for (var i = 0u; i < GROUPS; i++) { y += result_tile[i * SPREAD + slot]; }
    put_y(z, h, 0u, slot, share * y);
  }
}
