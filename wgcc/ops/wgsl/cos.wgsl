fn wg_cos(x: f32) -> f32 {
  let turn = wg_turn(x);
  let odd = turn.y == 1.0f || turn.y == 3.0f;
  let y = select(wg_cos_near(turn.x), wg_sin_near(turn.x), odd);
  return select(y, -y, turn.y == 1.0f || turn.y == 2.0f);
}
