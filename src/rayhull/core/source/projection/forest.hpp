// Differences x[i] - x[j] <= step, orders among them: the dual active-set method with a forest in place of a factor.
#pragma once

#include <vector>

#include "rows.hpp"
#include "violated_first.hpp"

namespace rayhull {

// Rows are edges from i (the tail) to j (the head), multipliers flows along them, and x is a height of each node. A bound
// is an edge to or from the ground, a node of height 0 that nothing moves. Active rows form trees, in which all heights
// follow from one: a step costs as much as two trees have nodes, where a factor costs the square of the active rows.
class Forest {
 public:
  explicit Forest(const Rows& rows);  // with roots; what they point to stays where it is

  // Returns the status (UNSOLVED: too many steps) and adds to `steps`; from the guess in `active`, if that has no cycle.
  int64_t solve(const Sample& sample, int64_t most, int64_t& steps);

  // Of add_violated.
  int64_t settle();
  bool find(int32_t& edge);
  Met meet(int32_t edge, int64_t most, int64_t& steps);
  bool is_rounding(int32_t edge) const;

 private:
  static constexpr int32_t NONE = -1;

  int32_t ground() const { return int32_t(d_); }
  int32_t parent(int32_t v) const { return node_[up_[v] ^ 1]; }
  bool is_tail(int32_t v) const { return (up_[v] & 1) == 0; }  // of the edge to its parent
  double excess(int32_t e) const { return height_[node_[2 * e]] - height_[node_[2 * e + 1]] - step_[e]; }

  void read(const Sample& sample);
  void read_guess(const Sample& sample);
  void write(const Sample& sample) const;
  void link(int32_t edge);
  void unlink(int32_t edge);
  int64_t walk(int32_t root, int64_t start);
  void lay_out(int64_t end);
  int64_t find_flows(int64_t end);
  void rates_between(int64_t start, int64_t end, double sign);
  void rates_around(int32_t head, int64_t end);
  double find_blocker(int64_t end, int32_t& blocker) const;

  int64_t d_, rows_, edges_ = 0;                 // coordinates: nodes before the ground; rows: edges before the bounds
  const double* roots_;                          // (d)
  const int32_t* sweep_;                         // (rows)
  std::vector<int32_t> node_;                    // (halves) half 2 e is the tail of edge e, half 2 e + 1 its head
  std::vector<double> weights_, units_;          // (nodes), (rows): step = c * unit, multiplier = flow * unit
  std::vector<double> height_, goal_, mass_;     // (nodes) x; y alike; the weight of a subtree, or what is to leave it
  std::vector<double> flow_, step_;              // (edges)
  std::vector<int32_t> first_, next_, before_;   // (nodes), (halves), (halves): the active halves at a node, as a list
  std::vector<int32_t> members_, up_;            // (nodes) of trees, parents first; a node's half of its parent's edge
  std::vector<double> rate_;                     // (nodes) at which the flow on the edge to the parent grows
  std::vector<int64_t> seen_;                    // (nodes) the last walk that came by
  int64_t walks_ = 0, cursor_ = 0;
  double slack_ = 0.0, reach_ = 0.0;
};

}  // namespace rayhull
