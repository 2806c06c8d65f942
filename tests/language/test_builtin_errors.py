"""The errors of operators, indices, patterns and built-ins with operands that they cannot use."""

from __future__ import annotations

import pytest

from expressions import problem_of
from wgcc.elaborate.elaborate import check
from wgcc.errors import Diagnostics, Source

TYPES = {
    "x": "f32[A, B, C]", "m": "f32[B, C]", "w": "f32[C, D]", "v": "f32[C]", "r": "f32[B]",
    "h": "f16[B, C]", "i": "i32[B]", "u": "u8[B]", "t": "bool[B]", "k": "i32", "s": "f32",
    "p": "f32[A, 8, 8, B]",
}  # fmt: skip

# expression | place | code | message (or its beginning) | advice
CASES = """
m + r | + | WG0411 | `+`: the shapes cannot be broadcast | to align it with the axes [B] write `r[:, new]`
m @ m | @ | WG0412 | `@`: the inner sizes differ, C = 4 against B = 3 | transpose the right side: `m @ transpose(m)`
m @ r | @ | WG0412 | `@`: the inner sizes differ, C = 4 against B = 3 | transpose the left side: `transpose(m) @ r`
m @ s | @ | WG0412 | `@` needs at least one axis on each side | use `*` to scale by a number
i[new] @ m | @ | WG0501 | `@` multiplies float matrices of one type, but these are i32 and f32 | convert it: `f32(i[new])`
m @ h | @ | WG0501 | `@` multiplies float matrices of one type, but these are f32 and f16
2 @ 3 | 2 @ 3 | WG0412 | `@` multiplies tensors, but these are numbers
m * h | * | WG0501 | `*` mixes f32 and f16 | convert one side: `f32(h)`
i * 0.5 | i * 0.5 | WG0501 | `*` mixes i32 with the fraction 0.5 | convert first: `f32(i)`
t + 1 | t | WG0501 | `+` works on numbers, but this is bool[B] | convert it: `f32(t)`
t == 1 | 1 | WG0501 | `==` mixes bool and the number 1
relu + m | relu | WG0501 | `+` works on tensors and numbers, but this is the function relu | call it: `f(x)`
-u | u | WG0501 | `-` needs numbers that can be negative, but this is u8[B]
i and t | i | WG0501 | `and`/`or` combine conditions, but this is a tensor i32[B] | compare it: `i != 0`
not m | m | WG0501 | `not` needs a condition, but this is a tensor f32[B, C]
i ** 0.5 | ** | WG0501 | `**` with i32[B] needs an exponent known at compile time, 0 to 16
m * (D / A) | D / A | WG0402 | D = 5 is not divisible by A = 2 | division of whole numbers must be exact; for a fraction write `f32(D) / A`
m * (1 / 0) | 1 / 0 | WG0402 | division by zero
m * (2 ** -1) | 2 ** -1 | WG0402 | the exponent of a whole number must be 0 to 64, but it is -1
m * (1.0 / 0.0) | 1.0 / 0.0 | WG0503 | `/` of the number 1 and the number 0 is not a number
m * ((-1.0) ** 0.5) | (-1.0) ** 0.5 | WG0503 | `**` of the number -1 and the number 0.5 is not a number
"a" < 1 | < | WG0501 | `<` cannot compare a string and the number 1
f32("a") | "a" | WG0501 | cannot convert a string to f32
x[0, 0, 0, 0] | x[0, 0, 0, 0] | WG0413 | 4 indices for 3 axes
x[2] | 2 | WG0413 | index 2 is outside an axis of A = 2
x[-3] | -3 | WG0413 | index -3 is outside an axis of A = 2
x[:, 2 : 9] | 2 : 9 | WG0413 | the slice 2 : 9 is outside an axis of B = 3
x[:, 1 : 1] | 1 : 1 | WG0413 | this slice is empty
x[: : 0] | 0 | WG0413 | the step of a slice must not be 0
x[:, 0 : 2 : -1] | 0 : 2 : -1 | WG0413 | this slice is empty: backwards it goes from a higher index to a lower one
x[:, 3 : : -1] | 3 | WG0413 | index 3 is outside an axis of B = 3
x[:, : -5 : -1] | -5 | WG0413 | index -2 is outside an axis of B = 3
x[0 : k] | k | WG0414 | a slice needs bounds known at compile time, but this is a scalar i32 | for a fixed-size window at a run-time position write `x[start +: length]`
x[k +: 9] | k +: 9 | WG0413 | a window of 9 does not fit in an axis of A = 2
x[1 +: 2] | 1 +: 2 | WG0413 | a window of 2 from 1 is outside an axis of A = 2
x[s +: 1] | s | WG0413 | a window starts at one whole number, but this is a scalar f32
x[k +: k] | k | WG0414 | the length of a window must be known at compile time, but this is a scalar i32
x[0, :, i] | i | WG0413 | an index is separated from another by a slice or a new axis | index step by step, `x[i][:, ids]`, or bring the axes together first
x[i, new, i] | i | WG0413 | an index is separated from another by a slice or a new axis | index step by step, `x[i][:, ids]`, or bring the axes together first
x[i, arange(2)] | x[i, arange(2)] | WG0411 | `x[…]`: the shapes cannot be broadcast
x[t] | t | WG0413 | an index must be a whole number, but this is a tensor bool[B] | shapes are fixed; to select by a condition use `where(condition, x, 0.0)`
x[r] | r | WG0413 | an index must be a whole number, but this is a tensor f32[B]
x[s] | s | WG0413 | an index must be a whole number, but this is a scalar f32
x[.., 0, ..] | .. | WG0413 | `..` can be used only once
(1.5)[0] | (1.5)[0] | WG0413 | the number 1.5 cannot be indexed
chunk(x, 2, axis = C)[2] | 2 | WG0413 | index 2 is outside this list of 2
rearrange(w, "C (A K) -> A C K") | K | WG0416 | D = 5 is not a multiple of A = 2
rearrange(m, "B (D A) -> B D A") | (D A) | WG0416 | this axis is C = 4, but (D A) is 10
rearrange(m, "C B -> B C") | C | WG0416 | `C` is another axis of f32[B, C]; this one is B = 3
einsum("B, C B -> C", v, m) | C | WG0416 | `C` is another axis of f32[B, C]; this one is B = 3
rearrange(m, "B C -> C") | B | WG0416 | axis `B` disappears; `rearrange` keeps every axis | to sum over an axis use `einsum` or `sum`
rearrange(m, "B C -> B C D") | D | WG0416 | `D` does not occur on the left of `->`
rearrange(m, "B -> B") | "B -> B" | WG0416 | the pattern has 1 axis, but the tensor is f32[B, C]
rearrange(m, "B C") | "B C" | WG0416 | a pattern has the form "in, in -> out"
rearrange(m, "a -> b -> a") | -> | WG0416 | a pattern has one `->`
rearrange(m, "(B C -> B C") | ( | WG0416 | this `(` is never closed
rearrange(m, "B+C -> B C") | + | WG0416 | `+` cannot be used here in a pattern
rearrange(m, "(b c) e -> b c e") | c | WG0416 | the sizes of `b` and `c` cannot both be inferred
rearrange(m, "b b -> b b") | b | WG0416 | axis `b` occurs twice
rearrange(m, 3) | 3 | WG0416 | a pattern is a string such as "B T D -> B D T", but this is the number 3
einsum("a b, b c -> a c", m) | "a b, b c -> a c" | WG0416 | the pattern has 2 inputs, but 1 tensors are given
einsum("a b -> c", m) | c | WG0416 | `c` does not occur on the left of `->`
einsum("a b, b d -> a d", m, m) | b | WG0416 | `b` is 4 in this pattern, but the axis is B = 3
einsum(m, m) | m | WG0416 | `einsum` begins with a pattern: `einsum("i j, j k -> i k", a, b)`
exp(i) | i | WG0501 | `exp` works on floats, but this is i32[B] | convert it: `f32(i)`
exp(relu) | relu | WG0501 | `x` must be a tensor, but this is the function relu | call it first
log(-1.0) * s | log(-1.0) | WG0503 | `log` of the number -1 is not a number
exp(m, 1) | 1 | WG0207 | `exp` takes 1 argument, but 2 were given
sum(m, keepdim = true) | keepdim | WG0207 | unknown argument of `sum`: `keepdim` | coming from PyTorch: write `sum(m, keep = true)`
where(m, 1, 2) | m | WG0501 | `condition` must be bools, but this is f32[B, C]
where(t, m, m) | where(t, m, m) | WG0411 | `where`: the shapes cannot be broadcast | to align it with the axes [B] write `t[:, new]`
sum(m, axis = 2) | 2 | WG0408 | axis 2 is outside f32[B, C], which has 2 axes
sum(m, axis = D) | D | WG0408 | f32[B, C] has no axis `D` | give the position instead, e.g. `axis = -1`
sum(m @ transpose(m), axis = B) | B | WG0408 | `B` names 2 axes of f32[B, B]
sum(m, axis = 0.5) | 0.5 | WG0408 | an axis is a number or a dim's name, but this is the number 0.5
max(m, axis = (0, 0)) | (0, 0) | WG0408 | axis 0 of f32[B, C] is given twice
sum(m, axis = (0, -2)) | (0, -2) | WG0408 | axis 0 of f32[B, C] is given twice
mean(m, axis = [B, 0]) | [B, 0] | WG0408 | axis 0 of f32[B, C] is given twice
var(x, axis = (1, 2, 1)) | (1, 2, 1) | WG0408 | axis 1 of f32[A, B, C] is given twice
logsumexp(x, axis = (C, -1)) | (C, -1) | WG0408 | axis 2 of f32[A, B, C] is given twice
prod(x, axis = (A, C, A)) | (A, C, A) | WG0408 | axis 0 of f32[A, B, C] is given twice
any(t, axis = (0, 0)) | (0, 0) | WG0408 | axis 0 of bool[B] is given twice
argmin(m, axis = (0, 0)) | (0, 0) | WG0408 | axis 0 of f32[B, C] is given twice
normalize(m, axis = (1, -1)) | (1, -1) | WG0408 | axis 1 of f32[B, C] is given twice
transpose(m, 0, -2) | -2 | WG0408 | axis 0 of f32[B, C] is given twice
transpose(x, C) | C | WG0408 | axis 2 of f32[A, B, C] is given twice
sum(m, keep = 1) | 1 | WG0209 | `keep` must be `true` or `false`, but this is the number 1
sum(u) | u | WG0501 | `x` must be f32, but this is u8[B]
mean(i) | i | WG0501 | `x` must be floats, but this is i32[B] | convert it: `f32(i)`
all(m) | m | WG0501 | `x` must be bools, but this is f32[B, C]
argmax(x, axis = (0, 1)) | (0, 1) | WG0408 | `argmax` works along one axis, but 2 are given
reshape(m, [B, D]) | [B, D] | WG0409 | reshape cannot turn 12 values into 15
reshape(m, [D, -1]) | [D, -1] | WG0409 | cannot reshape f32[B, C] (12 values) into rows of 5
reshape(m, [-1, -1]) | [-1, -1] | WG0415 | at most one size may be -1
reshape(m, 12) | 12 | WG0415 | a shape is a list of sizes, e.g. `[B, T, D]`
transpose(v) | v | WG0415 | `transpose` needs at least two axes, but this is f32[C]
concat(m, axis = 0) | m | WG0415 | `concat` joins a list of tensors: `concat([a, b], axis = -1)`
concat([m, w], axis = 0) | [m, w] | WG0415 | `concat` along axis 0: axis 1 of f32[B, C] is C = 4, of f32[C, D] it is D = 5
concat([m, i32(m)], axis = 0) | [m, i32(m)] | WG0501 | `concat` mixes f32[B, C] and i32[B, C] | convert one of them: `f32(...)`
concat([m, v], axis = 0) | [m, v] | WG0415 | `concat` joins tensors with equally many axes, but f32[B, C] has 2 axes, f32[C] has 1 | `x[new]` gives x one more axis
stack(m) | m | WG0415 | `stack` joins a list of tensors: `stack([a, b], axis = -1)`
stack([m, w]) | [m, w] | WG0415 | `stack`: axis 0 of f32[B, C] is B = 3, of f32[C, D] it is C = 4
stack([m, m], axis = 3) | 3 | WG0408 | axis 3 is outside f32[1, B, C], which has 3 axes
expand(m, [C]) | [C] | WG0415 | `expand` keeps all axes: f32[B, C] has 2 axes
expand(m, [D, C]) | [D, C] | WG0406 | axis 0 of f32[B, C] is B = 3; only an axis of size 1 becomes D = 5
expand(m, [-1, B, C]) | [-1, B, C] | WG0415 | -1 keeps the size of an axis, but this axis is new
expand(m, [0, B, C]) | [0, B, C] | WG0415 | every size must be at least 1, or -1 to keep it, but this is 0
tile(m, 0) | 0 | WG0503 | `counts` must be at least 1, but it is 0
tile(m, k) | k | WG0401 | `counts` must be a whole number known at compile time, but this is a scalar i32
roll(m, (1, 2), axis = B) | (1, 2) | WG0415 | `roll` needs one shift for each axis, but there are 2 for 1
roll(m, k, axis = B) | k | WG0401 | `shift` must be a whole number known at compile time, but this is a scalar i32
flip(m, axis = D) | D | WG0408 | f32[B, C] has no axis `D` | give the position instead, e.g. `axis = -1`
pad(m, 1, mode = "reflekt") | "reflekt" | WG0209 | `mode` must be one of "constant", "reflect", "replicate", "circular", but this is "reflekt" | did you mean "reflect"?
pad(m, (1, 2, 3)) | (1, 2, 3) | WG0415 | `width` has two numbers for each axis, the last axis first, but these are 3 for f32[B, C]
pad(m, (1, 2, 3, 4), axis = 0) | (1, 2, 3, 4) | WG0415 | with `axis`, `width` is one number or two (before, after), not 4
pad(m, 3, axis = B, mode = "reflect") | 3 | WG0503 | "reflect" can add at most 2 elements to an axis of B = 3, not 3
pad(m, 5, mode = "circular") | 5 | WG0503 | "circular" can add at most 4 elements to an axis of C = 4, not 5
pad(m, 1, mode = "reflect", value = 1.0) | 1.0 | WG0503 | `value` is for the mode "constant"; "reflect" repeats elements of `x`
pad(m, -1) | -1 | WG0503 | `width` must be at least 0, but it is -1
pad(i, 1, value = 0.5) | 0.5 | WG0501 | i32 expected, but this is the number 0.5
tril(v) | v | WG0415 | `tril` needs rows and columns, but this is f32[C]
cumprod(i) | i | WG0501 | `x` must be floats, but this is i32[B] | convert it: `f32(i)`
std(m, axis = B, correction = 3) | 3 | WG0503 | `correction` must be below the number of elements, B = 3
std(i) | i | WG0501 | `x` must be floats, but this is i32[B] | convert it: `f32(i)`
norm(m, p = 0) | 0 | WG0503 | `p` must be positive, but it is 0
norm(m, p = s) | s | WG0503 | `p` must be a number known at compile time, but this is a scalar f32
randint(0, 3, f32[2]) | f32[2] | WG0501 | `randint` makes whole numbers, not f32
randint(3, 3, i32[2]) | 3 | WG0503 | `randint` needs low < high, but they are 3 and 3
randint(0, 99999999, i32[2]) | 99999999 | WG0503 | `randint` draws from at most 16,777,216 numbers, but these are 99,999,999
randint(0, 300, u8[2]) | 300 | WG0504 | 299 does not fit into u8 (0 to 255)
randint(0, i32[2], 3) | 3 | WG0415 | `randint` takes a type: `randint(0, 10, i32[2, 3])`
bernoulli(1.5) * s | 1.5 | WG0503 | `p` must be a probability, from 0 to 1, but it is 1.5
bernoulli(i) | i | WG0501 | `p` must be floats, but this is i32[B] | convert it: `f32(i)`
chunk(m, 2, axis = B) | 2 | WG0402 | B = 3 cannot be split into 2 equal parts
split(m, [1, 1], axis = B) | [1, 1] | WG0409 | the parts add up to 2, but the axis is B = 3
zeros(3) | 3 | WG0415 | `zeros` takes a type: `zeros(f32[2, 3])`
rand(i32[2]) | i32[2] | WG0501 | `rand` makes floats, not i32
arange(k) | k | WG0401 | `start` must be a whole number known at compile time, but this is a scalar i32
arange(0) | arange(0) | WG0503 | `arange` counts from 0 to 0 by 1: no number at all
arange(5, 2) | arange(5, 2) | WG0503 | `arange` counts from 5 to 2 by 1: no number at all
arange(2, 5, 0) | 0 | WG0503 | `step` must not be 0
clamp(m) | clamp(m) | WG0208 | `clamp` needs `low`, `high` or both
full_like(m, m) | m | WG0415 | `value` must be one number, but this is a tensor f32[B, C]
gather(m, r) | r | WG0501 | `ids` must be whole numbers (i32), but this is f32[B]
gather(m, 3) | 3 | WG0413 | row 3 is outside a table of B = 3 rows
take_along_axis(m, i) | i | WG0415 | `ids` must have as many axes as `x`, 2, but this is i32[B] | `gather(x, ids)` looks up whole rows, `x[rows, cols]` single elements
take_along_axis(m, m) | m | WG0501 | `ids` must be whole numbers (i32), but this is f32[B, C] | convert it: `i32(m)`
take_along_axis(m, zeros(i32[A, C])) | zeros(i32[A, C]) | WG0406 | axis 0 of `x` is B = 3, but of `ids` it is A = 2
scatter_add(m, i, w) | w | WG0406 | axis 1 of `x` is C = 4, but of `values` it is D = 5
scatter_add(m, i, h) | h | WG0501 | `values` must be f32, but this is f16[B, C] | convert it: `f32(h)`
scatter_add(m, k, m) | k | WG0406 | `ids` must have an id for each row or each element of `values`, but this is i32
scatter_add(m, arange(C), m) | arange(C) | WG0406 | `ids` must have an id for each row or each element of `values`, but this is i32[C]
segment_sum(m, k, 2) | k | WG0415 | `ids` must be one id for each row of `x`, but this is i32
segment_sum(x, i, 2) | i | WG0406 | `ids` must have an id for each row or each element of `x`, but this is i32[B]
segment_sum(m, i, k) | k | WG0401 | `size` must be a whole number known at compile time, but this is a scalar i32
top_k(m, 5) | 5 | WG0503 | `k` is 5, but there are only C = 4 elements along this axis
sort(s) | sort(s) | WG0408 | axis -1 is outside f32, which has 0 axes
sort(m, reverse = true) | reverse | WG0207 | unknown argument of `sort`: `reverse`
atan2(i, m) | i | WG0501 | `y` must be floats, but this is i32[B] | convert it: `f32(i)`
round(i) | i | WG0501 | `round` works on floats, but this is i32[B] | convert it: `f32(i)`
rms_norm(m, r) | r | WG0406 | rms_norm: `g` must be as long as the last axis of `x`, C = 4
dropout(m, 1.0) | 1.0 | WG0503 | the dropout rate must be at least 0 and below 1, but it is 1
mse(m, v) | v | WG0406 | argument `target` of `mse`: its axes [C] differ from [B, C] of an earlier argument
mse(m, h) | h | WG0501 | argument `target` of `mse` must be f32, but this is f16[B, C] | convert it: `f32(h)`
cross_entropy(m, r) | r | WG0501 | `labels` must be class numbers (i32), but this is f32[B]
cross_entropy(x, i) | cross_entropy(x, i) | WG0419 | cross_entropy: `labels` must have the shape of `logits` without the last axis
cross_entropy(m, i, smoothing = 1.0) | 1.0 | WG0503 | `smoothing` must be at least 0 and below 1, but it is 1
conv2d(p, zeros(f32[3, 3, 5, 2])) | conv2d(p, zeros(f32[3, 3, 5, 2])) | WG0406 | conv2d: the input has B = 3 channels, the kernel expects 5
conv2d(p, zeros(f32[9, 9, 3, 2])) | conv2d(p, zeros(f32[9, 9, 3, 2])) | WG0417 | the kernel of 9 pixels does not fit in 8 | use a smaller kernel, or `pad`
conv2d(p, zeros(f32[3, 3, 3, 2]), groups = 2) | 2 | WG0406 | conv2d: 2 groups do not divide the channels, B = 3 and 2
conv2d(p, zeros(f32[3, 3, 3, 2]), stride = 0) | 0 | WG0503 | `stride` must be at least 1, but it is 0
conv2d(x, w) | x | WG0415 | `x` must have 4 axes, but this is f32[A, B, C]
max_pool2d(p, (1, 2, 3)) | (1, 2, 3) | WG0415 | `k` takes one number or two (rows, columns), but 3 are given
causal_conv1d(m, w) | causal_conv1d(m, w) | WG0406 | causal_conv1d: f32[B, C] has C = 4 channels, the window has D = 5
attention(m, m, m) | m | WG0415 | attention: `q` is [.., heads, rows, head size], but this is f32[B, C]
attention(x, x[.., 1 :], x) | attention(x, x[.., 1 :], x) | WG0418 | attention: the head sizes of q and k differ, C = 4 against C - 1 = 3
attention(x, concat([x, x[0 : 1]], axis = 0), concat([x, x[0 : 1]], axis = 0)) | attention(x, concat([x, x[0 : 1]], axis = 0), concat([x, x[0 : 1]], axis = 0)) | WG0418 | attention: A = 2 query heads cannot share A + 1 = 3 key/value heads evenly
selective_scan(x, x, m, x, x) | selective_scan(x, x, m, x, x) | WG0418 | selective_scan: u f32[A, B, C], dt f32[A, B, C], a f32[B, C], b f32[A, B, C], c f32[A, B, C] do not fit together
selective_scan(x, x, transpose(x[0]), x[.., : 3], x[.., : 3], hold = "linear") | "linear" | WG0209 | `hold` must be one of "euler", "zero_order", but this is "linear"
fft(r) | fft(r) | WG0417 | Fourier transforms need a power of two, but this axis has B = 3 | pad it with zeros, to 4
ifft(v, m) | ifft(v, m) | WG0419 | real and imaginary parts have one shape, but these are f32[C] and f32[B, C]
sample(s) | s | WG0415 | `logits` needs an axis of classes, but this is a scalar f32
sample(v, top_p = 1.5) | 1.5 | WG0503 | `top_p` must be above 0 and at most 1, but it is 1.5
grad(m, m) | m | WG0305 | `grad` differentiates one number, but this is f32[B, C] | reduce it first, e.g. `sum(m)`
grad(s, k) | k | WG0501 | `wrt` must be floats, but this is i32
conv2d(zeros(f32[1, 500, 500, 1]), zeros(f32[260, 260, 1, 1])) | conv2d(zeros(f32[1, 500, 500, 1]), zeros(f32[260, 260, 1, 1])) | WG0417 | a kernel of 260 x 260 pixels is too large, at most 65,536 are possible
causal_conv1d(m, zeros(f32[99999, C])) | zeros(f32[99999, C]) | WG0417 | a window of 99999 is too long, at most 65,536 are possible
max_pool2d(p, 3, pad = 2) | 2 | WG0417 | `pad` may be half of the kernel, 1, but it is 2
upsample(x) | x | WG0415 | `x` must have 4 axes, but this is f32[A, B, C]
upsample(p, 4000) | upsample(p, 4000) | WG0422 | f32[A, 32000, 32000, B] has 6,144,000,000 values, too many for one GPU buffer
chunk(zeros(f32[9999]), 9999, axis = 0) | 9999 | WG0308 | 9999 parts are too many, at most 4096 are possible
arange(1999999999) | arange(1999999999) | WG0422 | i32[1999999999] has 1,999,999,999 values, too many for one GPU buffer
elu(i) | i | WG0501 | `x` must be floats, but this is i32[B] | convert it: `f32(i)`
elu(m, alpha = s) | s | WG0503 | `alpha` must be a number known at compile time, but this is a scalar f32
prelu(m, r) | r | WG0406 | prelu: `a` is one slope or one for each feature of f32[B, C]
glu(m, axis = B) | glu(m, axis = B) | WG0402 | B = 3 cannot be split into 2 equal parts
conv1d(x, zeros(f32[2, 5, 2])) | conv1d(x, zeros(f32[2, 5, 2])) | WG0406 | conv1d: the input has C = 4 channels, the kernel expects 5
conv1d(x, zeros(f32[2, 4, 2]), stride = (1, 2)) | (1, 2) | WG0415 | `stride` takes one number, but 2 are given
conv3d(p, w) | p | WG0415 | `x` must have 5 axes, but this is f32[A, 8, 8, B]
conv_transpose1d(x, zeros(f32[2, 5, 2])) | conv_transpose1d(x, zeros(f32[2, 5, 2])) | WG0406 | conv_transpose1d: the input has C = 4 channels, the kernel expects 5
conv_transpose1d(x, zeros(f32[2, 4, 2]), groups = 3) | 3 | WG0406 | conv_transpose1d: 3 groups do not divide the channels, C = 4
conv_transpose1d(x, zeros(f32[2, 4, 2]), output_pad = 1) | 1 | WG0417 | `output_pad` must be below the stride or the dilation, but it is 1
conv_transpose1d(x, zeros(f32[2, 4, 2]), pad = 9) | conv_transpose1d(x, zeros(f32[2, 4, 2]), pad = 9) | WG0417 | nothing is left: a padding of 9 on both sides is cut off
conv_transpose2d(p, zeros(f32[2, 2, 3, 9]), stride = 4000) | conv_transpose2d(p, zeros(f32[2, 2, 3, 9]), stride = 4000) | WG0422 | f32[A, 28002, 28002, 9] has 14,114,016,072 values, too many for one GPU buffer
max_pool1d(x, 3, pad = 2) | 2 | WG0417 | `pad` may be half of the kernel, 1, but it is 2
avg_pool3d(p, 2) | p | WG0415 | `x` must have 5 axes, but this is f32[A, 8, 8, B]
max_pool2d(p, 2, return_indices = 1) | 1 | WG0209 | `return_indices` must be `true` or `false`, but this is the number 1
bce(m, v) | bce(m, v) | WG0419 | `bce` compares tensors of one shape, but these are f32[B, C] and f32[C]
kl_div(m, m, reduction = "maen") | "maen" | WG0209 | argument `reduction` of `kl_div` must be one of "mean", "batchmean", "sum", "none", but this is "maen" | did you mean "mean"?
kl_div(m, m, reduction = 1) | 1 | WG0209 | argument `reduction` of `kl_div` must be one of "mean", "batchmean", "sum", "none", but this is the number 1
nll(m, r) | r | WG0501 | `labels` must be class numbers (i32), but this is f32[B]
nll(x, i) | nll(x, i) | WG0419 | nll: `labels` must have the shape of `log_probs` without the last axis
triplet(m, m, v) | v | WG0406 | argument `negative` of `triplet`: its leading axes [] differ from [B] of an earlier argument
triplet(m, m, m, margin = -1.0) | -1.0 | WG0403 | `margin` must be positive
hinge(i, i) | i | WG0501 | argument `prediction` of `hinge` must be floats, but this is i32[B] | convert it: `f32(i)`
cosine_similarity(m, r) | cosine_similarity(m, r) | WG0411 | `cosine_similarity`: the shapes cannot be broadcast | to align it with the axes [B] write `r[:, new]`
resize(m, 4) | m | WG0415 | `x` must be [N, size …, C] with 1 to 3 axes in between, but this is f32[B, C]
resize(p, (4, 4), "linear") | "linear" | WG0209 | `mode` must be one of "nearest", "bilinear", "bicubic", but this is "linear"
resize(p, (4, 4), align_corners = true) | true | WG0503 | `align_corners` is for bilinear and bicubic; the nearest pixel has no corners
resize(p, 0) | 0 | WG0503 | `size` must be at least 1, but it is 0
resize(p, 32000) | resize(p, 32000) | WG0422 | f32[A, 32000, 32000, B] has 6,144,000,000 values, too many for one GPU buffer
grid_sample(p, p) | p | WG0406 | grid_sample: `grid` has a position (x, y) for each sample, but this is f32[A, 8, 8, B]
grid_sample(p, zeros(f32[3, 2, 2, 2])) | grid_sample(p, zeros(f32[3, 2, 2, 2])) | WG0406 | grid_sample: A = 2 images, but grids for 3
unfold(p, 2, 2) | 2 | WG0207 | `unfold` takes `stride`, `pad`, `dilation` by name | write `stride = 2`
unfold(p, 9) | unfold(p, 9) | WG0417 | the kernel of 9 pixels does not fit in 8 | use a smaller kernel, or `pad`
fold(x, (4, 4), 3) | x | WG0406 | fold: rows of C = 4 are not windows of 3 x 3 pixels
fold(x, (4, 4), 2) | x | WG0406 | fold: 4 x 4 pixels have 3 x 3 windows, not B = 3
conv1d(x, zeros(f32[2, 3, 2])) | conv1d(x, zeros(f32[2, 3, 2])) | WG0406 | conv1d: the input has C = 4 channels, the kernel expects 3 | channels are the last axis: `rearrange(x, "n c t -> n t c")`
conv2d(p, zeros(f32[3, 3, 8, 2])) | conv2d(p, zeros(f32[3, 3, 8, 2])) | WG0406 | conv2d: the input has B = 3 channels, the kernel expects 8 | channels are the last axis: `rearrange(p, "n c h w -> n h w c")`
u + 300 | 300 | WG0504 | 300 does not fit into u8 (0 to 255)
"""  # noqa: E501


