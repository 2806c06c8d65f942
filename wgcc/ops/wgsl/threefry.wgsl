// Threefry2x32 with 20 rounds: 64 random bits from a key and a counter.
fn wg_threefry(key: vec2u, counter: vec2u) -> vec2u {
  let third = key.x ^ key.y ^ 0x1bd11bdau;
  let even = vec4u(13u, 15u, 26u, 6u);
  let odd = vec4u(17u, 29u, 16u, 24u);
  var state = counter + key;
  state = wg_threefry_rounds(state, even) + vec2u(key.y, third + 1u);
  state = wg_threefry_rounds(state, odd) + vec2u(third, key.x + 2u);
  state = wg_threefry_rounds(state, even) + vec2u(key.x, key.y + 3u);
  state = wg_threefry_rounds(state, odd) + vec2u(key.y, third + 4u);
  return wg_threefry_rounds(state, even) + vec2u(third, key.x + 5u);
}

fn wg_threefry_rounds(start: vec2u, turns: vec4u) -> vec2u {
  let first = wg_threefry_mix(start, turns.x);
  let second = wg_threefry_mix(first, turns.y);
  let third = wg_threefry_mix(second, turns.z);
  return wg_threefry_mix(third, turns.w);
}

fn wg_threefry_mix(state: vec2u, turn: u32) -> vec2u {
  let sum = state.x + state.y;
  return vec2u(sum, ((state.y << turn) | (state.y >> (32u - turn))) ^ sum);
}
