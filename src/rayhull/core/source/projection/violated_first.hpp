// What the dual active-set methods share: from the nearest point of some rows, add a violated one until none is left.
#pragma once

#include <limits>

#include "sample.hpp"

namespace rayhull {

constexpr int ROUNDS = 12;         // fresh starts from what was found; the first nearly always is enough
constexpr double INFINITE = std::numeric_limits<double>::infinity();

enum class Met { YES, IMPOSSIBLE, REFACTOR };

// Returns the status and adds to `steps`. A method has: settle(), the nearest point of its active rows, computed afresh;
// find(violated), one to add, or false; meet(violated, ...), which makes it active; is_rounding(violated).
template <class Violated, class Method>
int64_t add_violated(Method& method, int64_t most, int64_t& steps) {
  for (int round = 0; round < ROUNDS; round++) {
    steps += method.settle();
    int64_t added = 0;
    for (Violated next; steps < most && method.find(next);) {
      added++;
      const Met met = method.meet(next, most, steps);
      if (met == Met::YES) continue;
      if (met == Met::IMPOSSIBLE && !method.is_rounding(next)) return EMPTY;
      if (met == Met::IMPOSSIBLE && added == 1) return SOLVED;
      break;  // look again from a freshly computed point
    }
    if (added == 0) return SOLVED;
    if (steps >= most) break;
  }
  return UNSOLVED;
}

}  // namespace rayhull
