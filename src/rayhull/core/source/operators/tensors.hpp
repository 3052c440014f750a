// Tensors as arrays: what every operator does before and after its kernel.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../projection/places.hpp"

namespace rayhull {

using torch::stable::Tensor;

template <class T>
constexpr torch::headeronly::ScalarType scalar_type() {
  return torch::headeronly::CppTypeToScalarType<T>::value;
}

// The tensor with its entries one after another; refuses another dtype, device or number of dimensions.
template <class T>
Tensor dense(const Tensor& tensor, int64_t dimensions) {
  STD_TORCH_CHECK(tensor.dim() == dimensions, "rayhull: a tensor of another shape than the kernel's");
  STD_TORCH_CHECK(tensor.scalar_type() == scalar_type<T>(), "rayhull: a tensor of another dtype than the kernel's");
  STD_TORCH_CHECK(tensor.is_cpu(), "rayhull: the kernels run on the CPU");
  return tensor.is_contiguous() ? tensor : torch::stable::contiguous(tensor);
}

template <class T>
int32_t dtype_number() {
  if constexpr (std::is_same_v<T, double>) return aoti_torch_dtype_float64();
  if constexpr (std::is_same_v<T, float>) return aoti_torch_dtype_float32();
  if constexpr (std::is_same_v<T, int64_t>) return aoti_torch_dtype_int64();
  if constexpr (std::is_same_v<T, int32_t>) return aoti_torch_dtype_int32();
  if constexpr (std::is_same_v<T, bool>) return aoti_torch_dtype_bool();
  if constexpr (std::is_same_v<T, int8_t>) return aoti_torch_dtype_int8();
}

inline bool is_double(const Tensor& tensor) { return tensor.scalar_type() == scalar_type<double>(); }

// A new tensor on the CPU. Straight from torch's C interface: looking `aten::empty` up by its name, as torch::stable::empty
// does, takes longer than many a kernel needs for one sample.
template <class T>
Tensor empty(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t axis = sizes.size(); axis-- > 0;) strides[axis] = step, step *= std::max<int64_t>(sizes[axis], 1);
  AtenTensorHandle made = nullptr;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(int64_t(sizes.size()), sizes.data(), strides.data(),
                                                         dtype_number<T>(), aoti_torch_device_type_cpu(), 0, &made));
  return Tensor(made);
}

template <class T>
const T* read(const Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}

