// H = G_W D G_W^T over the active rows W and the free coordinates D, and its Cholesky factor L in the same place.
//
// Rows of L begin at their envelope: on a chain of differences a factorisation is linear in the length of the chain. The
// factor follows when a row joins or leaves or a coordinate is fixed or freed.
//
// Dense rows are taken from the last to the first, and a factorisation keeps the rows with which the last one began: those
// of equalities, which are always active, are factored once for all guesses and samples.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "rows.hpp"

namespace rayhull {

class Cholesky {
 public:
  Cholesky(int64_t count, int64_t d);

  int64_t size() const { return k_; }
  int64_t row(int64_t a) const { return chosen_[a]; }
  bool is_dependent(int64_t a) const { return at(a, a) > 1e100; }

  // Factors the system of the active rows over the coordinates with state 0; returns how many rows depend on others.
  int64_t factor(const Rows& rows, const bool* active, const int8_t* state);

  // r = H^-1 r; dependent rows get 0.
  void solve(double* r) const { solve_lower(r), solve_upper(r); }
  void solve_lower(double* r) const;
  void solve_upper(double* r) const;

  // Before the first change: writes the zeros that the envelope left out.
  void fill_envelope();
  // One more row of the problem, with L w = G_W D n for its normal n, times a sign.
  void append(int64_t row, const double* w, double sign, double diagonal);
  // Row a leaves.
  void remove(int64_t a);
  // L L^T + sign w w^T; w is used up. False if the result is not positive definite.
  bool rank_one(double* w, double sign);

 private:
  double& at(int64_t a, int64_t b) { return L_[a * order_ + b]; }
  double at(int64_t a, int64_t b) const { return L_[a * order_ + b]; }
  int64_t choose(const Rows& rows, const bool* active, const int8_t* state);
  void gram(const Rows& rows, const int8_t* state, int64_t from);
  void gram_sparse(const Rows& rows, const int8_t* state);
  void gram_dense(const Rows& rows, const int8_t* state, int64_t from);
  void tile(const int64_t* left, const int64_t* right, int64_t width);
  int64_t kept(const Rows& rows, const int8_t* state, int64_t same);
  int64_t factorise(int64_t from);
  void eliminate_two(int64_t i, int64_t next);
  void solve_four(double* row, const double* products, const double* const* columns, int64_t j) const;
  void eliminate(int64_t i, int64_t start);
  void eliminate_entry(int64_t i, int64_t j, int64_t from);
  bool finish_row(int64_t i);

  int64_t order_, d_, k_ = 0;
  const double* factored_ = nullptr;  // the rows of which L is the factor with every coordinate free; else null
  std::unique_ptr<double[]> L_;  // (order, order), made by the first factor: nothing beyond the rows it has is touched
  std::vector<double> gathered_, buffer_, inverse_;
  std::vector<int64_t> chosen_, first_, touched_;
};

}  // namespace rayhull
