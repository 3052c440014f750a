#include "adjacency.hpp"

#include <algorithm>
#include <numeric>


namespace rayhull {
namespace {

constexpr int64_t FEW_PAIRS = 20'000, FEW_RAYS = 4'000;  // below both, trees are not worth building

// Is there a third ray with all the zeros that i and j share? `order` is changed so that it is tried earlier next time:
// neighbouring pairs often fall to the same ray.
bool has_witness(const ZeroSets& sets, int64_t i, int64_t j, const Word* shared, std::vector<int64_t>& order) {
  for (size_t t = 0; t < order.size(); t++) {
    const int64_t ray = order[t];
    if (!is_subset(shared, sets[ray], sets.words) || ray == i || ray == j) continue;
    std::swap(order[t], order[t / 2]);
    return true;
  }
  return false;
}

// The simple rays first; returns how many.
int64_t simple_first(const ZeroSets& sets, std::vector<int64_t>& rays) {
  const auto end = std::stable_partition(rays.begin(), rays.end(), [&](int64_t ray) { return sets.is_simple(ray); });
  return end - rays.begin();
}

void append(std::vector<Pair>& all, const std::vector<Pair>& some) { all.insert(all.end(), some.begin(), some.end()); }

}  // namespace

std::vector<Pair> pairs_directly(const ZeroSets& sets, const std::vector<int64_t>& above,
                                 const std::vector<int64_t>& below, const Search& search) {
  std::vector<Pair> found;
  std::vector<int64_t> order(sets.rays);
  std::iota(order.begin(), order.end(), 0);
  std::vector<Word> shared(sets.words);
  std::vector<char> simple(below.size());
  for (size_t b = 0; b < below.size(); b++) simple[b] = sets.is_simple(below[b]);
  for (int64_t i : above) {
    const bool alone = sets.is_simple(i);
    const Word* zeros = sets[i];
    for (size_t b = 0; b < below.size(); b++) {
      const Word* others = sets[below[b]];
      if (count_common(zeros, others, sets.words) < sets.need) continue;
      for (int64_t w = 0; w < sets.words; w++) shared[w] = zeros[w] & others[w];
      if (alone || simple[b] || !has_witness(sets, i, below[b], shared.data(), order)) found.push_back({i, below[b]});
    }
    if (search.look(static_cast<int64_t>(found.size()))) break;
  }
  return found;
}

std::vector<Pair> adjacent_pairs(const ZeroSets& sets, std::vector<int64_t> above, std::vector<int64_t> below,
                                 const Search& search) {
  const auto p = static_cast<int64_t>(above.size()), q = static_cast<int64_t>(below.size());
  if (p * q <= FEW_PAIRS && sets.rays <= FEW_RAYS) return pairs_directly(sets, above, below, search);
  const int64_t a = simple_first(sets, above), b = simple_first(sets, below);
  if (sets.need < 1 || 2 * a * b < p * q) return pairs_by_trees(sets, std::move(above), std::move(below), search);
  const std::vector<int64_t> simple_above(above.begin(), above.begin() + a), simple_below(below.begin(), below.begin() + b);
  const std::vector<int64_t> other_above(above.begin() + a, above.end()), other_below(below.begin() + b, below.end());
  std::vector<Pair> found = pairs_by_edges(sets, simple_above, simple_below, search);
  const Search rest{search.threads, [&](int64_t more) { return search.look(static_cast<int64_t>(found.size()) + more); }};
  if (a < p) append(found, pairs_by_trees(sets, other_above, below, rest));
  if (b < q) append(found, pairs_by_trees(sets, simple_above, other_below, rest));
  return found;
}

}  // namespace rayhull
