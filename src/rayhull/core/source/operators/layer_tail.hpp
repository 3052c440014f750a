// The operators around the layer's tail, forwards and backwards.
#pragma once

#include "../layer/tail.hpp"
#include "tensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <tuple>
#include <type_traits>
#include <vector>

namespace rayhull {

using Optional = std::optional<Tensor>;

// A program as two tensors: layout (int64: kinds, coefficients, dim, strict, stated rows, axes, event shape, blocks,
// indices) and numbers (float64). Whatever they say, nothing outside of them is read.
struct TailTensors {
  Tensor layout, numbers;
  int64_t coefficients, dim, rows;
  std::vector<int64_t> event;
  std::vector<layer::Block> blocks;
  bool strict, follows = true, needs_base = false;

  TailTensors(const Tensor& layout_, const Tensor& numbers_)
      : layout(dense<int64_t>(layout_, 1)), numbers(dense<double>(numbers_, 1)) {
    constexpr int64_t head = 6;
    const int64_t* data = read<int64_t>(layout);
    const int64_t length = layout.numel();
    STD_TORCH_CHECK(length >= head && data[0] >= 0 && data[5] >= 0 && data[0] < length && data[5] < length,
                    "rayhull: a program that is none");
    coefficients = data[1], dim = data[2], strict = data[3] != 0, rows = data[4];
    const int64_t first = head + data[5], fields = sizeof(layer::Block) / sizeof(int64_t);
    STD_TORCH_CHECK(first + data[0] * fields <= length, "rayhull: a program that ends too early");
    event.assign(data + head, data + first);
    int64_t size = 1;
    for (int64_t length_of_axis : event) {
      STD_TORCH_CHECK(0 <= length_of_axis && length_of_axis <= dim, "rayhull: an event shape out of range");
      size = std::min(size * length_of_axis, dim + 1);  // beyond dim it is wrong anyway, and must not overflow
    }
    STD_TORCH_CHECK(size == dim && dim < (int64_t(1) << 31), "rayhull: an event shape of another size");
    blocks.resize(data[0]);
    std::memcpy(blocks.data(), data + first, data[0] * sizeof(layer::Block));
    for (const layer::Block& block : blocks) {
      STD_TORCH_CHECK(layer::fits(block, data, length, numbers.numel(), coefficients, dim), "rayhull: a program out of range");
      STD_TORCH_CHECK(layer::fits(block.following, block, data, length, numbers.numel(), rows, strict),
                      "rayhull: a program out of range");
      follows &= block.following.from != layer::NO_SIDES && (!strict || block.following.from == layer::OF_SAMPLE);
      needs_base |= block.following.from == layer::OF_SAMPLE;
    }
  }

  template <class T>
  layer::Program program(double leak = 0.0) const {
    const double largest = std::is_same_v<T, double> ? 0x1p127 : double(std::numeric_limits<T>::max());
    return {read<int64_t>(layout), read<double>(numbers), blocks.data(), int64_t(blocks.size()), strict, largest, leak};
  }

