"""Faults in densities: log-determinants, inverses, the uniform law."""

from tests.mutants import Mutant

CONTRACT = "test_distributions.py::test_the_log_determinant_is_autograds_and_the_inverse_is_exact"

MUTANTS = [
    Mutant(
        "distributions/block_maps.py",
        "        return (self.coefficients + SMOOTHNESS) * self._factor",
        "        return self.coefficients * self._factor",
        (CONTRACT,),
        "the radial log-determinant forgets the derivative along the ray",
    ),
    Mutant(
        "distributions/block_maps.py",
        "        left = left.clamp_min(torch.finfo(x.dtype).eps / 4)\n",
        "",
        ("test_distributions.py::test_float32_near_the_boundary_stays_finite_and_right",),
        "points on the boundary have infinite coefficients",
    ),
    Mutant(
        "distributions/block_maps.py",
        'return logsigmoid(c[..., : len(k["b"])]).sum(-1) + self.log_volume',
        'return logsigmoid(-c[..., : len(k["b"])]).sum(-1) + self.log_volume',
        (CONTRACT,),
        "the log-determinant of softplus has the wrong sign inside",
    ),
    Mutant(
        "distributions/block_maps.py",
        "1))], -1).amax(-1, keepdim=True))",
        "1))], -1).abs().amax(-1, keepdim=True))",
        (CONTRACT,),
        "the gauge of a ray of the set is not 0",
    ),
    Mutant(
        "distributions/block_maps.py",
        " + np.log(k + 1))",
        ")",
        (CONTRACT,),
        "the simplex' density is off by a constant",
    ),
    Mutant(
        "distributions/transform.py",
        "torch.as_tensor(np.argsort(order))",
        "torch.as_tensor(order)",
        (CONTRACT,),
        "blocks come out in their own order",
    ),
    Mutant(
        "distributions/transform.py",
        "            log_volume = -back.diagonal(",
        "            log_volume = back.diagonal(",
        ("test_distributions.py::test_rows_of_the_sample_have_a_density_and_gradients",),
        "round coordinates are counted the wrong way",
    ),
    Mutant(
        "distributions/on_polyhedron.py",
        "exponential_()",
        "uniform_()",
        ("test_distributions.py::test_uniform_points_are_uniform",),
        "weights on a simplex are not uniform",
    ),
    Mutant(
        "distributions/on_polyhedron.py",
        "torch.multinomial(self.chances,",
        "torch.multinomial(torch.ones_like(self.chances),",
        ("test_distributions.py::test_uniform_points_are_uniform",),
        "large and small simplices are drawn alike",
    ),
    Mutant(
        "distributions/on_polyhedron.py",
        "return self.base_dist.entropy() + self",
        "return self.base_dist.entropy() - self",
        ("test_distributions.py::test_the_entropy_is_that_of_the_samples",),
        "the entropy has the log-determinant's sign wrong",
    ),
    Mutant(
        "distributions/transform.py",
        ".contains(x, A=A, b=b)",
        ".contains(x, 1e-3, A=A, b=b)",
        ("test_distributions.py::test_rows_of_the_sample_are_checked_as_contains_does",),
        "rows of the sample are checked at a thousandth",
    ),
    Mutant(
        "distributions/transform.py",
        "        outside = ~(slack > 0).all(-1)",
        "        outside = (slack <= 0).any(-1)",
        ("test_distributions.py::test_what_is_no_set_no_base_or_no_row_is_refused_or_served",),
        "rows that are not numbers pass",
    ),
    Mutant(
        "distributions/on_polyhedron.py",
        "return self.into(self.base_dist.mode)",
        "return self.into(self.base_dist.sample())",
        ("test_distributions.py::test_the_mode_is_the_image_of_the_bases_mode_at_every_call",),
        "the deterministic action is drawn",
    ),
    Mutant(
        "distributions/transform.py",
        "with torch.inference_mode(False):",
        "with torch.inference_mode(torch.is_inference_mode_enabled()):",
        ("test_distributions.py::test_a_first_use_in_inference_leaves_gradients_to_later_ones",),
        "constants that are made in inference serve no gradient",
    ),
]
