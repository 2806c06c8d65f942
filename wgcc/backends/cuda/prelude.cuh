// The types and functions of WGSL that CUDA C++ does not have. A test may define __device__ and the
// rest for another compiler before it includes this.
#ifndef WGSL_PRELUDE
#define WGSL_PRELUDE
using u32 = unsigned int;
using i32 = int;
using f32 = float;

// What GPUs compute by special units: with an error that WGSL allows.
#ifdef __CUDACC__
#define WGSL_FAST(name) ::__##name##f
#else
#define WGSL_FAST(name) ::name##f
#endif

namespace wgsl {

template <class To, class From> __device__ To bitcast(From x) {
  static_assert(sizeof(To) == sizeof(From), "bitcast keeps the size");
  To y;
  memcpy(&y, &x, sizeof y);
  return y;
}

__device__ unsigned short f16_bits(f32 x);
__device__ f32 f16_value(unsigned short bits);

// A number of 16 bits; arithmetic is rounded after each operation.
struct f16 {
  unsigned short bits;
  f16() = default;
  __device__ explicit f16(f32 x) : bits(f16_bits(x)) {}
  __device__ explicit f16(u32 x) : f16(f32(x)) {}
  __device__ explicit f16(i32 x) : f16(f32(x)) {}
  __device__ explicit operator f32() const { return f16_value(bits); }
};
__device__ inline f16 operator+(f16 a, f16 b) { return f16(f32(a) + f32(b)); }
__device__ inline f16 operator-(f16 a, f16 b) { return f16(f32(a) - f32(b)); }
__device__ inline f16 operator*(f16 a, f16 b) { return f16(f32(a) * f32(b)); }
__device__ inline f16 operator/(f16 a, f16 b) { return f16(f32(a) / f32(b)); }

#ifdef __CUDACC__
__device__ inline unsigned short f16_bits(f32 x) {
  unsigned short y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
__device__ inline f32 f16_value(unsigned short bits) {
  f32 y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(bits));
  return y;
}
#else
inline unsigned short f16_bits(f32 x) { return bitcast<unsigned short>(_Float16(x)); }
inline f32 f16_value(unsigned short bits) { return f32(bitcast<_Float16>(bits)); }
#endif

template <class T, int N> struct vec;
template <class T> struct alignas(2 * sizeof(T)) vec<T, 2> {
  T x, y;
  vec() = default;
  __device__ explicit vec(T a) : x(a), y(a) {}
  __device__ vec(T a, T b) : x(a), y(b) {}
  template <class U> __device__ explicit vec(vec<U, 2> v) : x(T(v.x)), y(T(v.y)) {}
  __device__ T& operator[](u32 i) { return (&x)[i]; }
  __device__ T operator[](u32 i) const { return (&x)[i]; }
};
template <class T> struct alignas(sizeof(T)) vec<T, 3> {
  T x, y, z;
  vec() = default;
  __device__ explicit vec(T a) : x(a), y(a), z(a) {}
  __device__ vec(T a, T b, T c) : x(a), y(b), z(c) {}
  template <class U> __device__ explicit vec(vec<U, 3> v) : x(T(v.x)), y(T(v.y)), z(T(v.z)) {}
  __device__ T& operator[](u32 i) { return (&x)[i]; }
  __device__ T operator[](u32 i) const { return (&x)[i]; }
};
template <class T> struct alignas(4 * sizeof(T)) vec<T, 4> {
  T x, y, z, w;
  vec() = default;
  __device__ explicit vec(T a) : x(a), y(a), z(a), w(a) {}
  __device__ vec(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}
  __device__ vec(vec<T, 2> a, vec<T, 2> b) : x(a.x), y(a.y), z(b.x), w(b.y) {}
  __device__ vec(vec<T, 3> a, T d) : x(a.x), y(a.y), z(a.z), w(d) {}
  template <class U>
  __device__ explicit vec(vec<U, 4> v) : x(T(v.x)), y(T(v.y)), z(T(v.z)), w(T(v.w)) {}
  __device__ T& operator[](u32 i) { return (&x)[i]; }
  __device__ T operator[](u32 i) const { return (&x)[i]; }
};
template <class T> using vec2 = vec<T, 2>;
template <class T> using vec3 = vec<T, 3>;
template <class T> using vec4 = vec<T, 4>;
template <class T> using atomic = T;

template <class T, u32 N> struct array {
  T elements[N];
  __device__ T& operator[](u32 i) { return elements[i]; }
  __device__ T operator[](u32 i) const { return elements[i]; }
};

// An operator for each component; a scalar goes with all of them.
#define WGSL_OPERATOR(op)                                                                  \
  template <class T, int N> __device__ vec<T, N> operator op(vec<T, N> a, vec<T, N> b) {   \
    vec<T, N> y;                                                                           \
    for (int i = 0; i < N; i++) y[i] = a[i] op b[i];                                       \
    return y;                                                                              \
  }                                                                                        \
  template <class T, int N, class U> __device__ vec<T, N> operator op(vec<T, N> a, U b) {  \
    return a op vec<T, N>(T(b));                                                           \
  }                                                                                        \
  template <class T, int N, class U> __device__ vec<T, N> operator op(U a, vec<T, N> b) {  \
    return vec<T, N>(T(a)) op b;                                                           \
  }                                                                                        \
  template <class T, int N, class U>                                                       \
  __device__ vec<T, N>& operator op##=(vec<T, N>& a, U b) {                                \
    return a = a op b;                                                                     \
  }
