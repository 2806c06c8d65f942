// Row m of a key head is row m % ROWS of one of the heads that share it.
fn head(h: u32, m: u32) -> u32 { return h * SHARED + m / ROWS; }

fn first_seen(m: u32) -> u32 { return first_key(ORIGIN + i32(m % ROWS)); }

fn end_seen(m: u32) -> u32 { return end_key(ORIGIN + i32(m % ROWS)); }

fn left_0(z: u32, h: u32, m: u32, k: u32) -> f32 { return query_at(z, head(h, m), m % ROWS, k); }

fn right_0(z: u32, h: u32, k: u32, n: u32) -> f32 { return key_at(z, h, n, k); }

// The shares of the keys, out of their products with the query.
fn weigh(z: u32, h: u32, m: u32, first: u32, end: u32, at: u32, other: u32) {
  var peak = HIDDEN;
  for (var s = first; s < end; s++) {
    MASK();
    let score = SCORE;
    scratch[at + s] = score;
    peak = max(peak, score);
  }
  let top = peak;
  var total = 0.0;
  for (var s = first; s < end; s++) {
    let score = scratch[at + s];
    let share = SHARE;
    scratch[at + s] = share;
    total += share;
  }
  // A sum that is not zero is at least 1, of the greatest score.
  let sum = max(total, 1.0);
  let inverse = 1.0 / sum;
  for (var s = first; s < end; s++) {
    scratch[at + s] = scratch[at + s] * inverse;
  }
  KEEP();
}

fn factor_0(z: u32, h: u32, k: u32, n: u32) -> f32 { return value_at(z, h, k, n); }

fn finish_0(z: u32, h: u32, m: u32, n: u32, x: f32) { put_y(z, head(h, m), m % ROWS, n, x); }
