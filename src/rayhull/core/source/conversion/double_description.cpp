// The cone {y >= 0} has the unit vectors for rays. Each further row c splits the rays by the sign of c y: those below it
// go, and every adjacent pair of one above and one below leaves a new ray where the edge between them meets c y = 0. Rays
// carry the slacks of the rows still to come, so nothing but sums of two rays is ever computed.
#include "double_description.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "adjacency.hpp"
#include "levels.hpp"
#include "rays.hpp"
#include "threads.hpp"

namespace rayhull {
namespace {

constexpr int64_t ALONE = 100'000;  // entries of new rays, or pairs to look at, for which a thread is not worth its start
constexpr int64_t PIECE = 1 << 14;  // entries of new rays that a task makes

template <class Number>
class Method {
 public:
  Method(Cone<Number>& cone, const int64_t* order, Watch& watch, int threads)
      : cone_(cone), order_(order), watch_(watch), threads_(threads) {
    for (auto& list : {&positive_, &negative_, &grey_}) list->assign(cone.columns, 0);
    for (int64_t i = 0; i < cone.rays; i++) tally(i, 1);
  }

  int run(int64_t most_work) {
    int64_t work = 0;
    while (true) {
      remove_redundant();
      if (cone_.columns == cone_.k || cone_.rays == 0) return DONE;
      const int64_t column = next_column();
      if (column < 0) return FAILED;
      const int64_t pairs = positive_[column] * negative_[column];
      if (look(cone_.rays, pairs)) return STOPPED;
      work += pairs + cone_.rays * cone_.columns;
      if (work > most_work) return PAUSED;
      const int outcome = take(column);
      if (outcome != DONE) return outcome;
    }
  }

 private:
  bool look(int64_t rays, int64_t pairs) { return watch_.look(cone_.row(), rays, pairs, cone_.bytes(rays)); }

  // Adds `by` to the numbers of positive, negative and grey slacks of every open row, as those of this ray are. Grey
  // slacks are too close to zero to call.
  void tally(int64_t i, int64_t by) {
    const Number* ray = cone_.ray(i);
    const double level = CLEAR_LEVEL * cone_.E[i];
    for (int64_t c = cone_.k; c < cone_.columns; c++) {
      positive_[c] += ray[c] > 0 ? by : 0;
      negative_[c] += ray[c] < 0 ? by : 0;
      if constexpr (std::is_floating_point_v<Number>) grey_[c] += ray[c] != 0 && std::abs(ray[c]) < level ? by : 0;
    }
  }

  // Open rows that no ray breaks: the taken rows imply them, now and for good.
  void remove_redundant() {
    for (int64_t c = cone_.columns - 1; c >= cone_.k; c--)
      if (negative_[c] == 0 && grey_[c] == 0) remove_column(c);
    if (2 * cone_.columns < cone_.stride) narrow();
  }

  // The last column takes the place of this one.
  void remove_column(int64_t column) {
    const int64_t last = --cone_.columns;
    if (column == last) return;
    for (int64_t i = 0; i < cone_.rays; i++) cone_.ray(i)[column] = cone_.ray(i)[last];
    for (auto* list : {&positive_, &negative_, &grey_, &cone_.left}) (*list)[column] = (*list)[last];
  }

  // Moves the rays closer together: their open rows have become few.
  void narrow() {
    for (int64_t i = 1; i < cone_.rays; i++)
      std::copy(cone_.ray(i), cone_.ray(i) + cone_.columns, &cone_.S[i * cone_.columns]);
    cone_.stride = cone_.columns;
    cone_.S.resize(cone_.rays * cone_.stride);
  }

  // The open row that comes first and has no grey slack: the rays in question may go before its turn comes.
  int64_t next_column() const {
    int64_t best = -1;
    for (int64_t c = cone_.k; c < cone_.columns; c++)
      if (grey_[c] == 0 && (best < 0 || order_[cone_.left[c]] < order_[cone_.left[best]])) best = c;
    return best;
  }

