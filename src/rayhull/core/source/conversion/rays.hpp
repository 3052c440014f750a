// The new ray on an adjacent pair: where the edge between the two meets the row.
#pragma once

#include "cone.hpp"

namespace rayhull {

// Writes the ray on `pair` with slack 0 in `column`, its zeros and its error as ray q. False if it cannot be made: an
// entry would pass 62 bits, or the tight rows do not determine a float ray.
bool make_ray(Cone<int64_t>& cone, Pair pair, int64_t column, int64_t q);
bool make_ray(Cone<double>& cone, Pair pair, int64_t column, int64_t q);

}  // namespace rayhull
