// Double description: the extreme rays of a pointed cone, one inequality at a time.
#pragma once

#include "cone.hpp"
#include "watch.hpp"

namespace rayhull {

enum Outcome : int {
  DONE = 0,
  STOPPED = 1,  // by the caller, or at a bound
  PAUSED = 3,   // the work that was granted is done: call again
  FAILED = 2,   // the next row needs longer integers, or floats too close to call: the cone is as before that row
};

// Takes rows until none is open. `order`: place of each row of C; the open row with the lowest is taken next. `most_work`:
// pairs of rays and entries of rays looked at before it pauses; a row that would take more is not begun.
template <class Number>
int take_rows(Cone<Number>& cone, const int64_t* order, Watch& watch, int threads, int64_t most_work);

}  // namespace rayhull
