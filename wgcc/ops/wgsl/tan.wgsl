fn wg_tan(x: f32) -> f32 {
  let turn = wg_turn(x);
  let sine = wg_sin_near(turn.x);
  let cosine = wg_cos_near(turn.x);
  let odd = turn.y == 1.0f || turn.y == 3.0f;
  return select(sine, -cosine, odd) / select(cosine, sine, odd);
}
