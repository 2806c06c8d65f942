// The quantile of the normal distribution, to the bit the same as drawn.py's.

// Wichura's rational approximations of the normal quantile (AS 241): numerator, denominator, from
// the constant up.
const CENTRE = [
  [
    3.3871328727963665, 133.14166789178438, 1971.5909503065513, 13731.69376550946,
    45921.95393154987, 67265.7709270087, 33430.57558358813, 2509.0809287301227,
  ],
  [
    1, 42.31333070160091, 687.1870074920579, 5394.196021424751, 21213.794301586597,
    39307.89580009271, 28729.085735721943, 5226.495278852854,
  ],
];
const NEAR = [
  [
    1.4234371107496835, 4.630337846156546, 5.769497221460691, 3.6478483247632045,
    1.2704582524523684, 0.2417807251774506, 0.022723844989269184, 0.0007745450142783414,
  ],
  [
    1, 2.053191626637759, 1.6763848301838038, 0.6897673349851, 0.14810397642748008,
    0.015198666563616457, 0.0005475938084995345, 1.0507500716444169e-9,
  ],
];
const FAR = [
  [
    6.657904643501103, 5.463784911164114, 1.7848265399172913, 0.29656057182850487,
    0.026532189526576124, 0.0012426609473880784, 2.7115555687434876e-5, 2.0103343992922881e-7,
  ],
  [
    1, 0.599832206555888, 0.1369298809227358, 0.014875361290850615, 0.0007868691311456133,
    1.8463183175100548e-5, 1.421511758316446e-7, 2.0442631033899397e-15,
  ],
];

/** Coefficients of the series of atanh, in powers of the square. */
const ATANH = Array.from({ length: 12 }, (_, k) => 1 / (2 * k + 1));

/** x with P(X < x) = p for a standard normal X. @param {number} p */
export function normalQuantile(p) {
  const q = p - 0.5;
  if (Math.abs(q) <= 0.425) return q * ratio(CENTRE, 0.180625 - Math.min(q * q, 0.180625));
  const r = Math.sqrt(-naturalLog(Math.min(p, 1 - p)));
  const tail = r <= 5 ? ratio(NEAR, r - 1.6) : ratio(FAR, r - 5);
  return q < 0 ? -tail : tail;
}

/** Not Math.log: library logarithms differ in their last bits. @param {number} x below 1 */
function naturalLog(x) {
  let mantissa = x;
  let exponent = 0;
  while (mantissa < Math.SQRT1_2) {
    mantissa *= 2;
    exponent--;
  }
  const s = (mantissa - 1) / (mantissa + 1);
  return exponent * Math.LN2 + 2 * s * polynomial(ATANH, s * s);
}

/** @param {number[][]} coefficients of numerator and denominator @param {number} x */
function ratio([above, below], x) {
  return polynomial(above, x) / polynomial(below, x);
}

/** @param {number[]} coefficients from the constant up @param {number} x */
function polynomial(coefficients, x) {
  let sum = coefficients[coefficients.length - 1];
  for (let i = coefficients.length - 2; i >= 0; i--) sum = sum * x + coefficients[i];
  return sum;
}
