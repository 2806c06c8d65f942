// Stands in for a CUDA device: the threads of a workgroup are fibers, which switch at barriers.
#include <math.h>
#include <string.h>
#include <ucontext.h>
#include <type_traits>
#include <utility>
#include <vector>
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(n)
struct Place {
  unsigned x = 0, y = 0, z = 0;
};
static Place threadIdx, blockIdx, blockDim, gridDim;
static ucontext_t scheduler;
static ucontext_t* current;
inline void __syncthreads() {
  Place own = threadIdx;
  swapcontext(current, &scheduler);
  threadIdx = own;
}
inline unsigned __popc(unsigned x) { return __builtin_popcount(x); }
inline unsigned __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
inline unsigned __ffs(unsigned x) { return __builtin_ffs(x); }
inline unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; i++) y |= ((x >> i) & 1u) << (31 - i);
  return y;
}
inline unsigned atomicOr(unsigned* place, unsigned x) {
  unsigned old = *place;
  *place |= x;
  return old;
}
inline unsigned atomicAdd(unsigned* place, unsigned x) {
  unsigned old = *place;
  *place += x;
  return old;
}
inline unsigned atomicMax(unsigned* place, unsigned x) {
  unsigned old = *place;
  if (x > old) *place = x;
  return old;
}

// Runs all workgroups of a grid; `kernel` is what one thread does.
static void (*body)();
static std::vector<char> is_done;
static unsigned number;
static void start() {
  unsigned own = number;
  body();
  is_done[own] = 1;
}
static void launch(void (*kernel)(), Place grid, Place size) {
  const unsigned STACK = 1 << 16, count = size.x * size.y * size.z;
  std::vector<char> stacks(size_t(STACK) * count);
  body = kernel, blockDim = size, gridDim = grid;
  for (blockIdx.z = 0; blockIdx.z < grid.z; blockIdx.z++)
    for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
      for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) {
        std::vector<ucontext_t> fibers(count);
        is_done.assign(count, 0);
        bool is_first = true, is_left = true;
        while (is_left) {
          is_left = false;
          for (number = 0; number < count; number++) {
            if (is_first) {
              getcontext(&fibers[number]);
              fibers[number].uc_stack.ss_sp = &stacks[size_t(STACK) * number];
              fibers[number].uc_stack.ss_size = STACK;
              fibers[number].uc_link = &scheduler;
              makecontext(&fibers[number], start, 0);
              threadIdx = {number % size.x, number / size.x % size.y, number / (size.x * size.y)};
            }
            if (is_done[number]) continue;
            current = &fibers[number];
            swapcontext(&scheduler, current);
            is_left = is_left || !is_done[number];
          }
          is_first = false;
        }
      }
}

// Calls a kernel with its bindings: pointers as they are, uniforms by value.
static void** bound;
template <class A> A argument(void* place) {
  if constexpr (std::is_pointer_v<A>)
    return static_cast<A>(place);
  else
    return *static_cast<std::remove_const_t<A>*>(place);
}
template <class... A, size_t... I> void invoke(void (*kernel)(A...), std::index_sequence<I...>) {
  kernel(argument<A>(bound[I])...);
}
template <class... A> void invoke(void (*kernel)(A...)) {
  invoke(kernel, std::index_sequence_for<A...>());
}
#define RUNNER(name)                                                            \
  extern "C" void run_##name(void** bindings, const unsigned* n) {              \
    bound = bindings;                                                           \
    launch([] { invoke(name); }, {n[0], n[1], n[2]}, {n[3], n[4], n[5]});       \
  }
