// argsort
// from lookups.wg:10
// 4 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: w f32[4, 40]
//   y0: argsort i32[4, 40]
@group(0) @binding(0) var<storage, read> x0: array<f32, 160>;
@group(0) @binding(1) var<storage, read_write> y0: array<i32, 160>;

const ROWS = 4u;
const LENGTH = 40u;
const PADDED = 64u;
const THREADS = 64u;
const STEP = 64u;

fn key(o: u32, i: u32) -> u32 {
  let x_0 = x0[o * 40u + i];
  let bits = bitcast<u32>(select(x_0, 0.0, x_0 == 0.0));
  let ordered = select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
  let found = select(ordered, 0xffffffffu, (bits & 0x7fffffffu) > 0x7f800000u);
  return ~found;
}

fn put(o: u32, i: u32, place: u32) {
  y0[o * 40u + i] = i32(place);
}

var<workgroup> keys: array<u32, PADDED>;
var<workgroup> places: array<u32, PADDED>;

// Puts the elements of two places in order, the lower one first; of equal elements the one that came first.
fn order(o: u32, i: u32, j: u32) {
  let a = keys[i];
  let b = keys[j];
  if (a > b || (a == b && places[i] > places[j])) {
    keys[i] = b;
    keys[j] = a;
    let place = places[i];
    places[i] = places[j];
    places[j] = place;
  }
}

// One workgroup per row: a bitonic network in which the lower element always moves to the lower
// place, so that a row of any length is sorted as if large elements followed it.
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) lane: u32) {
  let o = id.x;
  if (o >= ROWS) { return; }
  for (var i = lane; i < LENGTH; i += STEP) {
    keys[i] = key(o, i);
    places[i] = i;
  }
  for (var block = 2u; block <= PADDED; block *= 2u) {
    workgroupBarrier();
    // Each element of the lower half against its mirror image: both halves are sorted.
    let half = block / 2u;
    for (var t = lane; t < PADDED / 2u; t += STEP) {
      let i = t / half * block + t % half;
      let j = t / half * block + block - 1u - t % half;
      if (j < LENGTH) { order(o, i, j); }
    }
    for (var distance = block / 4u; distance > 0u; distance /= 2u) {
      workgroupBarrier();
      for (var t = lane; t < PADDED / 2u; t += STEP) {
        let i = t / distance * 2u * distance + t % distance;
        if (i + distance < LENGTH) { order(o, i, i + distance); }
      }
    }
  }
  workgroupBarrier();
  for (var i = lane; i < LENGTH; i += STEP) { put(o, i, places[i]); }
}
