// Threefry2x32 with 20 rounds: 64 random bits from a key and a counter.
fn wg_threefry(key: vec2<u32>, counter: vec2<u32>) -> vec2<u32> {
  let third = key.x ^ key.y ^ 0x1bd11bdau;
  var state = counter + key;
  state = wg_threefry_even(state) + vec2<u32>(key.y, third + 1u);
  state = wg_threefry_odd(state) + vec2<u32>(third, key.x + 2u);
  state = wg_threefry_even(state) + vec2<u32>(key.x, key.y + 3u);
  state = wg_threefry_odd(state) + vec2<u32>(key.y, third + 4u);
  return wg_threefry_even(state) + vec2<u32>(third, key.x + 5u);
}

fn wg_threefry_even(state: vec2<u32>) -> vec2<u32> {
  return wg_threefry_mix(wg_threefry_mix(wg_threefry_mix(wg_threefry_mix(state, 13u), 15u), 26u), 6u);
}

fn wg_threefry_odd(state: vec2<u32>) -> vec2<u32> {
  return wg_threefry_mix(wg_threefry_mix(wg_threefry_mix(wg_threefry_mix(state, 17u), 29u), 16u), 24u);
}

fn wg_threefry_mix(state: vec2<u32>, turn: u32) -> vec2<u32> {
  let sum = state.x + state.y;
  return vec2<u32>(sum, ((state.y << turn) | (state.y >> (32u - turn))) ^ sum);
}