WGSL_OPERATOR(+)
WGSL_OPERATOR(-)
WGSL_OPERATOR(*)
WGSL_OPERATOR(/)
WGSL_OPERATOR(%)
WGSL_OPERATOR(&)
WGSL_OPERATOR(|)
WGSL_OPERATOR(^)
WGSL_OPERATOR(<<)
WGSL_OPERATOR(>>)
#define WGSL_COMPARISON(op)                                                                \
  template <class T, int N> __device__ vec<bool, N> operator op(vec<T, N> a, vec<T, N> b) { \
    vec<bool, N> y;                                                                        \
    for (int i = 0; i < N; i++) y[i] = a[i] op b[i];                                       \
    return y;                                                                              \
  }
WGSL_COMPARISON(<)
WGSL_COMPARISON(>)
WGSL_COMPARISON(<=)
WGSL_COMPARISON(>=)
WGSL_COMPARISON(==)
WGSL_COMPARISON(!=)
template <class T, int N> __device__ vec<T, N> operator-(vec<T, N> a) { return T(0) - a; }
template <class T, int N> __device__ vec<T, N> operator!(vec<T, N> a) {
  for (int i = 0; i < N; i++) a[i] = !a[i];
  return a;
}
template <int... I, class T, int N> __device__ vec<T, sizeof...(I)> swizzle(vec<T, N> v) {
  return vec<T, sizeof...(I)>(v[I]...);
}

// The type that two numbers have together: literals without a type are i32.
template <class A, class B> using common = decltype(true ? A() : B());
template <class A, class B> __device__ common<A, B> min(A a, B b) {
  using T = common<A, B>;
  return T(a) < T(b) ? T(a) : T(b);
}
template <class A, class B> __device__ common<A, B> max(A a, B b) {
  using T = common<A, B>;
  return T(a) > T(b) ? T(a) : T(b);
}
__device__ inline f32 min(f32 a, f32 b) { return ::fminf(a, b); }
__device__ inline f32 max(f32 a, f32 b) { return ::fmaxf(a, b); }
template <class T, class A, class B> __device__ T clamp(T x, A low, B high) {
  return T(wgsl::min(wgsl::max(x, T(low)), T(high)));
}
template <class A, class B> __device__ common<A, B> select(A no, B yes, bool condition) {
  return condition ? yes : no;
}
template <class T, int N>
__device__ vec<T, N> select(vec<T, N> no, vec<T, N> yes, vec<bool, N> condition) {
  for (int i = 0; i < N; i++) no[i] = condition[i] ? yes[i] : no[i];
  return no;
}
template <int N> __device__ bool all(vec<bool, N> v) {
  bool y = true;
  for (int i = 0; i < N; i++) y = y && v[i];
  return y;
}
template <int N> __device__ bool any(vec<bool, N> v) { return !wgsl::all(!v); }

