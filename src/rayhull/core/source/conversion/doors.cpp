// What Python calls, through ctypes: plain functions on arrays. None throws: a failure is a status.
#include "../stamp.hpp"
#include "adjacency.hpp"
#include "double_description.hpp"
#include "lift.hpp"
#include "rank.hpp"
#include "verification.hpp"
#include "wide.hpp"

#include <algorithm>
#include <exception>

RAYHULL_SAY_STAMP;

using namespace rayhull;

namespace {

constexpr int NO_MEMORY = -1;

// f's status, or NO_MEMORY: nothing is thrown across a door.
template <class F>
int64_t guarded(F f) noexcept {
  try {
    return f();
  } catch (const std::exception&) {
    return NO_MEMORY;
  }
}

// A cone as Python gives and takes it: arrays with nothing between their rows.
struct Arrays {
  int64_t n, k, rays, columns, words, bits;
  void* S;         // (rays, columns) int64 or double
  Word* Z;         // (rays, words)
  double* E;       // (rays)
  int64_t* left;   // (columns)
  int64_t* taken;  // (n)
};

template <class Number>
Cone<Number> cone_of(const Arrays& given, const Number* C) {
  Cone<Number> cone{};
  cone.n = given.n, cone.k = given.k, cone.rays = given.rays, cone.words = given.words, cone.bits = given.bits;
  cone.columns = cone.stride = given.columns;
  const auto* S = static_cast<const Number*>(given.S);
  cone.S.assign(S, S + given.rays * given.columns);
  cone.Z.assign(given.Z, given.Z + given.rays * given.words);
  cone.E.assign(given.E, given.E + given.rays);
  cone.left.assign(given.left, given.left + given.columns);
  cone.taken.assign(given.taken, given.taken + given.n);
  if (C != nullptr) cone.C.assign(C, C + given.n * given.k);
  return cone;
}

template <class Number>
void copy_out(const Cone<Number>& cone, Arrays& out) {
  for (int64_t i = 0; i < cone.rays; i++)
    std::copy(cone.ray(i), cone.ray(i) + cone.columns, static_cast<Number*>(out.S) + i * cone.columns);
  std::copy(cone.Z.begin(), cone.Z.begin() + cone.rays * cone.words, out.Z);
  std::copy(cone.E.begin(), cone.E.begin() + cone.rays, out.E);
  std::copy(cone.left.begin(), cone.left.begin() + cone.columns, out.left);
  std::copy(cone.taken.begin(), cone.taken.end(), out.taken);
}

// A cone between two calls.
struct Handle {
  Cone<int64_t> exact;
  Cone<double> inexact;
  bool is_exact;

  // f(the cone that is used)
  template <class F>
  auto with_cone(F f) {
    return is_exact ? f(exact) : f(inexact);
  }
};

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

// Independent rows modulo a prime: how many, or NO_MEMORY. `rows` and `columns` have room for min(m, k).
RAYHULL_EXPORT int64_t rayhull_independent_rows(const int64_t* A, int64_t m, int64_t k, int64_t prime, int64_t* rows,
                                                int64_t* columns) {
  return guarded([&] { return independent_rows(A, m, k, prime, rows, columns); });
}

// weights (rows, many) times edges (many, width), each row divided by its greatest common divisor: 0, or TOO_LONG where
// 62 bits do not hold an entry, or NO_MEMORY.
RAYHULL_EXPORT int64_t rayhull_primitive_product(const int64_t* weights, const int64_t* edges, int64_t rows,
                                                 int64_t many, int64_t width, int64_t* out) {
  return guarded([&] { return primitive_product(weights, edges, rows, many, width, out) ? 0 : TOO_LONG; });
}

// A Fault, or NO_MEMORY; see verification.hpp.
RAYHULL_EXPORT int64_t rayhull_examine(const int64_t* C, int64_t n, int64_t k, const int64_t* Y, int64_t rays,
                                       int64_t prime, int64_t threads, Word* zeros, uint8_t* extreme) {
  return guarded([&] { return examine({C, Y, n, k, rays}, prime, static_cast<int>(threads), zeros, extreme); });
}

// A cone to take rows into, or null without memory; rayhull_close_cone ends it. `C` is null for exact arithmetic.
RAYHULL_EXPORT Handle* rayhull_open_cone(const Arrays* cone, const double* C) {
  std::unique_ptr<Handle> made;
  const int64_t status = guarded([&] {
    made = std::make_unique<Handle>();
    made->is_exact = C == nullptr;
    if (made->is_exact)
      made->exact = cone_of<int64_t>(*cone, nullptr);
    else
      made->inexact = cone_of<double>(*cone, C);
    return 0;
  });
  return status == 0 ? made.release() : nullptr;
}

// Takes rows; returns an Outcome or NO_MEMORY, after which the cone is of no use.
RAYHULL_EXPORT int64_t rayhull_take_rows(Handle* handle, const int64_t* order, const Budget* budget, Progress* progress,
                                         int64_t threads, int64_t most_work) {
  return guarded([&] {
    Watch watch(*progress, *budget);
    const auto take = [&](auto& cone) { return take_rows(cone, order, watch, static_cast<int>(threads), most_work); };
    return handle->with_cone(take);
  });
}

// Writes how many rays, columns and bits there are now; and, where `out` has arrays of these sizes, the cone.
RAYHULL_EXPORT void rayhull_read_cone(Handle* handle, Arrays* out) {
  handle->with_cone([&](auto& cone) {
    out->rays = cone.rays, out->columns = cone.columns, out->bits = cone.bits;
    if (out->S != nullptr) copy_out(cone, *out);
  });
}

RAYHULL_EXPORT void rayhull_close_cone(Handle* handle) { delete handle; }

// Adjacent pairs: 0 chosen by size, 1 directly, 2 by edges (simple rays only), 3 by trees. Writes at most `room` pairs;
// returns how many there are, or NO_MEMORY.
RAYHULL_EXPORT int64_t rayhull_adjacent_pairs(const Word* sets, int64_t rays, int64_t words, int64_t need,
                                              const int64_t* above, int64_t p, const int64_t* below, int64_t q,
                                              int64_t way, int64_t threads, int64_t* out, int64_t room) {
  return guarded([&] {
    const ZeroSets zeros{sets, rays, words, words, need};
    const Search search{static_cast<int>(threads), [](int64_t) { return false; }};
    const std::vector<int64_t> a(above, above + p), b(below, below + q);
    const auto found = way == 1   ? pairs_directly(zeros, a, b, search)
                       : way == 2 ? pairs_by_edges(zeros, a, b, search)
                       : way == 3 ? pairs_by_trees(zeros, a, b, search)
                                  : adjacent_pairs(zeros, a, b, search);
    for (int64_t i = 0; i < std::min<int64_t>(room, found.size()); i++)
      out[2 * i] = found[i].above, out[2 * i + 1] = found[i].below;
    return static_cast<int64_t>(found.size());
  });
}
