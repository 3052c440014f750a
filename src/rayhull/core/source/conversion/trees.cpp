// Trees over zero sets that skip most pairs of rays: every node keeps the union of the zero sets below it.
//
// Two rays can be adjacent only if they share k - 2 zeros, and a third ray is a witness against them only if it has all the
// zeros they share. Both questions are refused for a whole subtree by one look at its union. (The idea is that of bit
// pattern trees, Terzer and Stelling 2008.) Nodes lie in preorder with the index to go on at when a subtree is skipped, so
// a walk is a loop over one integer.
#include <algorithm>
#include <numeric>

#include "adjacency.hpp"

namespace rayhull {
namespace {

constexpr int64_t LEAF = 8;     // rays in a leaf, at most (more only where zero sets repeat)
constexpr int64_t SAMPLE = 32;  // rays looked at to choose the bit that splits a node
constexpr int64_t RECENT = 16;  // witnesses tried first: neighbouring pairs often fall to the same ray

class Tree {
 public:
  struct Node {
    int64_t begin, end, skip;  // its rays, and the node to go on at when it is skipped
  };

  Tree(const ZeroSets& sets, std::vector<int64_t> rays) : sets_(sets), rays_(std::move(rays)) {
    counts_.resize(64 * sets.words);
    build(0, static_cast<int64_t>(rays_.size()));
  }

  int64_t size() const { return static_cast<int64_t>(nodes_.size()); }
  const Node& node(int64_t t) const { return nodes_[t]; }
  bool is_leaf(int64_t t) const { return nodes_[t].skip == t + 1; }
  const Word* all_zeros(int64_t t) const { return &unions_[t * sets_.words]; }
  int64_t ray(int64_t a) const { return rays_[a]; }

 private:
  void build(int64_t begin, int64_t end) {
    const int64_t t = size();
    nodes_.push_back({begin, end, 0});
    unions_.resize(unions_.size() + sets_.words, 0);
    for (int64_t a = begin; a < end; a++)
      for (int64_t w = 0; w < sets_.words; w++) unions_[t * sets_.words + w] |= sets_[rays_[a]][w];
    const int64_t bit = end - begin > LEAF ? splitting_bit(begin, end) : -1;
    if (bit >= 0) {
      const auto middle = std::partition(rays_.begin() + begin, rays_.begin() + end,
                                         [&](int64_t ray) { return has(sets_[ray], bit); }) - rays_.begin();
      build(begin, middle);
      build(middle, end);
    }
    nodes_[t].skip = size();
  }

  // The bit that splits a sample of the rays most evenly, or -1 if all are the same set.
  int64_t splitting_bit(int64_t begin, int64_t end) {
    std::fill(counts_.begin(), counts_.end(), 0);
    int64_t seen = 0, best = -1;
    for (int64_t a = begin; a < end; a += std::max<int64_t>(1, (end - begin) / SAMPLE), seen++)
      for_each(sets_[rays_[a]], sets_.words, [&](int64_t bit) { counts_[bit]++; });
    int64_t off = seen;
    for (int64_t bit = 0; bit < static_cast<int64_t>(counts_.size()); bit++) {
      if (counts_[bit] == 0 || counts_[bit] == seen || std::abs(2 * counts_[bit] - seen) >= off) continue;
      best = bit, off = std::abs(2 * counts_[bit] - seen);
    }
    return best >= 0 ? best : differing_bit(begin, end);
  }

  int64_t differing_bit(int64_t begin, int64_t end) const {
    for (int64_t a = begin + 1; a < end; a++)
      for (int64_t w = 0; w < sets_.words; w++)
        if (const Word differ = sets_[rays_[a]][w] ^ sets_[rays_[begin]][w]) return w * 64 + std::countr_zero(differ);
    return -1;
  }

  const ZeroSets& sets_;
  std::vector<int64_t> rays_, counts_;
  std::vector<Node> nodes_;
  std::vector<Word> unions_;
};

// One thread's walk through the trees.
class Walk {
 public:
  Walk(const ZeroSets& sets, const Tree& right, const Tree& every)
      : sets_(sets), right_(right), every_(every), shared_(sets.words), recent_(RECENT, -1) {}

  // Adjacent pairs between the rays of a leaf of the left tree and all of the right one.
  void meet(const Tree& left, int64_t leaf, std::vector<Pair>& found) {
    for (int64_t t = 0; t < right_.size();) {
      if (count_common(left.all_zeros(leaf), right_.all_zeros(t), sets_.words) < sets_.need) {
        t = right_.node(t).skip;
        continue;
      }
      if (right_.is_leaf(t)) compare(left, left.node(leaf), right_.node(t), found);
      t++;
    }
  }

 private:
  void compare(const Tree& left, const Tree::Node& a, const Tree::Node& b, std::vector<Pair>& found) {
    for (int64_t p = a.begin; p < a.end; p++)
      for (int64_t q = b.begin; q < b.end; q++) {
        const Pair pair{left.ray(p), right_.ray(q)};
        if (count_common(sets_[pair.above], sets_[pair.below], sets_.words) >= sets_.need && is_edge(pair))
          found.push_back(pair);
      }
  }

  bool is_edge(Pair pair) {
    if (sets_.is_simple(pair.above) || sets_.is_simple(pair.below)) return true;
    for (int64_t w = 0; w < sets_.words; w++) shared_[w] = sets_[pair.above][w] & sets_[pair.below][w];
    return !has_recent_witness(pair) && !has_witness(pair);
  }

  bool is_witness(int64_t ray, Pair pair) const {
    return is_subset(shared_.data(), sets_[ray], sets_.words) && ray != pair.above && ray != pair.below;
  }

  bool has_recent_witness(Pair pair) {
    for (int64_t u = 0; u < RECENT; u++) {
      if (recent_[u] < 0 || !is_witness(recent_[u], pair)) continue;
      std::swap(recent_[u], recent_[u / 2]);
      return true;
    }
    return false;
  }

  bool has_witness(Pair pair) {
    for (int64_t t = 0; t < every_.size();) {
      if (!is_subset(shared_.data(), every_.all_zeros(t), sets_.words)) {
        t = every_.node(t).skip;
        continue;
      }
      for (int64_t a = every_.node(t).begin; every_.is_leaf(t) && a < every_.node(t).end; a++) {
        if (!is_witness(every_.ray(a), pair)) continue;
        recent_[RECENT - 1] = every_.ray(a);
        return true;
      }
      t++;
    }
    return false;
  }

  const ZeroSets& sets_;
  const Tree &right_, &every_;
  std::vector<Word> shared_;
  std::vector<int64_t> recent_;
};

}  // namespace

std::vector<Pair> pairs_by_trees(const ZeroSets& sets, std::vector<int64_t> above, std::vector<int64_t> below,
                                 const Search& search) {
  std::vector<int64_t> all(sets.rays);
  std::iota(all.begin(), all.end(), 0);
  const Tree left(sets, std::move(above)), right(sets, std::move(below)), every(sets, std::move(all));
  std::vector<int64_t> leaves;
  for (int64_t t = 0; t < left.size(); t++)
    if (left.is_leaf(t)) leaves.push_back(t);
  std::vector<Walk> walks(std::max(1, search.threads), Walk(sets, right, every));
  std::vector<Pair> found;
  gather_pairs(static_cast<int64_t>(leaves.size()), search, found, [&](int64_t task, int worker, std::vector<Pair>& pairs) {
    walks[worker].meet(left, leaves[task], pairs);
  });
  return found;
}

}  // namespace rayhull
