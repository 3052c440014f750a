"""Faults in the layers: gauge, sides of the sample, block order, strict closings, checkpoints, folding."""

from tests.mutants import Mutant

LAYER, TORCH, STRICT = ("test_layer.py",), ("test_layer_pytorch.py",), ("test_strict.py",)
PINS, MARGINS = ("test_pins.py",), ("test_strict_margins.py",)
MUTANTS = [
    Mutant(
        "nn/gauge.py",
        "        for k, sign in enumerate((1.0, -1.0)):",
        "        for k, sign in enumerate((-1.0, 1.0)):",
        LAYER,
        "upper and lower bounds are swapped in the gauge",
    ),
    Mutant(
        "nn/gauge.py",
        "        return -y * self.lower if self.bounded else torch.zeros_like(y)",
        "        return y * self.lower if self.bounded else torch.zeros_like(y)",
        LAYER,
        "lower bounds are met on the wrong side",
    ),
    Mutant(
        "nn/gauge.py",
        "    outside = ~(slack > 0)",
        "    outside = slack < 0",
        (*LAYER, *PINS),
        "a sample without slack at the base point is not refused",
    ),
    Mutant(
        "nn/gauge.py",
        "        return parts[0] if len(parts) == 1 else torch.maximum(*parts)",
        "        return parts[0]",
        LAYER,
        "bounds are forgotten beside rows",
    ),
    Mutant(
        "nn/gauge.py",
        "    return np.sort(by_length[: int(cost.argmin())])",
        "    return by_length[: int(cost.argmin())][::-1]",
        (*LAYER, *PINS),
        "gathered rows stand in another order than their slacks",
    ),
    Mutant(
        "nn/sides.py",
        "        return torch.where(self.mirrored, -high, low), torch.where(self.mirrored, -low, high)",
        "        return low, high",
        PINS,
        "sample-wise bounds are not swapped on mirror images",
    ),
    Mutant(
        "nn/event_order.py",
        '        self.index("inverse", np.argsort(order))',
        '        self.index("inverse", order)',
        PINS,
        "a general block order is applied instead of undone",
    ),
    Mutant(
        "nn/event_order.py",
        "        return flat if self.in_order else flat.index_select(-1, self.order)",
        "        return flat if self.in_order else flat.index_select(-1, self.inverse)",
        (*LAYER, *PINS),
        "points go to block order by the wrong permutation",
    ),
    Mutant(
        "nn/strict.py",
        "        return u * (self.at_base + torch.finfo(dtype).tiny * self.steepest) + 16 * EPS",
        "        return 16 * EPS",
        STRICT,
        "the strict loss forgets the base point's rounding",
    ),
    Mutant(
        "nn/strict.py",
        "    return np.asarray(rhs - matrix @ point - (np.diff(matrix.indptr) + 8) * 2 * EPS * size)",
        "    return np.asarray(rhs - matrix @ point)",
        MARGINS,
        "a slack is not a lower bound any more",
    ),
    # Without its factor 1 - 2^-20 the gain along a ray is still a lower bound: the two roundings it covers are within
    # the (n + 8) 2ε that slack_below has taken off already. An equivalent mutant, so it is not listed.
    Mutant(
        "nn/strict.py",
        "margin, limit, tiny = gamma(self.entries) + 3 * roundoff(dtype)",
        "margin, limit, tiny = gamma(self.entries) + roundoff(dtype)",
        MARGINS,
        "the pull grants one rounding for three",
    ),
    Mutant(
        "nn/strict.py",
        "torch.maximum(excess, (self.tight(x) + tight_slope * farthest) / scale)",
        "torch.maximum(excess, self.tight(x) / scale)",
        STRICT,
        "rows through the apex have no margin",
    ),
    Mutant(
        "nn/strict.py",
        "    towards = torch.tensor(largest if up else -largest, dtype=dtype)",
        "    towards = torch.tensor(-largest if up else largest, dtype=dtype)",
        STRICT,
        "interval ends are rounded outwards",
    ),
    Mutant(
        "nn/closing.py",
        "        gauge = self.gauge(y, self.gauge.slack_of(base, sides) if sides.given else None)",
        "        gauge = self.gauge(y)",
        LAYER,
        "sides of the sample are ignored by the shrink",
    ),
    Mutant(
        "nn/checkpoint.py",
        "        if mark[2:].hex() != self.polyhedron.fingerprint:",
        "        if False:",
        TORCH,
        "another set's checkpoint is accepted",
    ),
    Mutant(
        "nn/constants.py",
        "        own = {key: getattr(self, name) for key, name in saved.items()}",
        "        own = {}",
        (*TORCH, *PINS),
        "a checkpoint in a shorter dtype overwrites the geometry",
    ),
    Mutant(
        "nn/constants.py",
        "        if changed:  # also from",
        "        if False:  # also from",
        TORCH,
        "a cast keeps rounded geometry",
    ),
    Mutant(
        "nn/fold.py",
        "    shift = norm.bias.double() - norm.running_mean.double() * slope",
        "    shift = norm.bias.double() + norm.running_mean.double() * slope",
        LAYER,
        "folding adds the running mean",
    ),
    Mutant(
        "nn/block.py",
        "        return (x * self.sign.to(how.dtype) if self.mirrored else x).flatten(-2)",
        "        return x.flatten(-2)",
        LAYER,
        "mirror images are not turned back",
    ),
]
