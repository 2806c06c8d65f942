// Threefry2x32 with 20 rounds: 64 random bits from a key and a counter.
fn wg_threefry(key: vec2<u32>, counter: vec2<u32>) -> vec2<u32> {
  let third = key.x ^ key.y ^ 0x1bd11bdau;
  let even = vec4<u32>(13u, 15u, 26u, 6u);
  let odd = vec4<u32>(17u, 29u, 16u, 24u);
  var state = counter + key;
  state = wg_threefry_rounds(state, even) + vec2<u32>(key.y, third + 1u);
  state = wg_threefry_rounds(state, odd) + vec2<u32>(third, key.x + 2u);
  state = wg_threefry_rounds(state, even) + vec2<u32>(key.x, key.y + 3u);
  state = wg_threefry_rounds(state, odd) + vec2<u32>(key.y, third + 4u);
  return wg_threefry_rounds(state, even) + vec2<u32>(third, key.x + 5u);
}

fn wg_threefry_rounds(start: vec2<u32>, turns: vec4<u32>) -> vec2<u32> {
  let first = wg_threefry_mix(start, turns.x);
  let second = wg_threefry_mix(first, turns.y);
  let third = wg_threefry_mix(second, turns.z);
  return wg_threefry_mix(third, turns.w);
}

fn wg_threefry_mix(state: vec2<u32>, turn: u32) -> vec2<u32> {
  let sum = state.x + state.y;
  return vec2<u32>(sum, ((state.y << turn) | (state.y >> (32u - turn))) ^ sum);
}
