// d.mix.b
// from tokens.wg:13
// 1 x 1 x 1 workgroups of 8 threads (cpu)
//   x0: d.back.reshape f32[10, 8]
//   x1: mix.matmul f32[10, 8]
//   x2: mix.b f32[8]
//   y0: d.mix.add f32[2, 5, 8]
//   y1: d.mix.b f32[8]
@group(0) @binding(0) var<storage, read> x0: array<f32, 80>;
@group(0) @binding(1) var<storage, read> x1: array<f32, 80>;
@group(0) @binding(2) var<storage, read> x2: array<f32, 8>;
@group(0) @binding(3) var<storage, read_write> y0: array<f32, 80>;
@group(0) @binding(4) var<storage, read_write> y1: array<f32, 8>;

const OUTER = 8u;
const INNER = 10u;
const WORKGROUP = 8u;

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

// One thread per result.
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let o = id.x;
  if (o >= OUTER) { return; }
  var sum_0: f32 = 0.0f;
  let x_2 = x2[o];
  for (var r = 0u; r < INNER; r++) {
    let x_0 = x0[((r * 8u + o) / 40u) * 40u + (r % 5u) * 8u + o];
    let x_1 = x1[((r * 8u + o) / 40u) * 40u + (r % 5u) * 8u + o];
    let add_0 = (x_1 + x_2);
    let mul_0 = (add_0 * 0.7071067811865476f);
    let erf_0 = wg_erf(mul_0);
    let add_1 = (erf_0 + 1.0f);
    let mul_1 = (add_1 * 0.5f);
    let square_0 = (add_0 * add_0);
    let mul_2 = (square_0 * (-0.5f));
    let exp_0 = exp(mul_2);
    let mul_3 = (exp_0 * 0.3989422804014327f);
    let mul_4 = (add_0 * mul_3);
    let add_2 = (mul_1 + mul_4);
    let mul_5 = (x_0 * add_2);
    sum_0 = (sum_0 + mul_5);
    y0[((r * 8u + o) / 40u) * 40u + (r % 5u) * 8u + o] = mul_5;
  }
  y1[o] = sum_0;
}
