// The operators of torch, all in one place: their schemas, and the functions that serve them on the CPU. LibTorch's stable
// ABI: neither Python nor one release of torch is linked. Shapes without data and derivatives are in Python.
#include "../stamp.hpp"
#include "chain.hpp"

RAYHULL_SAY_STAMP;

STABLE_TORCH_LIBRARY(rayhull_core, library) {
  library.def(
      "pool_adjacent(Tensor y, Tensor weights, Tensor lower, Tensor upper) -> (Tensor, Tensor, Tensor, Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(rayhull_core, CPU, library) {
  library.impl("pool_adjacent", TORCH_BOX(&rayhull::pool_adjacent));
}
