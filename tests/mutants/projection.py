"""Faults in the nearest point: certificate, emptiness, closed forms, derivative, standard form."""

from tests.mutants import Mutant

MUTANTS = [
    Mutant(
        "projection/certificate.py",
        "        worst = torch.maximum(worst, (-multipliers[:, :m] / reach).amax(1))",
        "        pass",
        ("test_pins_projection.py::test_the_certificate_sees_each_way_to_be_wrong",),
        "the certificate accepts negative multipliers",
    ),
    Mutant(
        "projection/certificate.py",
        "        worst = torch.maximum(worst, (torch.where(met, excess.abs(), excess.clamp_min(0)) / terms).amax(1))",
        "        pass",
        ("test_pins_projection.py::test_the_certificate_sees_each_way_to_be_wrong",),
        "the certificate does not look at the rows",
    ),
    Mutant(
        "projection/certificate.py",
        "    return torch.where(worst.isnan(), torch.inf, worst)",
        "    return worst",
        ("test_pins_projection.py::test_the_certificate_sees_each_way_to_be_wrong",),
        "NaN counts as certified",
    ),
    Mutant(
        "projection/certificate.py",
        "    worst = (((z - aim).abs() - rounding).clamp_min(0) / (size + rounding)).amax(1)",
        "    worst = (0 * (z - aim).abs() / (size + rounding)).amax(1)",
        ("test_pins_projection.py::test_the_certificate_sees_each_way_to_be_wrong",),
        "any feasible point is certified as the nearest",
    ),
    Mutant(
        "projection/certificate.py",
        "    doubtful = [not is_empty(problem, int(n)) for n in claimed]",
        "    doubtful = [False for n in claimed]",
        ("test_pins_projection.py::test_a_claim_that_a_set_is_empty_is_not_believed",),
        "every claim that a set is empty is believed",
    ),
    Mutant(
        "projection/certificate.py",
        "    snap = small & (better < error)",
        "    snap = small & (better < 0)",
        (
            "test_projection.py::test_an_answer_is_inside_and_certified_at_every_scale",
            "test_pins_projection.py::test_next_to_the_apex_the_apex_is_certified",
        ),
        "a point next to the apex stays uncertified",
    ),
    Mutant(
        "projection/tolerances.py",
        "TOLERANCE = 1e-10 ",
        "TOLERANCE = 1e-6 ",
        ("test_pins_projection.py::test_an_answer_is_one_up_to_the_stated_residual",),
        "answers are accepted at a thousand times the promised residual",
    ),
    Mutant(
        "projection/standard_form.py",
        "        unit, c, norms = _unit_rows(inequalities, root)",
        "        unit, _, norms = _unit_rows(inequalities, root)\n        c = inequalities.rhs",
        ("test_pins_projection.py::test_a_row_of_any_length_is_met_at_its_right_hand_side",),
        "right-hand sides are not divided by the rows' lengths",
    ),
    Mutant(
        "projection/standard_form.py",
        "sp.csr_array(rows.matrix @ sp.diags_array(1 / root))",
        "sp.csr_array(rows.matrix @ sp.diags_array(root))",
        ("test_projection.py::test_weights_change_the_metric_and_nothing_else",),
        "weights scale the rows the wrong way",
    ),
    Mutant(
        "projection/block.py",
        "        return v if root is None else v / root",
        "        return v if root is None else v * root",
        ("test_projection.py::test_weights_change_the_metric_and_nothing_else",),
        "weights are applied twice",
    ),
    Mutant(
        "projection/block.py",
        "            c[:, :m] = self.rows_of(sides.b, own.inequalities, n) / own.norms[:m]",
        "            c[:, :m] = self.rows_of(sides.b, own.inequalities, n)",
        ("test_projection_sides.py::test_sample_wise_sides_give_what_each_set_alone_gives",),
        "sample-wise b is not divided by the rows' lengths",
    ),
    Mutant(
        "projection/derivative.py",
        "        for bound, sign in ((full[2], -1), (full[3], 1)):",
        "        for bound, sign in ((full[2], 1), (full[3], -1)):",
        ("test_projection_sides.py::test_gradients_reach_every_right_hand_side",),
        "the gradients of lower and upper are swapped",
    ),
    Mutant(
        "projection/derivative.py",
        "        block.scatter(torch.where(at_bound == 0, r, 0.0), out)",
        "        block.scatter(r, out)",
        ("test_projection.py::test_the_gradient_is_that_of_finite_differences_once_and_twice",),
        "gradients flow through coordinates that sit at a bound",
    ),
    Mutant(
        "projection/problem.py",
        "        active[:, self.m :] = True",
        "        pass",
        (
            "test_projection.py::test_the_gradient_is_that_of_finite_differences_once_and_twice",
            "test_pins_projection.py::test_an_equality_without_a_multiplier_still_holds_the_gradient",
        ),
        "equalities without a multiplier count as absent",
    ),
    Mutant(
        "projection/matrix.py",
        "        return (transposed @ w.mT).mT if self.sparse else w @ matrix",
        "        return (transposed @ w.mT).mT * 0.5 if self.sparse else w @ matrix",
        ("test_pins_projection.py::test_sparse_rows_are_the_same_map_as_dense_ones",),
        "sparse rows are transposed wrongly",
    ),
    Mutant(
        "projection/solvers/chain.py",
        "            shift = torch.nn.functional.pad(-steps.cumsum(1), (1, 0))",
        "            shift = torch.nn.functional.pad(steps.cumsum(1), (1, 0))",
        ("test_pins_projection.py::test_closed_forms_answer_without_a_second_solver",),
        "a chain's steps have the wrong sign and a fallback answers",
    ),
    # ROUNDS = 1 in solvers/clipped_shift.py is not listed: far points are solved from close by (solve.py), so that no
    # answer depends on its further rounds any more.
    Mutant(
        "projection/solvers/clipped_shift.py",
        "    return above | (most < c - slack) if problem.m == 0 else above",
        "    return above",
        ("test_pins_projection.py::test_an_equality_out_of_reach_is_seen_by_the_closed_form_itself",),
        "an equality out of reach from below is not seen as empty",
    ),
    Mutant(
        "projection/solvers/affine.py",
        "        for _ in range(3):  # refinement",
        "        for _ in range(1):  # refinement",
        ("test_pins_projection.py::test_far_points_meet_equalities_without_a_second_solver",),
        "equalities are not met to rounding",
    ),
    Mutant(
        "projection/solve.py",
        "    again.status[(again.status == SOLVED) & ~(again.residual <= TOLERANCE)] = UNSOLVED",
        "    pass",
        ("test_pins_projection.py::test_a_second_solver_is_believed_only_up_to_the_stated_residual",),
        "a fallback's answer is taken whatever its residual",
    ),
]