  int take(int64_t column) {
    const std::vector<Pair> pairs = find_pairs(column);
    if (watch_.stopped()) return STOPPED;
    const auto fresh = static_cast<int64_t>(pairs.size());
    if (look(cone_.rays - negative_[column] + fresh, 0)) return STOPPED;
    cone_.taken[cone_.bits - cone_.k] = cone_.left[column];
    cone_.make_room(cone_.rays + fresh);
    if (!make_rays(pairs, column)) return watch_.stopped() ? STOPPED : FAILED;
    for (int64_t q = cone_.rays; q < cone_.rays + fresh; q++) cone_.ray(q)[column] = 0, tally(q, 1);
    replace(fresh, column);
    remove_column(column);
    cone_.bits++;
    return DONE;
  }

  std::vector<Pair> find_pairs(int64_t column) {
    std::vector<int64_t> above, below;
    for (int64_t i = 0; i < cone_.rays; i++) {
      if (cone_.ray(i)[column] > 0) above.push_back(i);
      if (cone_.ray(i)[column] < 0) below.push_back(i);
    }
    if (above.empty() || below.empty()) return {};
    const int64_t pairs = static_cast<int64_t>(above.size()) * static_cast<int64_t>(below.size());
    const int64_t kept = cone_.rays - static_cast<int64_t>(below.size());
    const ZeroSets sets{cone_.Z.data(), cone_.rays, cone_.words, words_for(cone_.bits), cone_.k - 2};
    const auto looked = [&](int64_t found) { return look(std::max(cone_.rays, kept + found), pairs); };
    return adjacent_pairs(sets, std::move(above), std::move(below), {pairs < ALONE ? 1 : threads_, looked});
  }

  bool make_rays(const std::vector<Pair>& pairs, int64_t column) {
    const auto many = static_cast<int64_t>(pairs.size());
    const int64_t step = std::max<int64_t>(1, PIECE / cone_.columns), rays = cone_.rays;
    std::atomic<bool> fine{true};
    const int threads = many * cone_.columns < ALONE ? 1 : threads_;
    run_tasks((many + step - 1) / step, threads, [&](int64_t task, int worker) {
      for (int64_t p = task * step; p < std::min(many, (task + 1) * step) && fine; p++)
        if (!make_ray(cone_, pairs[p], column, rays + p)) fine = false;
      if (worker == 0 && look(rays, 0)) fine = false;
    });
    return fine;
  }

  // Drops the rays below the row, marks those on it, and fills the holes from the end.
  void replace(int64_t fresh, int64_t column) {
    int64_t total = cone_.rays + fresh;
    for (int64_t i = 0; i < total;) {
      if (cone_.ray(i)[column] < 0) {
        tally(i, -1);
        move(--total, i);
      } else {
        if (cone_.ray(i)[column] == 0) add(cone_.zeros(i), cone_.bits);
        i++;
      }
    }
    cone_.rays = total;
  }

  void move(int64_t from, int64_t to) {
    std::copy(cone_.ray(from), cone_.ray(from) + cone_.columns, cone_.ray(to));
    std::copy(cone_.zeros(from), cone_.zeros(from) + cone_.words, cone_.zeros(to));
    cone_.E[to] = cone_.E[from];
  }

  Cone<Number>& cone_;
  const int64_t* order_;
  Watch& watch_;
  int threads_;
  std::vector<int64_t> positive_, negative_, grey_;  // slacks of each column
};

}  // namespace

template <class Number>
int take_rows(Cone<Number>& cone, const int64_t* order, Watch& watch, int threads, int64_t most_work) {
  return Method<Number>(cone, order, watch, threads).run(most_work);
}

template int take_rows(Cone<int64_t>&, const int64_t*, Watch&, int, int64_t);
template int take_rows(Cone<double>&, const int64_t*, Watch&, int, int64_t);

}  // namespace rayhull
