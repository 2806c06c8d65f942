// Here keys are rows. Column n is row n / SHARED of one of the heads that share the key.
fn head(h: u32, n: u32) -> u32 { return h * SHARED + n % SHARED; }

fn first_seen(m: u32) -> u32 { return SHARED * first_row(i32(m) - ORIGIN); }

fn end_seen(m: u32) -> u32 { return SHARED * end_row(i32(m) - ORIGIN); }

fn left_0(z: u32, h: u32, m: u32, k: u32) -> f32 { return key_at(z, h, m, k); }

fn right_0(z: u32, h: u32, k: u32, n: u32) -> f32 { return query_at(z, head(h, n), n / SHARED, k); }

fn left_1(z: u32, h: u32, m: u32, k: u32) -> f32 { return value_at(z, h, m, k); }

fn right_1(z: u32, h: u32, k: u32, n: u32) -> f32 { return dy_at(z, head(h, n), n / SHARED, k); }

// The gradients of a key's scores and its shares, out of products with queries and gradients.
fn weigh(z: u32, h: u32, m: u32, first: u32, end: u32, at: u32, other: u32) {
  for (var n = first; n < end; n++) {
    let peak = stats_at(z, head(h, n), n / SHARED, 0u);
    let log_sum = stats_at(z, head(h, n), n / SHARED, 1u);
    let mean = stats_at(z, head(h, n), n / SHARED, 2u);
    MASK();
    let p = SHARE;
    scratch[at + n] = SCALE * p * (scratch[other + n] - mean);
    scratch[other + n] = p;
  }
}

fn factor_0(z: u32, h: u32, k: u32, n: u32) -> f32 { return query_at(z, head(h, k), k / SHARED, n); }

fn finish_0(z: u32, h: u32, m: u32, n: u32, x: f32) { put_both(z, h, m, n, x); }

fn factor_1(z: u32, h: u32, k: u32, n: u32) -> f32 { return dy_at(z, head(h, k), k / SHARED, n); }

fn finish_1(z: u32, h: u32, m: u32, n: u32, x: f32) { put_both(z, h, m, INNER + n, x); }
