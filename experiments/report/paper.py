"""The paper's own numbers, and why ours differ where they do."""

from __future__ import annotations

PROJECTION_GAP = {"paper, with box delay": "within 9 %", "ttp": "within 1 %"}

TIMES = {  # table 1: mean and standard deviation of 100 runs of 59000 samples, batch 256, Nvidia Titan X
    ("projection", "ttp, OSQP loop"): "82 ± 1 s",
    ("projection", "paper"): "0.46 ± 0.02 s",
    ("vae", "ttp, OSQP loop"): "40 ± 1 s",
    ("vae", "paper"): "0.75 ± 0.04 s",
}
RATIOS = {"projection": 178, "vae": 53}
CONVERSION = "less than 1 s"

WHY = {
    "projection": (
        "The paper trained for hundreds of epochs on a GPU and shows 10 runs; the settings in the table say how long "
        "ours were trained. The gap is that of the best epoch on the validation set, averaged over the runs, as in the "
        "paper. The optimum is the exact projection onto tiles and box: 0.35555 per pixel."
    ),
    "vae": (
        "The paper shows pictures and gives no number for its VAE. The ELBO here has a unit normal likelihood around "
        "the decoded image, without its constant, because the paper's decoder leaves [-1, 1] while its box is delayed."
    ),
    "timing": (
        "The paper ran its networks on an Nvidia Titan X and OSQP on the CPU beside it; here everything runs on one "
        "CPU, so compare the ratios, not the seconds. Much of the paper's ratio belongs to the solver loop: a "
        "projection that knows the tiles is itself far faster, and is listed beside it."
    ),
}