  // Samples for which a thread is worth waking, in units of LANES of them.
  int64_t grain() const { return 1 + (int64_t(1) << 15) / (1 + numbers.numel()); }
};

template <class T>
bool all_finite(const T* values, int64_t count) {
  int bad = 0;  // one pass without a branch
  for (int64_t i = 0; i < count; i++) bad |= !(std::fabs(values[i]) <= std::numeric_limits<T>::max());
  return !bad;
}

inline bool all_finite(const Tensor& tensor) {
  if (tensor.scalar_type() == scalar_type<double>()) return all_finite(read<double>(tensor), tensor.numel());
  STD_TORCH_CHECK(tensor.scalar_type() == scalar_type<float>(), "rayhull: origins must be float32 or float64");
  return all_finite(read<float>(tensor), tensor.numel());
}

template <class T>
bool rows_finite(const T* values, int64_t n, int64_t width, int64_t stride) {
  bool fine = true;
  for (int64_t i = 0; i < n; i++) fine &= all_finite(values + i * stride, width);
  return fine;
}

// 0, or not a number for samples that were computed from something that is not finite: empty where none was. The first
// origin has one row for each sample, the others (weights) serve all.
template <class T>
std::vector<double> marks_of(const Tensor& c, int64_t stride, int64_t k, const std::vector<Tensor>& origin, int64_t n) {
  if (origin.empty() || rows_finite(read<T>(c), n, k, stride)) return {};
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  bool weights = true;
  for (size_t i = 1; i < origin.size(); i++) weights &= all_finite(torch::stable::contiguous(origin[i]));
  std::vector<double> marks(n, weights ? 0.0 : none);
  const Tensor features = torch::stable::contiguous(origin[0]);
  STD_TORCH_CHECK(features.scalar_type() == scalar_type<T>() && (n == 0 || features.numel() % n == 0),
                  "rayhull: origins of other samples");
  const int64_t width = n ? features.numel() / n : 0;
  for (int64_t i = 0; i < n; i++) {
    if (!all_finite(read<T>(features) + i * width, width)) marks[i] = none;
  }
  return marks;
}

// Coefficients as rows: as they lie where each row does, else copied.
inline Tensor rows_of(const Tensor& c, int64_t width) {
  STD_TORCH_CHECK(c.is_cpu() && c.dim() >= 1 && c.size(c.dim() - 1) == width, "rayhull: coefficients or features of another shape");
  if (c.dim() == 2 && c.stride(1) == 1 && c.stride(0) >= width) return c;
  return c.is_contiguous() ? c : torch::stable::contiguous(c);
}

inline int64_t row_stride(const Tensor& c, int64_t width) { return c.dim() == 2 ? c.stride(0) : width; }

inline bool is_double(const Tensor& c) {
  if (c.scalar_type() == scalar_type<double>()) return true;
  STD_TORCH_CHECK(c.scalar_type() == scalar_type<float>(), "rayhull: coefficients and features must be float32 or float64");
  return false;
}

template <class F>
void over_samples(const TailTensors& tail, int64_t n, const F& run) {
  const int64_t groups = (n + 7) / 8;  // threads take whole groups of eight samples
  parallel(groups, tail.grain(), [&](int64_t a, int64_t b) { run(8 * a, std::min(n, 8 * b)); });
}

// Sides of n samples, each (n, width) float32 or float64, rows `stride` apart; gradients are made where asked for.
class SideTensors {
 public:
  SideTensors() = default;
  SideTensors(const TailTensors& tail, int64_t n, const Optional& base, const Optional& b, const Optional& lower,
              const Optional& upper, bool gradients) {
    STD_TORCH_CHECK(tail.follows && tail.needs_base == base.has_value(), "rayhull: a program without these sides");
    given_ = {side(base, n, tail.dim, gradients), side(b, n, tail.rows, gradients), side(lower, n, tail.dim, gradients),
              side(upper, n, tail.dim, gradients)};
  }

  const layer::GivenSides& given() const { return given_; }
  const std::vector<Tensor>& gradients() const { return gradients_; }

 private:
  layer::GivenSides given_{};
  std::vector<Tensor> held_, gradients_;

