// Extremality: the tight rows of an extreme ray have rank k - 1. Proven modulo a prime, where a rank can only drop.
#pragma once

#include <cstdint>

namespace rayhull {

constexpr int64_t PRIME = 2147483629;  // products of two residues, and a third one, fit 63 bits

// Do the tight rows of each ray, restricted to its support, have rank support - 1?
// residues (n, k), tight (r, n), support (r, k), each row after row.
bool all_extreme(const int64_t* residues, int64_t n, int64_t k, const uint8_t* tight, const uint8_t* support, int64_t r);

}  // namespace rayhull
