"""The studies: one file each. The three of the paper, and small ones beside them."""

SMALL: dict[str, tuple[str, str]] = {
    "vertices": (
        "General A x <= b: convex weights of vertices",
        "The learned projection onto a cut cube of dimension d, with about 2^d vertices. The paper reports slow "
        "convergence with a softmax over the vertices. It grows with their number: an answer on a face needs exact "
        "zeros for all other vertices, which a softmax approaches and never reaches. A normalised softplus falls off "
        "more gently and helps; sparsemax and entmax do give zeros, but a vertex at zero gets no gradient and does not "
        "come back. Shrinking needs no vertices and is the cheapest, but one scale for the whole point costs more the "
        "more coordinates share it; the nearest point is best, and does not need the vertices either.",
    ),
    "simplex": (
        "Shares that sum to one (Briq et al. 2018)",
        "Shares over 20 classes, most of them exactly 0. Briq et al.'s layer is the row projection: FC, then the "
        "nearest point of the simplex. A softmax, which never gives a 0, does as well in squared error.",
    ),
    "shapes": (
        "Monotone and convex outputs",
        "A network cleans noisy curves of 50 points; the hard methods give curves of the stated shape for every input. "
        "Rays of long chains are ill-conditioned, those of convex curves most of all: the map through rays learns "
        "slowly there, and training through the nearest point is the better way.",
    ),
    "classifiers": (
        "Binary classifiers as constraints",
        "Images to which each of five linear classifiers (is it a 0, ..., a 4) says no: the learned projection onto "
        "that set and the box. No two pixels are independent here, so shrinking has one scale for the whole image and "
        "loses ten times as much as the nearest point.",
    ),
    "optnet": (
        "OptNet's layer on 8 x 8 digits",
        "Training through a generic quadratic program, beside the projection that knows the tiles and "
        "the map into the set.",
    ),
}
"""Title and one paragraph of each small study, by name."""
