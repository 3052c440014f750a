"""The paper's own numbers."""

from __future__ import annotations

PROJECTION_GAP_PERCENT = 9
PROJECTION_GAP = {"paper, with box delay": f"within {PROJECTION_GAP_PERCENT} %", "ttp": "within 1 %"}

TIMES = {  # table 1: mean and standard deviation of 100 runs of 59000 samples, batch 256, Nvidia Titan X
    ("projection", "ttp, OSQP loop"): "82 ± 1 s",
    ("projection", "paper"): "0.46 ± 0.02 s",
    ("vae", "ttp, OSQP loop"): "40 ± 1 s",
    ("vae", "paper"): "0.75 ± 0.04 s",
}
RATIOS = {"projection": 178, "vae": 53}
CONVERSION = "less than 1 s"
