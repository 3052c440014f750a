// The operators of torch, all in one place: their schemas, and the functions that serve them on the CPU. LibTorch's stable
// ABI: neither Python nor one release of torch is linked. Shapes without data and derivatives are in Python.
#include "../stamp.hpp"
#include "active_set.hpp"
#include "chain.hpp"
#include "clipped_shift.hpp"
#include "interior_point.hpp"
#include "leak.hpp"
#include "splitting.hpp"
#include "strict_pull.hpp"

RAYHULL_SAY_STAMP;

STABLE_TORCH_LIBRARY(rayhull_core, library) {
  library.def(
      "pool_adjacent(Tensor x, Tensor index, Tensor? scale, Tensor(out!) out, Tensor order, Tensor rows, "
      "Tensor unit_steps, Tensor roots, Tensor c, Tensor lower, Tensor upper) -> (Tensor, Tensor, Tensor, Tensor, int)");
  library.def(
      "clipped_shift(Tensor x, Tensor index, Tensor? scale, Tensor(out!) out, Tensor a, Tensor c, Tensor lower, "
      "Tensor upper, bool equality) -> (Tensor, Tensor, Tensor, Tensor, int)");
  library.def(
      "clipped_shift_backward(Tensor g, Tensor x, Tensor index, Tensor? scale, Tensor(out!) out, Tensor a, "
      "Tensor shifts, Tensor lower, Tensor upper, bool equality) -> Tensor");
  library.def(
      "pool_adjacent_backward(Tensor g, Tensor x, Tensor index, Tensor? scale, Tensor(out!) out, Tensor order, "
      "Tensor rows, Tensor unit_steps, Tensor roots, Tensor multipliers, Tensor lower, Tensor upper) -> Tensor");
  library.def(
      "active_set(Tensor x, Tensor index, Tensor? scale, Tensor(out!) out, Tensor data, Tensor columns, Tensor begin, "
      "Tensor products, Tensor lengths, Tensor? roots, Tensor? sweep, int m, Tensor c, Tensor lower, Tensor upper, "
      "Tensor? active, Tensor? state, int gradient_steps, float step, int pivots, int exact_steps, bool clamped) "
      "-> (Tensor, Tensor, Tensor, Tensor, int, int)");
  library.def(
      "active_set_backward(Tensor g, Tensor x, Tensor index, Tensor? scale, Tensor(out!) out, Tensor data, Tensor columns, "
      "Tensor begin, Tensor products, Tensor lengths, Tensor? roots, Tensor? sweep, int m, Tensor multipliers, Tensor lower, "
      "Tensor upper) -> ()");
  library.def(
      "active_system(Tensor data, Tensor columns, Tensor begin, Tensor products, Tensor lengths, Tensor q, Tensor active, "
      "Tensor state) -> Tensor");
  library.def(
      "interior_point(Tensor x, Tensor index, Tensor? scale, Tensor(out!) out, Tensor data, Tensor columns, Tensor begin, "
      "int m, Tensor c, Tensor lower, Tensor upper, Tensor? guess, Tensor own_data, Tensor own_columns, Tensor own_begin, "
      "Tensor high, Tensor low, Tensor coordinate, Tensor pattern_begin, Tensor pattern_rows, bool by_rows) "
      "-> (Tensor, Tensor, Tensor, Tensor, int, int)");
  library.def(
      "interval_system(Tensor own_data, Tensor own_columns, Tensor own_begin, Tensor high, Tensor low, Tensor coordinate, "
      "Tensor pattern_begin, Tensor pattern_rows, bool by_rows, Tensor q, Tensor active, Tensor state) -> Tensor");
  library.def("sparse_pattern(Tensor begin, Tensor rows) -> (Tensor, Tensor)");
  library.def(
      "splitting(Tensor y, Tensor rows, Tensor first, Tensor turn, Tensor last, Tensor onto, Tensor low, Tensor high, "
      "int steps, float relaxation, bool keep) -> (Tensor x, Tensor states)");
  library.def(
      "splitting_backward(Tensor g, Tensor states, Tensor rows, Tensor first, Tensor turn, Tensor last, Tensor onto, "
      "int steps, float relaxation) -> (Tensor gy, Tensor glow, Tensor ghigh)");
  library.def(
      "leak(Tensor g, Tensor d, Tensor? through, Tensor? unit, Tensor block, float share, float far, bool clamps) "
      "-> Tensor");
  library.def(
      "strict_pull(Tensor x, Tensor places, Tensor sign, Tensor hull, Tensor equal, Tensor start, Tensor along, Tensor tight, "
      "Tensor tight_bounds, Tensor loose, Tensor loose_rhs, Tensor loose_bounds, Tensor numbers, bool moving, bool conic) "
      "-> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(rayhull_core, CPU, library) {
  library.impl("pool_adjacent", TORCH_BOX(&rayhull::pool_adjacent));
  library.impl("clipped_shift", TORCH_BOX(&rayhull::clipped_shift_blocks));
  library.impl("clipped_shift_backward", TORCH_BOX(&rayhull::clipped_shift_backward_blocks));
  library.impl("pool_adjacent_backward", TORCH_BOX(&rayhull::pool_adjacent_backward_blocks));
  library.impl("active_set", TORCH_BOX(&rayhull::active_set));
  library.impl("active_set_backward", TORCH_BOX(&rayhull::active_set_backward_blocks));
  library.impl("active_system", TORCH_BOX(&rayhull::active_system));
  library.impl("interior_point", TORCH_BOX(&rayhull::interior_point));
  library.impl("interval_system", TORCH_BOX(&rayhull::interval_system));
  library.impl("sparse_pattern", TORCH_BOX(&rayhull::sparse_pattern));
  library.impl("splitting", TORCH_BOX(&rayhull::splitting));
  library.impl("splitting_backward", TORCH_BOX(&rayhull::splitting_backward));
  library.impl("leak", TORCH_BOX(&rayhull::leak));
  library.impl("strict_pull", TORCH_BOX(&rayhull::strict_pull));
}
