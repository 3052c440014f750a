// Tensors as arrays: what every operator does before and after its kernel.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <vector>

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
Tensor empty(std::initializer_list<int64_t> sizes) {
  const std::vector<int64_t> shape(sizes);
  return torch::stable::empty(shape, scalar_type<T>(), std::nullopt, torch::stable::Device(torch::headeronly::DeviceType::CPU));
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

// Entries from one sample to the next: 0 where one row serves all.
inline int64_t stride_of(const Tensor& tensor) { return tensor.size(0) == 1 ? 0 : tensor.size(1); }

// Refuses indices that are not below `end`.
inline void check_indices(const Tensor& tensor, int64_t end) {
  const int32_t* places = read<int32_t>(tensor);
  bool fine = true;
  for (int64_t i = 0; i < tensor.numel(); i++) fine &= 0 <= places[i] && places[i] < end;
  STD_TORCH_CHECK(fine, "rayhull: an index out of range");
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

}  // namespace rayhull
