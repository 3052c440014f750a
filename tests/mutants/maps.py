"""Faults in the steps of a map: shrink, cone, simplex, approach, orders, the strict bounds."""

from tests.mutants import Mutant

MUTANTS = [
    Mutant(
        "maps/shrink.py",
        "return gauge.clamp_min(1.0).reciprocal()",
        "return gauge.clamp_min(1.01).reciprocal()",
        ("test_maps.py::test_shrinking_is_the_identity_inside_and_ends_on_the_boundary",),
        "points inside are shrunk too",
    ),
    Mutant(
        "maps/shrink.py",
        "    below = (1.0 + small_side**SMOOTHNESS) ** (-1.0 / SMOOTHNESS)",
        "    below = (1.0 + small_side**SMOOTHNESS) ** (1.0 / SMOOTHNESS)",
        (
            "test_maps.py::test_the_smooth_factor_keeps_a_gradient_where_the_plain_one_has_none",
            "test_layer.py::test_the_smooth_shrink_stays_inside_and_keeps_a_full_rank_jacobian",
        ),
        "the smooth shrink stretches",
    ),
    Mutant(
        "maps/shrink.py",
        "    y = torch.minimum(torch.maximum(y, lower), upper)\n",
        "    y = torch.maximum(y, lower)\n",
        ("test_maps_steps.py::test_a_broken_bound_moves_no_other_coordinate",),
        "upper bounds are not clamped before the shrink",
    ),
    Mutant(
        "maps/conic.py",
        "    return u - (u @ basis) @ basis.mT",
        "    return u - 0.999 * (u @ basis) @ basis.mT",
        ("test_maps.py::test_without_leaves_nothing_in_the_span",),
        "a little of the span is left",
    ),
    Mutant(
        "maps/conic.py",
        "    return without(torch.where(lost, torch.zeros_like(once), once), basis)",
        "    return once",
        (
            "test_strict.py::test_equalities_hold_within_the_stated_ulps",
            "test_strict.py::test_random_equalities_hold_within_the_stated_ulps",
        ),
        "what is left of a vector may be rounding errors alone",
    ),
    Mutant(
        "maps/conic.py",
        "    weights = torch.relu(values) if nonnegative is torch.relu else values + nonnegative(-values)",
        "    weights = torch.relu(values) if nonnegative is torch.relu else values - nonnegative(-values)",
        (
            "test_maps.py::test_a_simplicial_cone_keeps_what_is_inside",
            "test_layer.py::test_rays_are_inside_too_and_a_set_without_an_apex_is_told_what_can_serve_it",
        ),
        "rays are followed backwards",
    ),
    Mutant(
        "maps/convex_weights.py",
        "    excess = ordered.cumsum(-1) - 1.0",
        "    excess = ordered.cumsum(-1) - 1.001",
        ("test_maps.py::test_convex_weights_lie_on_the_simplex_at_every_scale",),
        "sparsemax sums to more than 1",
    ),
    Mutant(
        "maps/convex_weights.py",
        "    root = torch.where(inner > 0, inner, torch.ones_like(inner)).sqrt() * (inner > 0)",
        "    root = torch.where(inner > 0, inner, torch.ones_like(inner)).sqrt()",
        (
            "test_maps.py::test_entmax_solves_its_own_equation",
            "test_maps.py::test_convex_weights_lie_on_the_simplex_at_every_scale",
        ),
        "entmax takes entries outside its support",
    ),
    Mutant(
        "maps/convex_weights.py",
        "    z = z - z.amax(-1, keepdim=True)  # keeps",
        "    z = z - 0 * z.amax(-1, keepdim=True)  # keeps",
        ("test_maps.py::test_convex_weights_lie_on_the_simplex_at_every_scale",),
        "sparsemax loses its 1 beside huge coefficients",
    ),
    Mutant(
        "maps/approach.py",
        "    pull = step * (x @ rows.mT - rhs)",
        "    pull = step * (x @ rows.mT + rhs)",
        ("test_maps_steps.py::test_many_dual_steps_end_at_the_nearest_point",),
        "a dual step has the wrong sign of the right-hand side",
    ),
    Mutant(
        "maps/approach.py",
        "        return torch.relu(multipliers)\n",
        "        return multipliers\n",
        ("test_maps_steps.py::test_many_dual_steps_end_at_the_nearest_point",),
        "multipliers of inequalities may be negative",
    ),
    Mutant(
        "maps/approach.py",
        "        over = clamped(x - ahead @ rows, lower, upper) @ rows.mT - rhs",
        "        over = (x - ahead @ rows) @ rows.mT - rhs",
        ("test_maps_steps.py::test_many_dual_steps_end_at_the_nearest_point",),
        "dual steps forget the bounds",
    ),
    Mutant(
        "maps/order.py",
        "        below = torch.cummin(below.flip(axis), axis).values.flip(axis)",
        "        below = torch.cummin(below, axis).values",
        (
            "test_maps_steps.py::test_grid_orders_are_kept_exactly_at_every_scale",
            "test_maps_steps.py::test_an_order_is_the_identity_inside_and_never_spreads_a_difference",
        ),
        "the minorant runs the wrong way",
    ),
    Mutant(
        "maps/order.py",
        "    return 0.5 * above + 0.5 * below",
        "    return 0.4 * above + 0.6 * below",
        (
            "test_maps_steps.py::test_an_order_is_the_identity_inside_and_never_spreads_a_difference",
            "test_maps_steps.py::test_a_grid_as_pairs_gives_what_the_axes_give",
            "test_pins.py::test_an_order_is_met_halfway",
        ),
        "not halfway, so differences may grow",
    ),
    Mutant(
        "maps/clipped_shift.py",
        "        shift = shift if equality else shift.clamp_min(0.0)",
        "        shift = shift if equality else shift",
        ("test_maps_steps.py::test_one_row_and_bounds_have_their_nearest_point",),
        "a row that holds pulls the point towards it",
    ),
    Mutant(
        "maps/strict.py",
        "    return torch.finfo(dtype).eps / 2 + 16 * EPS",
        "    return torch.finfo(dtype).eps / 2",
        ("test_strict_constants.py::test_the_last_step_is_granted_what_it_loses",),
        "the roundoff leaves out the float64 steps",
    ),
    Mutant(
        "maps/strict.py",
        "    return (n + 16) * EPS / (1 - (n + 16) * EPS)",
        "    return n * EPS / (1 - n * EPS)",
        ("test_strict_constants.py::test_a_product_with_divided_rows_is_granted_what_it_loses",),
        "a dot product's bound leaves out the other steps",
    ),
    Mutant(
        "maps/strict.py",
        "    bound = torch.maximum(gauge + margin * size, size / limit)",
        "    bound = torch.maximum(gauge, size / limit)",
        (
            "test_strict.py::test_every_inequality_holds_exactly",
            "test_strict.py::test_the_fuzzer_finds_nothing_and_finds_a_broken_bound",
        ),
        "the strict shrink has no margin",
    ),
    Mutant(
        "maps/strict.py",
        "    return kept / torch.maximum(bound, kept)",
        "    return 1.0 / bound.clamp_min(1.0)",
        ("test_strict.py::test_every_inequality_holds_exactly",),
        "the strict shrink grants nothing for rounding at the base point",
    ),
    Mutant(
        "maps/strict.py",
        "    return torch.where(excess == 0, x, moved)",
        "    return moved",
        ("test_maps.py::test_a_pull_leaves_points_inside_untouched_bit_by_bit",),
        "a point that need not move is rounded",
    ),
]
