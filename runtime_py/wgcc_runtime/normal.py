"""The inverse of the normal distribution function, with arithmetic that IEEE 754 defines exactly.

Wichura's rational approximations (Algorithm AS 241, 1988), relative error about 1e-16, and our own
logarithm, because those of libraries differ in their last bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

LN2 = 0.6931471805599453

# Coefficients from the constant term up: (numerator, denominator) per region.
CENTRE = (
    (3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125,
     45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727),
    (1.0, 42.313330701600911252, 687.18700749205790830, 5394.1960214247511077,
     21213.794301586595867, 39307.895800092710610, 28729.085735721942674, 5226.4952788528545610),
)  # fmt: skip
NEAR_TAIL = (
    (1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
     1.27045825245236838258, 0.241780725177450611770, 0.0227238449892691845833,
     7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187, 1.67638483018380384940, 0.689767334985100004550,
     0.148103976427480074590, 0.0151986665636164571966, 5.47593808499534494600e-4,
     1.05075007164441684324e-9),
)  # fmt: skip
FAR_TAIL = (
    (6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580,
     0.296560571828504891230, 0.0265321895265761230930, 0.00124266094738807843860,
     2.71155556874348757815e-5,
     2.01033439929228813265e-7),
    (1.0, 0.599832206555887937690, 0.136929880922735805310, 0.0148753612908506148525,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15),
)  # fmt: skip


def normal_quantile(p: Values) -> Values:
    """x with P(X < x) = p for a standard normal X; `p` strictly between 0 and 1."""
    q = p - 0.5
    found = q * _ratio(CENTRE, 0.180625 - np.minimum(q * q, 0.180625))
    outside = np.abs(q) > 0.425
    found[outside] = _tail(p[outside], q[outside])
    return found


def _tail(p: Values, q: Values) -> Values:
    r = np.sqrt(-natural_log(np.minimum(p, 1.0 - p)))
    tail = np.where(r <= 5.0, _ratio(NEAR_TAIL, r - 1.6), _ratio(FAR_TAIL, r - 5.0))
    return np.where(q < 0, -tail, tail)


def natural_log(x: Values) -> Values:
    """log x = e log 2 + 2 atanh((m - 1) / (m + 1)) where x = m 2^e and m is near 1."""
    mantissa, exponent = np.frexp(x)
    low = mantissa < 0.7071067811865476
    m = np.where(low, mantissa * 2.0, mantissa)
    e = exponent - low
    s = (m - 1.0) / (m + 1.0)
    # |s| <= 0.172, so 12 terms of the series reach 1e-17.
    series = _polynomial([1.0 / (2 * k + 1) for k in range(12)], s * s)
    return e * LN2 + 2.0 * s * series


def _ratio(coefficients: tuple[Sequence[float], Sequence[float]], x: Values) -> Values:
    above, below = coefficients
    return _polynomial(above, x) / _polynomial(below, x)


def _polynomial(coefficients: Sequence[float], x: Values) -> Values:
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total *= x
        total += coefficient
    return total
