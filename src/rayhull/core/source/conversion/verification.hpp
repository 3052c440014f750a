// Whether rays are what they claim to be, computed afresh from the rows: feasible, and determined by what is tight at them.
#pragma once

#include "bitset.hpp"

namespace rayhull {

enum Fault { NO_FAULT = 0, NEGATIVE = 1, BROKEN = 2, TOO_LONG = 3 };

// The rays Y (rays, k) of {y >= 0, C y >= 0}, C (n, k); every number is below 2^62 in size.
struct Claim {
  const int64_t *C, *Y;
  int64_t n, k, rays;
};

// Writes the zeros (rays, words), filled with 0 before: the coordinates, and from bit k on the rows, that are 0 at each
// ray. extreme[ray] = 1 if its tight rows, restricted to its support, have rank support - 1 modulo the prime (below 2^26).
// Returns the first fault: a ray with a negative coordinate or slack, or sums that 127 bits may not hold.
Fault examine(const Claim& claim, int64_t prime, int threads, Word* zeros, uint8_t* extreme);

}  // namespace rayhull
