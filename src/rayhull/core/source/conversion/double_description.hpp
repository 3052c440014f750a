// Double description: the extreme rays of a pointed cone, one inequality at a time.
#pragma once

#include "cone.hpp"
#include "watch.hpp"

namespace rayhull {

enum Outcome : int {
  DONE = 0,
  STOPPED = 1,  // by the caller, or at a bound
  FAILED = 2,   // the next row needs longer integers, or floats too close to call: the cone is as before that row
};

// Takes rows until none is open. `order`: place of each row of C; the open row with the lowest is taken next.
template <class Number>
int take_rows(Cone<Number>& cone, const int64_t* order, Watch& watch, int threads);

}  // namespace rayhull
