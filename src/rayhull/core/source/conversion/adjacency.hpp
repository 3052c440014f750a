// Which rays on the two sides of a row are adjacent: those that share zeros that no third ray has.
//
// Two extreme rays of a cone in k dimensions are adjacent only if they have k - 2 zeros in common (cheap to refuse), and
// exactly if no third ray, a witness, has all the zeros that they share. A ray with k - 1 zeros and no more is simple: any
// k - 2 of them are an edge with no third ray on it.
#pragma once

#include <functional>
#include <vector>

#include "bitset.hpp"
#include "cone.hpp"
#include "threads.hpp"

namespace rayhull {

struct ZeroSets {
  const Word* sets;
  int64_t rays, stride, words;  // words that are used, of `stride` for each ray
  int64_t need;                 // k - 2

  const Word* operator[](int64_t ray) const { return sets + ray * stride; }
  bool is_simple(int64_t ray) const { return count((*this)[ray], words) == need + 1; }
};

// Called by the first thread now and then with the number of pairs found so far; true stops the search.
using Look = std::function<bool(int64_t found)>;

struct Search {
  int threads;
  Look look;
};

// Appends the pairs that work(task, worker, pairs) finds for every task, in the order of the tasks; false if stopped.
template <class Work>
bool gather_pairs(int64_t tasks, const Search& search, std::vector<Pair>& found, const Work& work) {
  std::vector<std::vector<Pair>> pieces(tasks);
  std::atomic<int64_t> total{static_cast<int64_t>(found.size())};
  std::atomic<bool> stop{false};
  run_tasks(tasks, search.threads, [&](int64_t task, int worker) {
    if (stop) return;
    work(task, worker, pieces[task]);
    total += static_cast<int64_t>(pieces[task].size());
    if (worker == 0 && search.look(total)) stop = true;
  });
  found.reserve(total);
  for (const auto& piece : pieces) found.insert(found.end(), piece.begin(), piece.end());
  return !stop;
}

// All adjacent pairs of one ray of `above` and one of `below`; fewer if the search was stopped.
std::vector<Pair> adjacent_pairs(const ZeroSets& sets, std::vector<int64_t> above, std::vector<int64_t> below,
                                 const Search& search);

// The three ways it is done, for tests: every pair against every ray; edges by name; trees.
std::vector<Pair> pairs_directly(const ZeroSets& sets, const std::vector<int64_t>& above,
                                 const std::vector<int64_t>& below, const Search& search);
std::vector<Pair> pairs_by_edges(const ZeroSets& sets, const std::vector<int64_t>& above,
                                 const std::vector<int64_t>& below, const Search& search);
std::vector<Pair> pairs_by_trees(const ZeroSets& sets, std::vector<int64_t> above, std::vector<int64_t> below,
                                 const Search& search);

}  // namespace rayhull