  layer::Side side(const Optional& tensor, int64_t n, int64_t width, bool gradient) {
    if (gradient) gradients_.push_back(empty<float>({0}));
    if (!tensor) return {};
    const bool wide = tensor->scalar_type() == scalar_type<double>();
    STD_TORCH_CHECK(tensor->is_cpu() && (wide || tensor->scalar_type() == scalar_type<float>()),
                    "rayhull: sides must be float32 or float64, on the CPU");
    STD_TORCH_CHECK(tensor->dim() == 2 && tensor->size(0) == n && tensor->size(1) == width,
                    "rayhull: sides must have one row for each sample");
    held_.push_back(tensor->stride(1) == 1 || width <= 1 ? *tensor : torch::stable::contiguous(*tensor));
    if (gradient) gradients_.back() = wide ? empty<double>({n, width}) : empty<float>({n, width});
    return {held_.back().const_data_ptr(), held_.back().stride(0), width, wide,
            gradient ? gradients_.back().mutable_data_ptr() : nullptr};
  }
};

// The shape of the points of samples that come in rows.
inline std::vector<int64_t> shape_of_points(const TailTensors& tail, const Tensor& rows) {
  std::vector<int64_t> shape;
  for (int64_t axis = 0; axis + 1 < rows.dim(); axis++) shape.push_back(rows.size(axis));
  shape.insert(shape.end(), tail.event.begin(), tail.event.end());
  return shape;
}

template <class T>
Tensor layer_tail_of(const TailTensors& tail, Tensor c, const std::vector<Tensor>& origin,
                     const SideTensors& sides = {}, bool* certified = nullptr) {
  const int64_t width = tail.coefficients, n = width ? c.numel() / width : 0;
  Tensor x = empty<T>(shape_of_points(tail, c));
  c = rows_of(c, width);
  const std::vector<double> marks = marks_of<T>(c, row_stride(c, width), width, origin, n);
  const layer::Given<T> given{read<T>(c), row_stride(c, width), !origin.empty(), marks.empty() ? nullptr : marks.data(), {}};
  const layer::Program program = tail.program<T>();
  over_samples(tail, n, [&](int64_t a, int64_t b) {
    layer::tail_forward(program, given, sides.given(), tail.dim, write<T>(x), certified, a, b);
  });
  return x;
}

template <class T>
Tensor layer_tail_backward_of(const TailTensors& tail, Tensor g, Tensor c, const std::vector<Tensor>& origin, double leak,
                              const SideTensors& sides = {}) {
  const int64_t width = tail.coefficients, n = width ? c.numel() / width : 0;
  STD_TORCH_CHECK(g.is_cpu() && g.scalar_type() == scalar_type<T>() && g.numel() == n * tail.dim,
                  "rayhull: a gradient of another shape than the points");
  std::vector<int64_t> shape;
  for (int64_t axis = 0; axis < c.dim(); axis++) shape.push_back(c.size(axis));
  Tensor grad = empty<T>(shape);
  g = g.is_contiguous() ? g : torch::stable::contiguous(g), c = rows_of(c, width);
  const std::vector<double> marks = marks_of<T>(c, row_stride(c, width), width, origin, n);
  const layer::Given<T> given{read<T>(c), row_stride(c, width), !origin.empty(), marks.empty() ? nullptr : marks.data(), {}};
  const layer::Program program = tail.program<T>(leak);
  over_samples(tail, n, [&](int64_t a, int64_t b) {
    layer::tail_backward(program, given, sides.given(), tail.dim, read<T>(g), width, write<T>(grad), a, b);
  });
  return grad;
}

template <class T>
Tensor linear_tail_of(const TailTensors& tail, Tensor h, const Tensor& weight, const Tensor& bias) {
  const int64_t width = weight.size(1), n = width ? h.numel() / width : 0;
  Tensor x = empty<T>(shape_of_points(tail, h));
  h = rows_of(h, width);
  const bool finite = !tail.strict || (all_finite(weight) && all_finite(bias));
  const layer::Given<T> given{read<T>(h), row_stride(h, width), tail.strict, nullptr,
                              {read<T>(weight), read<T>(bias), width, finite}};
  const layer::Program program = tail.program<T>();
  over_samples(tail, n, [&](int64_t a, int64_t b) {
    layer::tail_forward(program, given, {}, tail.dim, write<T>(x), nullptr, a, b);
  });
  return x;
}

// Features (*, width) -> x (*, event shape): the tail of weight · features + bias, weight (coefficients or more, width).
inline Tensor linear_tail(Tensor features, Tensor weight, Tensor bias, Tensor layout, Tensor numbers) {
  const TailTensors tail(layout, numbers);
  STD_TORCH_CHECK(!tail.needs_base, "rayhull: a program that needs sides of the sample");
  const bool wide = is_double(features);
  weight = wide ? dense<double>(weight, 2) : dense<float>(weight, 2), bias = wide ? dense<double>(bias, 1) : dense<float>(bias, 1);
  STD_TORCH_CHECK(weight.size(0) >= tail.coefficients && bias.size(0) == weight.size(0) && weight.size(1) > 0,
                  "rayhull: a Linear of other coefficients");
  return wide ? linear_tail_of<double>(tail, features, weight, bias) : linear_tail_of<float>(tail, features, weight, bias);
}

// c (*, coefficients) float32 or float64 -> x (*, event shape)
inline Tensor layer_tail(Tensor c, std::vector<Tensor> origin, Tensor layout, Tensor numbers) {
  const TailTensors tail(layout, numbers);
  STD_TORCH_CHECK(!tail.needs_base, "rayhull: a program that needs sides of the sample");
  if (is_double(c)) return layer_tail_of<double>(tail, c, origin);
  return layer_tail_of<float>(tail, c, origin);
}

// The gradient in c for the gradient g in x, of which a share leaks past the map.
inline Tensor layer_tail_backward(Tensor g, Tensor c, std::vector<Tensor> origin, Tensor layout, Tensor numbers,
                                  double leak) {
  const TailTensors tail(layout, numbers);
  STD_TORCH_CHECK(!tail.needs_base, "rayhull: a program that needs sides of the sample");
  if (is_double(c)) return layer_tail_backward_of<double>(tail, g, c, origin, leak);
  return layer_tail_backward_of<float>(tail, g, c, origin, leak);
}

// With sides of the sample: c (n, coefficients), each side (n, width) -> x (n, event shape), and certified (n): whether
// the base point has slack in every row, and under strict a point was proven; and how many are not.
inline std::tuple<Tensor, Tensor, int64_t> layer_tail_of_samples(Tensor c, std::vector<Tensor> origin, Optional base, Optional b,
                                                        Optional lower, Optional upper, Tensor layout, Tensor numbers) {
  const TailTensors tail(layout, numbers);
  STD_TORCH_CHECK(c.dim() == 2, "rayhull: coefficients must have one row for each sample");
  const SideTensors sides(tail, c.size(0), base, b, lower, upper, false);
  Tensor certified = empty<bool>({c.size(0)});
  std::fill_n(write<bool>(certified), c.size(0), true);
  Tensor x = is_double(c) ? layer_tail_of<double>(tail, c, origin, sides, write<bool>(certified))
                          : layer_tail_of<float>(tail, c, origin, sides, write<bool>(certified));
  const bool* fine = read<bool>(certified);
  return {x, certified, std::count(fine, fine + c.size(0), false)};
}

// The gradients in c, base, b, lower and upper; empty for what was not given.
inline std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> layer_tail_of_samples_backward(
    Tensor g, Tensor c, std::vector<Tensor> origin, Optional base, Optional b, Optional lower, Optional upper,
    Tensor layout, Tensor numbers, double leak) {
  const TailTensors tail(layout, numbers);
  STD_TORCH_CHECK(c.dim() == 2, "rayhull: coefficients must have one row for each sample");
  const SideTensors sides(tail, c.size(0), base, b, lower, upper, true);
  Tensor grad = is_double(c) ? layer_tail_backward_of<double>(tail, g, c, origin, leak, sides)
                             : layer_tail_backward_of<float>(tail, g, c, origin, leak, sides);
  const std::vector<Tensor>& made = sides.gradients();
  return {grad, made[0], made[1], made[2], made[3]};
}

}  // namespace rayhull
