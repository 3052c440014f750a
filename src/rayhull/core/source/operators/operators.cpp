// The operators of torch, all in one place: their schemas, and the functions that serve them on the CPU. LibTorch's stable
// ABI: neither Python nor one release of torch is linked. Shapes without data and derivatives are in Python.
#include "../stamp.hpp"
#include "active_set.hpp"
#include "chain.hpp"
#include "clipped_shift.hpp"
#include "layer_tail.hpp"
#include "leak.hpp"

RAYHULL_SAY_STAMP;

STABLE_TORCH_LIBRARY(rayhull_core, library) {
  library.def(
      "pool_adjacent(Tensor x, Tensor index, Tensor? scale, Tensor(out!) out, Tensor order, Tensor rows, "
      "Tensor unit_steps, Tensor roots, Tensor c, Tensor lower, Tensor upper) -> (Tensor, Tensor, Tensor, Tensor, int)");
  library.def(
      "clipped_shift(Tensor x, Tensor index, Tensor? scale, Tensor(out!) out, Tensor a, Tensor c, Tensor lower, "
      "Tensor upper, bool equality) -> (Tensor, Tensor, Tensor, Tensor, int)");
  library.def(
      "active_set(Tensor x, Tensor index, Tensor? scale, Tensor(out!) out, Tensor data, Tensor columns, Tensor begin, "
      "Tensor products, Tensor lengths, Tensor? roots, Tensor? sweep, int m, Tensor c, Tensor lower, Tensor upper, "
      "Tensor? active, Tensor? state, int gradient_steps, float step, int pivots, int exact_steps, bool lazy, bool clamped) "
      "-> (Tensor, Tensor, Tensor, Tensor, int, int)");
  library.def(
      "active_system(Tensor data, Tensor columns, Tensor begin, Tensor products, Tensor lengths, Tensor q, Tensor active, "
      "Tensor state) -> Tensor");
  library.def("layer_tail(Tensor c, Tensor[] origin, Tensor layout, Tensor numbers) -> Tensor");
  library.def("leak(Tensor g, Tensor x, Tensor free, Tensor block, float share) -> (Tensor, Tensor)");
  library.def("linear_tail(Tensor features, Tensor weight, Tensor bias, Tensor layout, Tensor numbers) -> Tensor");
  library.def(
      "layer_tail_backward(Tensor g, Tensor c, Tensor[] origin, Tensor layout, Tensor numbers, float leak) -> Tensor");
  library.def(
      "layer_tail_of_samples(Tensor c, Tensor[] origin, Tensor? base, Tensor? b, Tensor? lower, Tensor? upper, "
      "Tensor layout, Tensor numbers) -> (Tensor, Tensor, int)");
  library.def(
      "layer_tail_of_samples_backward(Tensor g, Tensor c, Tensor[] origin, Tensor? base, Tensor? b, Tensor? lower, "
      "Tensor? upper, Tensor layout, Tensor numbers, float leak) -> (Tensor, Tensor, Tensor, Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(rayhull_core, CPU, library) {
  library.impl("pool_adjacent", TORCH_BOX(&rayhull::pool_adjacent));
  library.impl("clipped_shift", TORCH_BOX(&rayhull::clipped_shift_blocks));
  library.impl("active_set", TORCH_BOX(&rayhull::active_set));
  library.impl("active_system", TORCH_BOX(&rayhull::active_system));
  library.impl("layer_tail", TORCH_BOX(&rayhull::layer_tail));
  library.impl("leak", TORCH_BOX(&rayhull::leak));
  library.impl("linear_tail", TORCH_BOX(&rayhull::linear_tail));
  library.impl("layer_tail_backward", TORCH_BOX(&rayhull::layer_tail_backward));
  library.impl("layer_tail_of_samples", TORCH_BOX(&rayhull::layer_tail_of_samples));
  library.impl("layer_tail_of_samples_backward", TORCH_BOX(&rayhull::layer_tail_of_samples_backward));
}
