// places
// from lookups.wg:18
// 1 x 1 x 1 workgroups of 256 threads (gpu)
//   x0: x f32[3000]
//   y0: places i32[3000]
@group(0) @binding(0) var<storage, read> x0: array<f32, 3000>;
@group(0) @binding(1) var<storage, read_write> y0: array<i32, 3000>;

const ROWS = 1u;
const LENGTH = 3000u;
const PADDED = 4096u;
const THREADS = 256u;
const STEP = 256u;

fn key(o: u32, i: u32) -> u32 {
  let x_0 = x0[i];
  let bits = bitcast<u32>(select(x_0, 0.0, x_0 == 0.0));
  let ordered = select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
  let found = select(ordered, 0xffffffffu, (bits & 0x7fffffffu) > 0x7f800000u);
  return found;
}

fn place(o: u32, i: u32) -> u32 {
  return u32(y0[i]);
}

fn put(o: u32, i: u32, place: u32) {
  y0[i] = i32(place);
}

// Puts the elements of two places in order, the lower one first; of equal elements the one that came first.
fn order(o: u32, i: u32, j: u32) {
  let a = place(o, i);
  let b = place(o, j);
  let key_a = key(o, a);
  let key_b = key(o, b);
  if (key_a > key_b || (key_a == key_b && a > b)) {
    put(o, i, b);
    put(o, j, a);
  }
}

// One workgroup per row: a bitonic network in which the lower element always moves to the lower
// place, so that a row of any length is sorted as if large elements followed it.
@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) lane: u32) {
  let o = id.x;
  if (o >= ROWS) { return; }
  for (var i = lane; i < LENGTH; i += STEP) {
    put(o, i, i);
  }
  for (var block = 2u; block <= PADDED; block *= 2u) {
    storageBarrier();
    // Each element of the lower half against its mirror image: both halves are sorted.
    let half = block / 2u;
    for (var t = lane; t < PADDED / 2u; t += STEP) {
      let i = t / half * block + t % half;
      let j = t / half * block + block - 1u - t % half;
      if (j < LENGTH) { order(o, i, j); }
    }
    for (var distance = block / 4u; distance > 0u; distance /= 2u) {
      storageBarrier();
      for (var t = lane; t < PADDED / 2u; t += STEP) {
        let i = t / distance * 2u * distance + t % distance;
        if (i + distance < LENGTH) { order(o, i, i + distance); }
      }
    }
  }
}