__device__ inline f32 fma(f32 a, f32 b, f32 c) { return ::fmaf(a, b, c); }
__device__ inline f16 fma(f16 a, f16 b, f16 c) { return f16(f32(a) * f32(b) + f32(c)); }
template <class T, int N> __device__ vec<T, N> fma(vec<T, N> a, vec<T, N> b, vec<T, N> c) {
  for (int i = 0; i < N; i++) c[i] = wgsl::fma(a[i], b[i], c[i]);
  return c;
}
template <class T, int N> __device__ T dot(vec<T, N> a, vec<T, N> b) {
  T y = a[0] * b[0];
  for (int i = 1; i < N; i++) y = y + a[i] * b[i];
  return y;
}

#define WGSL_UNARY(name, value)                                         \
  __device__ inline f32 name(f32 x) { return value; }                   \
  template <class T, int N> __device__ vec<T, N> name(vec<T, N> v) {    \
    for (int i = 0; i < N; i++) v[i] = wgsl::name(v[i]);                \
    return v;                                                           \
  }
#define WGSL_BINARY(name, value)                                                       \
  __device__ inline f32 name(f32 x, f32 y) { return value; }                           \
  template <class T, int N> __device__ vec<T, N> name(vec<T, N> v, vec<T, N> w) {      \
    for (int i = 0; i < N; i++) v[i] = wgsl::name(v[i], w[i]);                         \
    return v;                                                                          \
  }
WGSL_UNARY(exp, WGSL_FAST(exp)(x))
WGSL_UNARY(log, WGSL_FAST(log)(x))
WGSL_UNARY(sin, WGSL_FAST(sin)(x))
WGSL_UNARY(cos, WGSL_FAST(cos)(x))
WGSL_UNARY(exp2, ::exp2f(x))
WGSL_UNARY(log2, ::log2f(x))
WGSL_UNARY(sqrt, ::sqrtf(x))
WGSL_UNARY(inverseSqrt, 1.0f / ::sqrtf(x))
WGSL_UNARY(tan, ::tanf(x))
WGSL_UNARY(tanh, ::tanhf(x))
WGSL_UNARY(asin, ::asinf(x))
WGSL_UNARY(acos, ::acosf(x))
WGSL_UNARY(atan, ::atanf(x))
WGSL_UNARY(sinh, ::sinhf(x))
WGSL_UNARY(cosh, ::coshf(x))
WGSL_UNARY(asinh, ::asinhf(x))
WGSL_UNARY(acosh, ::acoshf(x))
WGSL_UNARY(atanh, ::atanhf(x))
WGSL_UNARY(floor, ::floorf(x))
WGSL_UNARY(ceil, ::ceilf(x))
WGSL_UNARY(round, ::rintf(x))
WGSL_UNARY(trunc, ::truncf(x))
WGSL_UNARY(fract, x - ::floorf(x))
WGSL_UNARY(sign, x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f)
WGSL_UNARY(abs, ::fabsf(x))
WGSL_BINARY(pow, ::powf(x, y))
WGSL_BINARY(atan2, ::atan2f(x, y))
template <class T, int N> __device__ vec<T, N> min(vec<T, N> v, vec<T, N> w) {
  for (int i = 0; i < N; i++) v[i] = wgsl::min(v[i], w[i]);
  return v;
}
template <class T, int N> __device__ vec<T, N> max(vec<T, N> v, vec<T, N> w) {
  for (int i = 0; i < N; i++) v[i] = wgsl::max(v[i], w[i]);
  return v;
}
__device__ inline i32 abs(i32 x) { return x < 0 ? -x : x; }
__device__ inline i32 sign(i32 x) { return (x > 0) - (x < 0); }

