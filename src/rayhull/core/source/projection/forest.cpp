#include "forest.hpp"

#include <algorithm>
#include <cmath>

namespace rayhull {

Forest::Forest(const Rows& rows)
    : d_(rows.d), rows_(rows.count), roots_(rows.roots), sweep_(rows.sweep), node_(2 * (rows_ + 2 * d_)), weights_(d_ + 1),
      units_(rows_), height_(d_ + 1), goal_(d_ + 1), mass_(d_ + 1), flow_(rows_ + 2 * d_), step_(rows_ + 2 * d_),
      first_(d_ + 1), next_(node_.size()), before_(node_.size()), members_(d_ + 1), up_(d_ + 1), rate_(d_ + 1),
      seen_(d_ + 1) {
  for (int64_t i = 0; i < rows_; i++) {
    const int64_t e = rows.begin[i], positive = rows.data[e] > 0.0 ? e : e + 1;
    node_[2 * i] = rows.columns[positive], node_[2 * i + 1] = rows.columns[2 * e + 1 - positive];
    units_[i] = 1.0 / (rows.data[positive] * roots_[node_[2 * i]]);
  }
  for (int32_t j = 0; j < d_; j++) {
    const int64_t upper = rows_ + j, lower = upper + d_;
    node_[2 * upper] = j, node_[2 * upper + 1] = ground();
    node_[2 * lower] = ground(), node_[2 * lower + 1] = j;
    weights_[j] = roots_[j] * roots_[j];
  }
  weights_[d_] = INFINITE;
}

int64_t Forest::solve(const Sample& sample, int64_t most, int64_t& steps) {
  read(sample);
  read_guess(sample);
  const int64_t status = add_violated<int32_t>(*this, most, steps);
  write(sample);
  return status;
}

void Forest::read(const Sample& s) {
  bool bounded = false;
  for (int64_t j = 0; j < d_; j++) {
    goal_[j] = s.y[j] / roots_[j];
    step_[rows_ + j] = s.upper[j] / roots_[j], step_[rows_ + d_ + j] = -s.lower[j] / roots_[j];
    bounded |= s.upper[j] < INFINITE || s.lower[j] > -INFINITE;
  }
  for (int64_t i = 0; i < rows_; i++) step_[i] = s.c[i] * units_[i];
  edges_ = rows_ + (bounded ? 2 * d_ : 0);
  reach_ = largest(goal_.data(), d_);
  cursor_ = 0;
}

// The active rows of the guess, without those that close a cycle.
void Forest::read_guess(const Sample& s) {
  std::fill(first_.begin(), first_.end(), NONE);
  std::fill(flow_.begin(), flow_.begin() + edges_, 0.0);
  for (int32_t i = 0; i < rows_; i++) {
    if (!s.active[i]) continue;
    walk(node_[2 * i], 0);
    if (seen_[node_[2 * i + 1]] != walks_) link(i);
  }
}

void Forest::write(const Sample& s) const {
  for (int64_t i = 0; i < rows_; i++) s.multipliers[i] = flow_[i] * units_[i];
  for (int64_t j = 0; j < d_; j++) s.x[j] = height_[j] * roots_[j];
}

void Forest::link(int32_t edge) {
  for (const int32_t half : {2 * edge, 2 * edge + 1}) {
    int32_t& first = first_[node_[half]];
    before_[half] = NONE, next_[half] = first;
    if (first != NONE) before_[first] = half;
    first = half;
  }
}

void Forest::unlink(int32_t edge) {
  for (const int32_t half : {2 * edge, 2 * edge + 1}) {
    (before_[half] == NONE ? first_[node_[half]] : next_[before_[half]]) = next_[half];
    if (next_[half] != NONE) before_[next_[half]] = before_[half];
  }
  flow_[edge] = 0.0;
}

// The tree around the root goes to the members from `start` on, with the weights of its subtrees; returns its end.
int64_t Forest::walk(int32_t root, int64_t start) {
  int64_t end = start;
  walks_ += start == 0;
  members_[end++] = root, up_[root] = NONE;
  for (int64_t at = start; at < end; at++) {
    const int32_t v = members_[at];
    seen_[v] = walks_, mass_[v] = weights_[v];
    for (int32_t half = first_[v]; half != NONE; half = next_[half])
      if (half != up_[v]) up_[node_[half ^ 1]] = half ^ 1, members_[end++] = node_[half ^ 1];
  }
  for (int64_t at = end - 1; at > start; at--) mass_[parent(members_[at])] += mass_[members_[at]];
  return end;
}

// Heights and flows of all trees from nothing but the active edges; those with a negative flow leave, until none has one.
int64_t Forest::settle() {
  int64_t rounds = 0, dropped;
  do {
    rounds++, dropped = 0;
    const int64_t since = walks_;
    for (int32_t root = ground(); root >= 0; root--) {
      if (seen_[root] > since) continue;
      const int64_t end = walk(root, 0);
      lay_out(end);
      dropped += find_flows(end);
    }
  } while (dropped > 0);
  slack_ = SLACK * 2 * largest(height_.data(), d_);
  return rounds;
}

// Heights that meet the active edges of one tree, nearest to the goals; the ground, if it is there, is the root.
void Forest::lay_out(int64_t end) {
  const int32_t root = members_[0];
  double total = root == ground() ? 0.0 : weights_[root] * goal_[root];
  height_[root] = 0.0;
  for (int64_t at = 1; at < end; at++) {
    const int32_t v = members_[at];
    height_[v] = height_[parent(v)] + (is_tail(v) ? step_[up_[v] >> 1] : -step_[up_[v] >> 1]);
    total += weights_[v] * (goal_[v] - height_[v]);
  }
  const double height = root == ground() ? 0.0 : total / mass_[root];
  for (int64_t at = 0; at < end; at++) height_[members_[at]] += height;
}

// What a subtree has too much leaves it along its edge to the parent. Returns how many edges with a negative flow left.
int64_t Forest::find_flows(int64_t end) {
  int64_t dropped = 0;
  for (int64_t at = 0; at < end; at++) mass_[members_[at]] = 0.0;
  for (int64_t at = end - 1; at > 0; at--) {
    const int32_t v = members_[at], e = up_[v] >> 1;
    mass_[v] += weights_[v] * (goal_[v] - height_[v]);
    mass_[parent(v)] += mass_[v];
    flow_[e] = is_tail(v) ? mass_[v] : -mass_[v];
    if (flow_[e] < 0.0) unlink(e), dropped++;
  }
  return dropped;
}

// The next violated edge after the last one.
bool Forest::find(int32_t& edge) {
  for (int64_t tried = 0; tried < edges_; tried++) {
    if (cursor_ == edges_) cursor_ = 0;
    edge = cursor_ < rows_ ? sweep_[cursor_] : int32_t(cursor_);
    cursor_++;
    if (excess(edge) > slack_ + SLACK * std::abs(step_[edge])) return true;
  }
  return false;
}

bool Forest::is_rounding(int32_t e) const {
  const double size = 2 * largest(height_.data(), d_) + std::abs(step_[e]);
  return excess(e) <= 1e-11 * size + 16 * ULP * reach_;
}

// Sends a flow along the edge until it is met, dropping edges whose own flow it uses up.
Met Forest::meet(int32_t edge, int64_t most, int64_t& steps) {
  const int32_t tail = node_[2 * edge], head = node_[2 * edge + 1];
  double force = 0.0;
  while (steps < most) {
    steps++;
    const int64_t middle = walk(tail, 0);
    const bool apart = seen_[head] != walks_;
    const int64_t end = apart ? walk(head, middle) : middle;
    double down = 0.0, up = 0.0;  // how fast the trees move
    if (apart) {
      down = 1.0 / mass_[tail], up = 1.0 / mass_[head];
      rates_between(0, middle, 1.0), rates_between(middle, end, -1.0);
    } else {
      rates_around(head, end);
    }
    int32_t blocker = NONE;
    const double full = apart ? excess(edge) / (down + up) : INFINITE, partial = find_blocker(end, blocker);
    if (full == INFINITE && partial == INFINITE) return Met::IMPOSSIBLE;
    const double t = std::min(full, partial);
    force += t;
    for (int64_t at = 0; at < end; at++) {
      const int32_t v = members_[at];
      height_[v] += at < middle ? -t * down : t * up;
      if (up_[v] != NONE) flow_[up_[v] >> 1] += t * rate_[v];
    }
    if (full <= partial) {
      link(edge);
      flow_[edge] = force;
      return Met::YES;
    }
    unlink(up_[blocker] >> 1);
  }
  return Met::REFACTOR;
}

// A tree sinks (sign 1) as its root gives: each subtree gives its share of the weight. Or it rises (sign -1).
void Forest::rates_between(int64_t start, int64_t end, double sign) {
  const double total = mass_[members_[start]];
  rate_[members_[start]] = 0.0;
  for (int64_t at = start + 1; at < end; at++) {
    const int32_t v = members_[at];
    const double share = mass_[v] == total ? sign : sign * mass_[v] / total;  // of the ground
    rate_[v] = is_tail(v) ? share : -share;
  }
}

// The head is in the tree of the root: the flow comes back along the path between them.
void Forest::rates_around(int32_t head, int64_t end) {
  for (int64_t at = 0; at < end; at++) rate_[members_[at]] = 0.0;
  for (int32_t v = head; up_[v] != NONE; v = parent(v)) rate_[v] = is_tail(v) ? 1.0 : -1.0;
}

// The step at which a flow is used up first, and the node below its edge.
double Forest::find_blocker(int64_t end, int32_t& blocker) const {
  double first = INFINITE;
  for (int64_t at = 0; at < end; at++) {
    const int32_t v = members_[at];
    if (up_[v] == NONE || !(rate_[v] < 0.0)) continue;
    const double t = std::max(flow_[up_[v] >> 1], 0.0) / -rate_[v];
    if (t < first) first = t, blocker = v;
  }
  return first;
}

}  // namespace rayhull
