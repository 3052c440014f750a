// What Python calls, through ctypes: plain functions on arrays. None throws: a failure is a status.
#include "../stamp.hpp"
#include "rank.hpp"

#include <new>

RAYHULL_SAY_STAMP;

namespace {

enum Status : int { FINE = 0, NO_MEMORY = -1 };

// f's status, or NO_MEMORY: nothing is thrown across a door.
template <class F>
int guarded(F f) noexcept {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return NO_MEMORY;
  }
}

}  // namespace

// The best instruction set of this processor among those that the core is built for.
RAYHULL_EXPORT const char* rayhull_level() {
#if defined(__x86_64__)
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  return v3 ? "x86-64-v3" : "x86-64-v2";
#else
  return "";
#endif
}

// 1 if every ray is extreme, 0 if one is not.
RAYHULL_EXPORT int rayhull_all_extreme(const int64_t* residues, int64_t n, int64_t k, const uint8_t* tight,
                                       const uint8_t* support, int64_t r) {
  return guarded([&] { return rayhull::all_extreme(residues, n, k, tight, support, r) ? 1 : 0; });
}