__device__ inline u32 countOneBits(u32 x) { return u32(__popc(x)); }
__device__ inline u32 countLeadingZeros(u32 x) { return u32(__clz(x)); }
__device__ inline u32 countTrailingZeros(u32 x) { return x ? u32(__ffs(x)) - 1u : 32u; }
__device__ inline u32 reverseBits(u32 x) { return __brev(x); }
__device__ inline u32 extractBits(u32 x, u32 at, u32 count) {
  return (x >> at) & ((1u << count) - 1u);
}
__device__ inline i32 extractBits(i32 x, u32 at, u32 count) {
  return i32(u32(x) << (32u - at - count)) >> (32u - count);
}
__device__ inline u32 pack2x16float(vec<f32, 2> v) {
  return u32(f16_bits(v.x)) | (u32(f16_bits(v.y)) << 16);
}
__device__ inline vec<f32, 2> unpack2x16float(u32 x) {
  return vec<f32, 2>(f16_value((unsigned short)(x)), f16_value((unsigned short)(x >> 16)));
}
__device__ inline vec<i32, 4> unpack4xI8(u32 x) {
  return vec<i32, 4>(i32(x << 24) >> 24, i32(x << 16) >> 24, i32(x << 8) >> 24, i32(x) >> 24);
}
__device__ inline vec<u32, 4> unpack4xU8(u32 x) {
  return vec<u32, 4>(x & 255u, (x >> 8) & 255u, (x >> 16) & 255u, x >> 24);
}
template <class T> __device__ u32 pack4xU8(vec<T, 4> v) {
  return (u32(v.x) & 255u) | (u32(v.y) & 255u) << 8 | (u32(v.z) & 255u) << 16 | u32(v.w) << 24;
}
__device__ inline u32 pack4xI8(vec<i32, 4> v) { return pack4xU8(v); }
__device__ inline i32 dot4I8Packed(u32 a, u32 b) { return wgsl::dot(unpack4xI8(a), unpack4xI8(b)); }
__device__ inline u32 dot4U8Packed(u32 a, u32 b) { return wgsl::dot(unpack4xU8(a), unpack4xU8(b)); }

__device__ inline u32 local_index() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
__device__ inline vec<u32, 3> global_id() {
  return vec<u32, 3>(blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y * blockDim.y + threadIdx.y,
                     blockIdx.z * blockDim.z + threadIdx.z);
}
__device__ inline void workgroupBarrier() { __syncthreads(); }
__device__ inline void storageBarrier() { __syncthreads(); }
template <class T> __device__ T workgroupUniformLoad(T* place) {
  __syncthreads();
  T y = *place;
  __syncthreads();
  return y;
}
__device__ inline u32 atomicOr(u32* place, u32 x) { return ::atomicOr(place, x); }
__device__ inline u32 atomicAdd(u32* place, u32 x) { return ::atomicAdd(place, x); }
__device__ inline u32 atomicMax(u32* place, u32 x) { return ::atomicMax(place, x); }

#ifdef __CUDACC__
template <class T> __device__ T subgroupShuffle(T x, u32 lane) {
  return __shfl_sync(0xffffffffu, x, lane);
}
template <class T> __device__ T subgroupShuffleXor(T x, u32 mask) {
  return __shfl_xor_sync(0xffffffffu, x, mask);
}
template <class T> __device__ T subgroupBroadcast(T x, u32 lane) { return subgroupShuffle(x, lane); }
__device__ inline bool subgroupAll(bool x) { return __all_sync(0xffffffffu, x); }
__device__ inline vec<u32, 4> subgroupBallot(bool x) {
  return vec<u32, 4>(__ballot_sync(0xffffffffu, x), 0u, 0u, 0u);
}
#endif
#undef WGSL_OPERATOR
#undef WGSL_COMPARISON
#undef WGSL_UNARY
#undef WGSL_BINARY
#undef WGSL_FAST
}  // namespace wgsl
#endif
