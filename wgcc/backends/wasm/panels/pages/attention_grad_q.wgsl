// Row m of a key head is row m % ROWS of one of the heads that share it.
fn head(h: u32, m: u32) -> u32 { return h * SHARED + m / ROWS; }

fn first_seen(m: u32) -> u32 { return first_key(ORIGIN + i32(m % ROWS)); }

fn end_seen(m: u32) -> u32 { return end_key(ORIGIN + i32(m % ROWS)); }

fn left_0(z: u32, h: u32, m: u32, k: u32) -> f32 { return query_at(z, head(h, m), m % ROWS, k); }

fn right_0(z: u32, h: u32, k: u32, n: u32) -> f32 { return key_at(z, h, n, k); }

fn left_1(z: u32, h: u32, m: u32, k: u32) -> f32 { return dy_at(z, head(h, m), m % ROWS, k); }

fn right_1(z: u32, h: u32, k: u32, n: u32) -> f32 { return value_at(z, h, n, k); }

// The gradients of a row's scores, out of its products with keys and of its gradient with values.
fn weigh(z: u32, h: u32, m: u32, first: u32, end: u32, at: u32, other: u32) {
  STATS();
  for (var s = first; s < end; s++) {
    MASK();
    let p = SHARE;
    scratch[at + s] = SCALE * p * (scratch[other + s] - mean);
  }
}

fn factor_0(z: u32, h: u32, k: u32, n: u32) -> f32 { return key_at(z, h, k, n); }

fn finish_0(z: u32, h: u32, m: u32, n: u32, x: f32) { put_dq(z, head(h, m), m % ROWS, n, x); }
