// Extremality: the tight rows of an extreme ray have rank k - 1. Proven modulo a prime, where a rank can only drop.
#pragma once

#include <cstdint>

namespace rayhull {

// extreme[ray] = 1 if the tight rows of the ray, restricted to its support, have rank support - 1 modulo the prime, which
// is below 2^31: products of two residues, and a third one, fit 63 bits. Rows come as residues.
// residues (n, k), tight (r, n), support (r, k), each row after row.
void are_extreme(const int64_t* residues, int64_t prime, int64_t n, int64_t k, const uint8_t* tight,
                 const uint8_t* support, int64_t r, uint8_t* extreme);

}  // namespace rayhull