@pytest.mark.parametrize("case", CASES.strip().splitlines())
def test_problem(case: str) -> None:
    expression, place, code, message, *advice = case.split(" | ")
    problem = problem_of(expression, **TYPES)
    assert (problem.code, problem.message, problem.span.text) == (code, message, place)
    if advice:
        assert [help_.text for help_ in problem.helps] == advice


def test_equal_by_luck_is_a_warning() -> None:
    dims = "dim A = 4, B = 4\n"
    problem = problem_of("sum(x + y)", dims, x="f32[A]", y="f32[B]")
    assert (problem.severity, problem.code) == ("warning", "WG0410")
    assert problem.message == "`+`: `A` and `B` are different dims that both happen to be 4"


GENERIC = """
layer Everything[N, D, H](k: dim = 3, drop: f32 = 0.1) {
  fn forward(x: f32[.., N, D], im: f32[2, 8, 8, D], w: f32[k, k, D, H], at: i32) -> f32[.., N, D] {
    a, b = chunk(x, 2, axis = -1)
    y = conv2d(im, w, stride = 2, pad = 1) |> max_pool2d(2) |> upsample(2) |> avg_pool2d(2, pad = 1)
    y = conv_transpose2d(y, w[:, :, : H], stride = 2, output_pad = 1) + 0.0
    z = causal_conv1d(x, w[0, :, :, 0]) + x[.., at +: N, :] + sum(y) + mean(x[.., 1 :])
    q = rearrange(x, ".. n (H K) -> .. H n K")
    o = rearrange(attention(q, q, q, causal = true), ".. H n K -> .. n (H K)")
    id = sample(x, top_k = 40, top_p = 0.9)
    best, ids = top_k(x, k)
    found = sum(take_along_axis(x, ids)) + sum(best) + sum(x[.., arange(N), arange(N)][.., :: -1])
    parts = stack([x, flip(x), roll(x, H, axis = -1), tril(x), cumprod(x)], axis = -1)
    wide = tile(expand(x, shape(x)), 2) |> pad((k, k), mode = "circular")
    drawn = bernoulli(x) * f32(randint(0, D, i32[D])) + norm(parts) + std(wide)
    sums = sum(drawn) + sum(segment_sum(x[.., at, :], i32(x[.., at, :]), H)) + found
    back = reshape(concat([a, b], axis = -1), shape(x))
    return dropout(z + o + sums + f32(id)[.., new] + D + i32(D), drop) + back
  }
}
layer Images[C, H, S](k: dim = 3, stride: dim = 2) {
  fn forward(im: f32[2, S, 8, C], t: f32[2, 9, C], v: f32[1, 4, 4, 4, C], w: f32[k, C, H]) -> f32 {
    a = conv1d(t, w, stride) |> conv_transpose1d(transpose(w), stride) |> max_pool1d(2)
    b, places = max_pool3d(v, 2, ceil_mode = true, return_indices = true)
    c = resize(fold(unfold(im, k, pad = 1), (S, 8), k, pad = 1), (H, 7), "bicubic", true)
    d = grid_sample(c, zeros(f32[2, S, 3, 2])) + mean(glu(c)) + f32(sum(places))
    return mean(a) + mean(b) + mse(d, d) + nll(prelu(t, t[0, 0]), zeros(i32[2, 9]))
  }
}
layer Spectra[N, M] {
  fn forward(x: f32[N], half: f32[M]) -> (f32[N], f32[N / 2 + 1], f32[2 * (M - 1)]) {
    re, im = fft(x)
    back, _ = ifft(re, im)
    first, _ = rfft(x)
    return back, first, irfft(half, half)
  }
}
model M { entry e(x: f32) -> (y: f32) = x }
"""


def test_a_layer_nobody_uses_is_checked_without_sizes() -> None:
    found = Diagnostics()
    check(Source("model.wg", GENERIC), found)
    assert [f"{item.code} {item.message} ({item.span.text})" for item in found.errors] == []
