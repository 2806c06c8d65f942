// gelu
// from tokens.wg:13
// 2 x 1 x 1 workgroups of 64 threads (gpu)
//   x0: mix.matmul f32[10, 8]
//   x1: mix.b f32[8]
//   y0: gelu f32[2, 5, 8]
@group(0) @binding(0) var<storage, read> x0: array<f32, 80>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 8>;
@group(0) @binding(2) var<storage, read_write> y0: array<f32, 80>;

const OUTER = 80u;
const WORKGROUP = 64u;

// erf x: below 1 an odd polynomial, above it 1 - exp(-q(|x|)), q fitted to -log(1 - erf).
// From 4 on it is 1 in f32. The comparisons are such that NaN stays NaN.
fn wg_erf(x: f32) -> f32 {
  let a = select(abs(x), 4.0f, abs(x) > 4.0f);
  let z = a * a;
  var near = 0.00007889123f * z - 0.00080208422f;
  near = near * z + 0.0051895357f;
  near = near * z - 0.026854444f;
  near = near * z + 0.112836f;
  near = near * z - 0.37612626f;
  near = near * z + 1.1283791f;
  var q = -0.00019150414f * a + 0.0029995407f;
  q = q * a - 0.022051997f;
  q = q * a + 0.10356689f;
  q = q * a + 0.63760006f;
  q = q * a + 1.127426f;
  q = q * a + 0.00025644567f;
  let y = select(a * near, 1.0f - exp(-q), a >= 1.0f);
  return select(y, -y, x < 0.0f);
}

// x Φ(x), Φ the normal distribution function.
fn wg_gelu(x: f32) -> f32 {
  return 0.5f * x * (1.0f + wg_erf(x * 0.70710678f));
}

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  let x_0 = x0[o];
  let x_1 = x1[(o % 8u)];
  let add_0 = (x_0 + x_1);
  let gelu_0 = wg_gelu(add_0);
  y0[o] = gelu_0;
}
