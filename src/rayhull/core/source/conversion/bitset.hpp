// Sets of rows as 64-bit words, lowest bit first: which rows are tight at a ray.
#pragma once

#include <bit>
#include <cstdint>

namespace rayhull {

using Word = uint64_t;

inline int64_t words_for(int64_t bits) { return (bits + 63) / 64; }

inline void add(Word* set, int64_t bit) { set[bit / 64] |= Word{1} << (bit % 64); }

inline bool has(const Word* set, int64_t bit) { return set[bit / 64] >> (bit % 64) & 1; }

inline int64_t count(const Word* set, int64_t words) {
  int64_t total = 0;
  for (int64_t w = 0; w < words; w++) total += std::popcount(set[w]);
  return total;
}

inline int64_t count_common(const Word* a, const Word* b, int64_t words) {
  int64_t total = 0;
  for (int64_t w = 0; w < words; w++) total += std::popcount(a[w] & b[w]);
  return total;
}

// Is every member of `inner` in `outer`?
inline bool is_subset(const Word* inner, const Word* outer, int64_t words) {
  for (int64_t w = 0; w < words; w++)
    if (inner[w] & ~outer[w]) return false;
  return true;
}

// f(bit) for every member, in order.
template <class F>
void for_each(const Word* set, int64_t words, F f) {
  for (int64_t w = 0; w < words; w++)
    for (Word rest = set[w]; rest; rest &= rest - 1) f(w * 64 + std::countr_zero(rest));
}

}  // namespace rayhull