template <class T>
T* write(const Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

// A right-hand side or a bound: one row of this width for all n samples, or one for each.
inline Tensor sides(const Tensor& tensor, int64_t n, int64_t width) {
  STD_TORCH_CHECK(tensor.dim() == 2 && (tensor.size(0) == 1 || tensor.size(0) == n) && tensor.size(1) == width,
                  "rayhull: sides must have one row, or one for each sample");
  return dense<double>(tensor, 2);
}

// The same as a kernel takes it: a stride of 0 where one row serves all.
inline Side side(const Tensor& tensor) { return {read<double>(tensor), tensor.size(0) == 1 ? 0 : tensor.size(1)}; }

// Refuses indices that are not below `end`.
inline void check_indices(const Tensor& tensor, int64_t end) {
  const int32_t* places = read<int32_t>(tensor);
  bool fine = true;
  for (int64_t i = 0; i < tensor.numel(); i++) fine &= 0 <= places[i] && places[i] < end;
  STD_TORCH_CHECK(fine, "rayhull: an index out of range");
}

// Sparse rows (or columns) by their entries: begin (n + 1), columns (entries) below `end`.
inline void check_sparse(const Tensor& begin, const Tensor& columns, int64_t n, int64_t end) {
  const int64_t* at = read<int64_t>(begin);
  bool fine = n >= 0 && at[0] == 0 && at[n] == columns.numel();
  for (int64_t i = 0; i < n; i++) fine &= at[i] <= at[i + 1];
  STD_TORCH_CHECK(fine, "rayhull: sparse rows do not fit together");
  check_indices(columns, end);
}

// Blocks in their places: x and out (n, D), float or double; index (count, size); scale (count, size) or none.
struct PlaceTensors {
  Tensor x, index, scale;
  Places places;

  // Without `out` the blocks are only read.
  PlaceTensors(const Tensor& x_, const Tensor& index_, const std::optional<Tensor>& scale_, const std::optional<Tensor>& out = {})
      : x(is_double(x_) ? dense<double>(x_, 2) : dense<float>(x_, 2)), index(dense<int32_t>(index_, 2)),
        scale(scale_ ? dense<double>(*scale_, 2) : x) {
    STD_TORCH_CHECK(!out || (out->is_contiguous() && out->scalar_type() == x.scalar_type() && out->numel() == x.numel() &&
                             out->is_cpu()),
                    "rayhull: the result must be contiguous and like the points");
    STD_TORCH_CHECK(!scale_ || scale.numel() == index.numel(), "rayhull: one scale for each coordinate of a block");
    check_indices(index, x.size(1));
    places = {x.size(1), index.size(0), index.size(1), read<int32_t>(index), scale_ ? read<double>(scale) : nullptr,
              scale_ && is_mirrored(), x.const_data_ptr(), out ? out->mutable_data_ptr() : nullptr, !is_double(x), run()};
  }

  int64_t samples() const { return x.size(0); }
  int64_t blocks() const { return x.size(0) * places.count; }

 private:
  bool is_mirrored() const {
    bool mirrored = true;
    const double* factor = read<double>(scale);
    for (int64_t j = 0; j < scale.numel(); j++) mirrored &= (factor[j] == 1.0) | (factor[j] == -1.0);
    return mirrored;
  }

  // The length of the first run, if the whole index is made of such.
  int64_t run() const {
    const int64_t count = index.numel(), size = index.size(1);
    const int32_t* at = read<int32_t>(index);
    int64_t length = 1;
    while (length < size && at[length] == at[length - 1] + 1) length++;
    bool fits = size % length == 0;
    for (int64_t j = 1; j < count && fits; j++) fits = j % length == 0 || at[j] == at[j - 1] + 1;
    return fits ? length : 1;
  }
};

// Blocks of gradients: they scale inversely, and are written where they were read.
inline PlaceTensors gradients(const PlaceTensors& points, const Tensor& g, const std::optional<Tensor>& scale, const Tensor& out) {
  STD_TORCH_CHECK(g.dim() == 2 && g.size(0) == points.samples() && g.size(1) == points.places.width,
                  "rayhull: one gradient for each point");
  if (!scale || points.places.mirrored) return {g, points.index, scale, out};
  const Tensor inverse = empty<double>({points.places.count, points.places.size});
  for (int64_t j = 0; j < inverse.numel(); j++) write<double>(inverse)[j] = 1.0 / points.places.scale[j];
  return {g, points.index, inverse, out};
}

// run(start, stop) over n samples on torch's threads, at least `grain` samples each. What it throws (no memory) is
// kept from crossing torch's thread pool, and thrown here.
template <class F>
void parallel(int64_t n, int64_t grain, const F& run) {
  std::atomic<bool> failed{false};
  torch::stable::parallel_for(0, n, grain, [&](int64_t a, int64_t b) {
    try {
      run(a, b);
    } catch (...) {
      failed = true;
    }
  });
  STD_TORCH_CHECK(!failed, "rayhull: out of memory");
}

// The same in whole groups of eight samples, each so much work.
template <class F>
void in_eights(int64_t n, int64_t work, const F& run) {
  parallel((n + 7) / 8, 1 + (1 << 14) / work, [&](int64_t a, int64_t b) { run(8 * a, std::min(n, 8 * b)); });
}

// What a kernel says of all blocks: multipliers (blocks, rows), residual, steps, status (blocks), and how many are open.
using Found = std::tuple<Tensor, Tensor, Tensor, Tensor, int64_t>;

// Blocks with their right-hand sides c (1 or blocks, rows) and bounds (1 or blocks, size).
struct BlockTensors {
  PlaceTensors at;
  Tensor c, lower, upper;

  BlockTensors(const PlaceTensors& blocks, const Tensor& c_, const Tensor& lower_, const Tensor& upper_, int64_t rows)
      : at(blocks), c(sides(c_, at.blocks(), rows)), lower(sides(lower_, at.blocks(), at.places.size)),
        upper(sides(upper_, at.blocks(), at.places.size)) {}

  // kernel(multipliers, report, start, stop) over the samples, which returns its tally.
  template <class F>
  std::pair<Found, int64_t> solve(int64_t grain, const F& kernel) const {
    const int64_t n = at.blocks();
    const Tensor multipliers = empty<double>({n, c.size(1)}), residual = empty<double>({n});
    const Tensor steps = empty<int64_t>({n}), status = empty<int64_t>({n});
    const Report report{write<double>(residual), write<int64_t>(steps), write<int64_t>(status)};
    std::atomic<int64_t> open{0}, blurred{0};
    parallel(at.samples(), grain, [&](int64_t start, int64_t stop) {
      const Tally tally = kernel(write<double>(multipliers), report, start, stop);
      open += tally.open, blurred += tally.blurred;
    });
    return {{multipliers, residual, steps, status, open}, blurred};
  }
};

// The same backwards: gradients g like x, what the forward pass found, multipliers (blocks, rows), and the bounds.
struct GradientTensors {
  PlaceTensors at, by;
  Tensor multipliers, lower, upper;

  GradientTensors(const Tensor& g, const Tensor& x, const Tensor& index, const std::optional<Tensor>& scale, const Tensor& out,
                  const Tensor& multipliers_, const Tensor& lower_, const Tensor& upper_, int64_t rows)
      : at(x, index, scale), by(gradients(at, g, scale, out)), multipliers(dense<double>(multipliers_, 2)),
        lower(sides(lower_, at.blocks(), at.places.size)), upper(sides(upper_, at.blocks(), at.places.size)) {
    STD_TORCH_CHECK(multipliers.size(0) == at.blocks() && multipliers.size(1) == rows, "rayhull: one multiplier for each row");
  }

  // kernel(w, start, stop) over the samples -> w, like the multipliers
  template <class F>
  Tensor pull(int64_t grain, const F& kernel) const {
    const Tensor w = empty<double>({at.blocks(), multipliers.size(1)});
    parallel(at.samples(), grain, [&](int64_t start, int64_t stop) { kernel(write<double>(w), start, stop); });
    return w;
  }
};

}  // namespace rayhull
