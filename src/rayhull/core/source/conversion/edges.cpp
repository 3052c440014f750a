// Adjacent pairs of simple rays through a hash table: an edge is named by its zeros, so its two ends meet there.
//
// Leaving out any one of the k - 1 zeros of a simple ray gives one of its edges. In general position all rays are simple.
#include <algorithm>

#include "adjacency.hpp"

namespace rayhull {
namespace {

constexpr int64_t MOST_EDGES = 1 << 20;  // in the table at a time: 32 MB with the free places it needs
constexpr int64_t PROBES = 1 << 16;      // edges that a task looks up: some milliseconds

// A random number for each zero; the exclusive or of a set's numbers is its name.
std::vector<uint64_t> random_numbers(int64_t count) {
  std::vector<uint64_t> numbers(count);
  uint64_t state = 0x9e3779b97f4a7c15;
  for (uint64_t& number : numbers) {  // splitmix64
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    number = z ^ (z >> 31);
  }
  return numbers;
}

class EdgeTable {
 public:
  EdgeTable(const ZeroSets& sets, const std::vector<uint64_t>& numbers) : sets_(sets), numbers_(numbers) {}

  void fill(const int64_t* rays, int64_t many) {
    const uint64_t size = std::bit_ceil(static_cast<uint64_t>(2 * many * (sets_.need + 1) + 1));
    mask_ = size - 1;
    places_.assign(size, Place{0, NOBODY});
    for (int64_t a = 0; a < many; a++) each_edge(rays[a], [&](uint64_t edge) { enter(edge, rays[a]); });
  }

  // The entered rays that share an edge with this one. Two edges may have one name, so their zeros are compared.
  void look_up(int64_t ray, std::vector<Pair>& found) const {
    each_edge(ray, [&](uint64_t edge) {
      for (uint64_t place = edge & mask_; places_[place].owner != NOBODY; place = (place + 1) & mask_) {
        if (places_[place].edge != edge) continue;
        if (count_common(sets_[ray], sets_[places_[place].owner], sets_.words) != sets_.need) continue;
        found.push_back({ray, places_[place].owner});
        break;  // an edge has two ends
      }
    });
  }

 private:
  static constexpr int64_t NOBODY = -1;
  struct Place {
    uint64_t edge;
    int64_t owner;
  };

  template <class F>
  void each_edge(int64_t ray, F f) const {
    uint64_t name = 0;
    for_each(sets_[ray], sets_.words, [&](int64_t bit) { name ^= numbers_[bit]; });
    for_each(sets_[ray], sets_.words, [&](int64_t bit) { f(name ^ numbers_[bit]); });
  }

  void enter(uint64_t edge, int64_t owner) {
    uint64_t place = edge & mask_;
    while (places_[place].owner != NOBODY) place = (place + 1) & mask_;
    places_[place] = {edge, owner};
  }

  const ZeroSets& sets_;
  const std::vector<uint64_t>& numbers_;
  std::vector<Place> places_;
  uint64_t mask_ = 0;
};

}  // namespace

std::vector<Pair> pairs_by_edges(const ZeroSets& sets, const std::vector<int64_t>& above,
                                 const std::vector<int64_t>& below, const Search& search) {
  const std::vector<uint64_t> numbers = random_numbers(64 * sets.words);
  const int64_t edges = sets.need + 1, part = std::max<int64_t>(1, MOST_EDGES / edges);
  const int64_t step = std::max<int64_t>(1, PROBES / edges);
  const auto p = static_cast<int64_t>(above.size()), q = static_cast<int64_t>(below.size());
  EdgeTable table(sets, numbers);
  std::vector<Pair> found;
  for (int64_t start = 0; start < q; start += part) {
    table.fill(&below[start], std::min(part, q - start));
    const auto look_up = [&](int64_t task, int, std::vector<Pair>& pairs) {
      for (int64_t a = task * step; a < std::min(p, (task + 1) * step); a++) table.look_up(above[a], pairs);
    };
    if (!gather_pairs((p + step - 1) / step, search, found, look_up)) break;
  }
  return found;
}

}  // namespace rayhull
