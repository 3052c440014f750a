// Rows in an order in which each shares coordinates with few rows before it: curves, and other chains of differences.
//
// Block pivoting does the same for every sample there, a factor and two solves inside the band, so that eight samples go
// side by side; as soon as one is settled, the next takes its lane.
#pragma once

#include <functional>
#include <vector>

#include "places.hpp"
#include "rows.hpp"

namespace rayhull {

constexpr int64_t WIDEST = 4;  // rows before it with which a row may share coordinates

// The rows in their order, then those that are implied by them; and G G^T of the first inside its band.
class Band {
 public:
  explicit Band(const Rows& rows);
  Band(const Band&) = delete;  // `rows` looks into it

  Rows rows;
  int64_t width = 0;             // 0 where the rows are in no such order
  std::vector<int32_t> stated;   // the place of each row among those that were given
  std::vector<double> products;  // (ordered, width + 1): a row with itself, the one before it, ...

 private:
  int64_t farthest() const;
  void multiply();

  std::vector<double> data_, lengths_;
  std::vector<int32_t> columns_;
  std::vector<int64_t> begin_;
};

// The lane in which a sample stands, when pivoting is done with it.
struct Settled {
  int64_t sample, steps;
  bool right;                 // the guess of the active rows stood the test; else it gave up
  double residual, size, far; // of the answer; the largest coordinate of the point, and of y
  std::function<void(double* x, double* multipliers, bool* active)> read;
};

struct Given {
  const Places& places;
  const Band& band;
  Side c;
  const bool* active;  // (blocks, rows) a first guess; null: the violated rows
};

// Blocks first .. last - 1, in the order in which they are settled. Bounds and equalities are not looked at.
void pivot_in_lanes(const Given& given, int64_t first, int64_t last, const std::function<void(const Settled&)>& settled);

}  // namespace rayhull
