"""Faults in the compiled kernels (pytest compiles them anew when it starts) and in their reference."""

from tests.mutants import Mutant

SAME = ("test_double_description.py::test_core_and_reference_give_the_same_array",)
PAIRS = ("test_double_description.py::test_every_search_finds_each_adjacent_pair_once",)
NEAREST = ("test_core_operators.py::test_the_active_set_operator_finds_nearest_points",)
FOREST = ("test_core_operators.py::test_the_forest_finds_nearest_points_of_any_differences",)
BANDED = ("test_projection_banded.py::test_a_lane_takes_the_steps_that_a_sample_takes_alone",)
MUTANTS = [
    Mutant(
        "core/reference/adjacency.py",
        "np.count_nonzero(inside, axis=1) > 2",
        "np.count_nonzero(inside, axis=1) > 4",
        (*PAIRS, *SAME),
        "two more rays may have the zeros of an adjacent pair",
    ),
    Mutant(
        "core/reference/double_description.py",
        "        if bound.max(initial=0.0) >= SAFE:",
        "        if False:",
        (
            "test_double_description.py::test_integers_of_any_size_are_exact",
            "test_double_description.py::test_products_past_64_bits_are_exact",
        ),
        "new rays wrap around",
    ),
    Mutant(
        "core/reference/floats.py",
        "    error = (a + 1 / largest) * E[i] + (b + 1 / largest) * E[j] + 4 * np.finfo(float).eps * (a + b)",
        "    error = 0 * E[i]",
        ("test_double_description_floats.py",),
        "rays of floats are thought to be exact",
    ),
    # That a new ray is marked as lying on the row in rays.cpp is not listed: replace() in double_description.cpp marks
    # it again, and a float ray recomputed without the mark fails, so that the reference takes the row.
    Mutant(
        "core/source/conversion/double_description.cpp",
        "        if (cone_.ray(i)[column] == 0) add(cone_.zeros(i), cone_.bits);",
        "        ",
        ("test_double_description.py",),
        "rays on a row do not know it",
    ),
    Mutant(
        "core/source/conversion/rays.cpp",
        "constexpr double SHORT = 0x1p61;",
        "constexpr double SHORT = 0x1p200;",
        (*SAME, "test_double_description.py::test_products_past_64_bits_are_exact"),
        "sums of products are always thought to fit",
    ),
    Mutant(
        "core/source/conversion/adjacency.cpp",
        "      if (alone || simple[b] || !has_witness(",
        "      if (true || !has_witness(",
        (*PAIRS, *SAME),
        "every pair with enough common zeros is adjacent",
    ),
    Mutant(
        "core/source/conversion/verification.cpp",
        "    return s > 0 && echelon_.rank() == s - 1;",
        "    return true;",
        (
            "test_double_description.py::test_rays_whose_tight_rows_have_full_rank_are_extreme",
            "test_double_description.py::test_verification_refuses_what_is_not_an_answer",
        ),
        "every ray is extreme",
    ),
    Mutant(
        "core/source/conversion/verification.cpp",
        "      if (slacks_[row] < 0) return BROKEN;",
        "",
        ("test_double_description.py::test_a_slack_that_is_off_by_one_is_seen",),
        "a broken row is not seen",
    ),
    Mutant(
        "core/source/conversion/verification.cpp",
        "  if (bound < 0x1p52) return",
        "  if (bound < 0x1p70) return",
        ("test_double_description.py::test_a_slack_that_is_off_by_one_is_seen",),
        "slacks are rounded",
    ),
    Mutant(
        "core/source/conversion/verification.cpp",
        "      if (y[c] < 0) return NEGATIVE;\n",
        "",
        ("test_double_description.py::test_a_fault_is_seen_wherever_it_stands_among_many_rays",),
        "a negative coordinate is not seen",
    ),
    Mutant(
        "core/source/conversion/verification.cpp",
        "      if (slacks_[row] == 0) add(zeros, k_ + row);",
        "      if (slacks_[row] == 0) add(zeros, row);",
        ("test_double_description.py::test_rays_whose_tight_rows_have_full_rank_are_extreme",),
        "tight rows are counted as zero coordinates",
    ),
    Mutant(
        "core/source/conversion/verification.cpp",
        "  for (Fault fault : faults)\n    if (fault != NO_FAULT) return fault;\n  return NO_FAULT;",
        "  return faults.empty() ? NO_FAULT : faults[0];",
        ("test_double_description.py::test_a_fault_is_seen_wherever_it_stands_among_many_rays",),
        "a fault beyond the first thousand rays is not seen",
    ),
    Mutant(
        "core/source/conversion/verification.cpp",
        "  if (bound < 0x1p62) return",
        "  if (bound < 0x1p126) return",
        ("test_double_description.py::test_a_slack_that_is_off_by_one_is_seen",),
        "slacks of more than 64 bits wrap around",
    ),
    Mutant(
        "core/source/conversion/rank.hpp",
        "magnitude(x) < SHORT ? x : x % prime_)); }",
        "x)); }",
        ("test_double_description.py::test_core_and_reference_choose_the_same_independent_rows",),
        "residues of long integers are rounded",
    ),
    Mutant(
        "core/source/conversion/lift.cpp",
        "  const ExactDivisor divisor(g == 0 ? 1 : static_cast<uint64_t>(g));",
        "  const ExactDivisor divisor(1);",
        ("test_double_description.py::test_primitive_products_are_exact_or_refused",),
        "lifted rays are not primitive",
    ),
    Mutant(
        "core/source/conversion/rank.hpp",
        "    for (int64_t c = 0; c < pivot; c++) row[c] = modulus_.reduce(lead * row[c]);\n",
        "",
        ("test_double_description.py::test_core_and_reference_choose_the_same_independent_rows",),
        "a row is scaled in part",
    ),
    Mutant(
        "core/source/conversion/lift.cpp",
        "* static_cast<double>(many) >= 0x1p126) return false;",
        "* static_cast<double>(many) >= 0x1p200) return false;",
        ("test_double_description.py::test_primitive_products_are_exact_or_refused",),
        "sums that pass 127 bits are taken",
    ),
    Mutant(
        "core/source/projection/chain.cpp",
        "    while (!pools.empty() && pools.back().value > pool.value) {",
        "    if (!pools.empty() && pools.back().value > pool.value) {",
        ("test_core_operators.py::test_pooled_chains_are_nearest_increasing_sequences",),
        "a pool is merged with one neighbour only",
    ),
    Mutant(
        "core/source/projection/chain.cpp",
        "    if (i == held) total -= rest;",
        "    ",
        (
            "test_core_operators.py::test_pooled_chains_are_nearest_increasing_sequences",
            "test_pins_projection.py::test_closed_forms_answer_without_a_second_solver",
        ),
        "the force of a bound is dropped, and a fallback answers",
    ),
    Mutant(
        "core/source/projection/chain.cpp",
        "      if (k + 1 < d_) shift -= c[p_.rows[k]] * p_.unit_steps[p_.rows[k]];",
        "      if (k + 1 < d_) shift += c[p_.rows[k]] * p_.unit_steps[p_.rows[k]];",
        ("test_pins_projection.py::test_closed_forms_answer_without_a_second_solver",),
        "a chain's steps have the wrong sign and a fallback answers",
    ),
    Mutant(
        "core/source/projection/clipped_shift.cpp",
        "    return least_ > c_ + slack || (equality_ && most < c_ - slack);",
        "    return least_ > c_ + slack;",
        ("test_pins_projection.py::test_an_equality_out_of_reach_is_seen_by_the_closed_form_itself",),
        "an equality out of reach from below is not seen as empty",
    ),
    Mutant(
        "core/source/projection/places.hpp",
        "    return mirrored ? value * factor : value / factor;",
        "    return value * factor;",
        (
            "test_projection.py::test_weights_change_the_metric_and_nothing_else",
            "test_core_operators.py::test_blocks_are_read_from_and_written_to_their_places_at_their_scale",
        ),
        "weights are applied twice",
    ),
    Mutant(
        "core/source/projection/active_set.cpp",
        "    if (is_crossed(stated.lower, stated.upper, d_)) answer.status = EMPTY, answer.blurred = false;",
        "    ",
        ("test_core_operators.py::test_bounds_that_cross_are_empty_and_an_order_is_clamped_to_its_box",),
        "bounds that cross are not seen",
    ),
    # Dropping the sign of a multiplier from kkt_residual() in guess.cpp is not listed: both solvers drop rows with
    # negative multipliers before they end, so that no answer depends on it. The certificate in Python has its own
    # mutant, and that the solvers drop them is the next one.
    Mutant(
        "core/source/projection/dual_active_set.cpp",
        "        if (s.active[i] && s.multipliers[i] < 0.0) s.active[i] = false, dropped++;",
        "        if (s.active[i] && s.multipliers[i] < 0.0) continue;",
        ("test_core_operators.py::test_a_wrong_guess_of_the_active_rows_is_corrected",),
        "the exact method keeps rows that pull instead of push",
    ),
    # Leaving out refine() in clipped_shift.cpp is not listed: the next round finds the root again from v - t a, so that
    # no answer depends on it.
    Mutant(
        "core/source/projection/dual_active_set.cpp",
        "      if (i >= s.m || !(work_.r[a] > STEADY)) continue;",
        "      if (i >= s.m || !(work_.r[a] < -STEADY)) continue;",
        NEAREST,
        "the wrong multiplier blocks a step",
    ),
    Mutant(
        "core/source/projection/forest.cpp",
        "    if (flow_[e] < 0.0) unlink(e), dropped++;",
        "    if (flow_[e] < 0.0) flow_[e] = 0.0;",
        FOREST,
        "the forest keeps rows of a wrong guess that pull instead of push",
    ),
    Mutant(
        "core/source/projection/forest.cpp",
        "    rate_[v] = is_tail(v) ? share : -share;",
        "    rate_[v] = is_tail(v) ? -share : share;",
        FOREST,
        "the wrong flow of a tree blocks a step",
    ),
    Mutant(
        "core/source/projection/forest.cpp",
        "    const double share = mass_[v] == total ? sign : sign * mass_[v] / total;  // of the ground",
        "    const double share = sign * mass_[v] / total;",
        FOREST,
        "a tree that stands on the ground passes no flow on to it",
    ),
    Mutant(
        "core/source/projection/forest.cpp",
        "    if (full == INFINITE && partial == INFINITE) return Met::IMPOSSIBLE;",
        "    if (full == INFINITE && partial == INFINITE) return Met::YES;",
        ("test_core_operators.py::test_the_forest_proves_differences_empty",),
        "rows in a circle that contradict each other are not seen",
    ),
    Mutant(
        "core/source/projection/banded.cpp",
        "        for (int q = p + 1; q < W; q++) u[p] = u[p] - u[q] * before[p][q - p - 1];",
        "",
        BANDED,
        "a band of three is factored as if it were of two",
    ),
    Mutant(
        "core/source/projection/banded.cpp",
        "r = where(on, where(polishing_, gap_[i], start_[i]))",
        "r = where(on, start_[i])",
        BANDED,
        "what takes the rounding away adds all multipliers once more",
    ),
    Mutant(
        "core/source/projection/banded.cpp",
        "    careful_.set(lane, turn.stalled > PATIENCE);",
        "    careful_.set(lane, false);",
        BANDED,
        "lanes that make no progress go round in circles",
    ),
    Mutant(
        "core/source/projection/banded.cpp",
        "      if (fresh_.get(lane)) turns_[lane].finished = turns_[lane].right = !guess(lane) && !any.get(lane);",
        "      if (fresh_.get(lane)) turns_[lane].finished = turns_[lane].right = !any.get(lane);",
        ("test_projection_banded.py::test_who_starts_from_the_answer_has_it_after_two_steps",),
        "lanes forget the guess they were given",
    ),
    Mutant(
        "core/source/projection/certificate.hpp",
        "return where(nan, all<Number>(INFINITY), worst);",
        "return worst;",
        ("test_projection_banded.py::test_what_is_not_a_number_is_not_certified",),
        "what is not a number is certified",
    ),
    Mutant(
        "core/source/projection/cholesky.cpp",
        "    chosen_[i] = chosen_[i + 1];",
        "    chosen_[i] = chosen_[i];",
        NEAREST,
        "a row that leaves the factor stays in its list",
    ),
    Mutant(
        "core/source/projection/cholesky.cpp",
        "  factored_ = nullptr;\n",
        "",
        ("test_core_operators.py::test_a_sample_is_solved_to_the_last_bit_as_if_it_were_alone",),
        "a factor that the exact method changed is kept for the next sample",
    ),
    Mutant(
        "core/source/projection/cholesky.cpp",
        "again ? same - same % 2 : 0",
        "again ? same : 0",
        ("test_core_operators.py::test_a_sample_is_solved_to_the_last_bit_as_if_it_were_alone",),
        "what a sample is rounded to depends on the sample before it",
    ),
    Mutant(
        "core/source/projection/cholesky.cpp",
        "b < std::min(a + 3, k_)",
        "b < a + 3",
        ("test_core_operators.py::test_rows_that_join_those_kept_from_the_last_sample_stay_inside_the_factor",),
        "products of rows beyond the last are written into the factor, and past its end",
    ),
    Mutant(
        "core/source/projection/cholesky.cpp",
        "rows.is_dense() && factored_ == rows.data;",
        "rows.is_dense() && factored_ != nullptr;",
        ("test_core_operators.py::test_every_sample_may_have_rows_of_its_own",),
        "the factor of another sample's rows is kept",
    ),
    Mutant(
        "core/source/layer/splitting.cpp",
        "then[i] = gt[i] - turned + through_clamp(i, turned + turned - relaxed * gt[i]);",
        "then[i] = gt[i] - turned + through_clamp(i, turned + turned);",
        ("test_core_operators.py::test_splitting_and_its_gradient_are_those_of_the_definition",),
        "the backward pass of the splitting forgets that w is subtracted",
    ),
    Mutant(
        "core/source/layer/splitting.cpp",
        "if (marks[lane] != T(0)) run(of<double>(), first + lane, 1);",
        "",
        ("test_core_operators.py::test_a_splitting_that_overflows_in_single_precision_is_repeated_in_double",),
        "what overflows in single precision comes out as no number",
    ),
    Mutant(
        "core/source/layer/splitting.cpp",
        "t[i] = where((low[i] <= low[i]) & (high[i] <= high[i]), t[i], none);",
        "t[i] = where(low[i] <= low[i], t[i], t[i]);",
        ("test_core_operators.py::test_a_sample_that_is_not_a_number_stays_none_and_leaves_the_others",),
        "a bound that is not a number counts as none",
    ),
]
