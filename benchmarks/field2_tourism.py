"""Australian domestic tourism: forecasts that add up, reconciled as in Nixtla's example or trained in the set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import rayhull as rh
from benchmarks.field2_labels import Row, Todo

Array = np.ndarray[Any, Any]
SPEC = [(), ("State",), ("Purpose",), ("State", "Region"), ("State", "Purpose"), ("State", "Region", "Purpose")]
LEVELS = {"Total": (), "Purpose": ("Purpose",), "State": ("State",), "Regions": ("State", "Region"), "Bottom": SPEC[-1]}


def hierarchy_of(bottom: list[dict[str, str]]) -> tuple[Array, list[tuple[str, ...]]]:
    """The summing matrix (series, bottom series) of all levels, and the level of each series."""
    rows, levels = [], []
    for level in SPEC:
        keys = [tuple(names[part] for part in level) for names in bottom]
        for key in sorted(set(keys)):
            rows.append([int(other == key) for other in keys])
            levels.append(level)
    return np.array(rows), levels


def tourism_series(path: Path) -> tuple[Array, list[dict[str, str]]]:
    """Trips (quarters, bottom series), and what each series is called; in the order of their names."""
    import pandas as pd

    table = pd.read_csv(path).pivot_table(index="Quarter", columns=["State", "Region", "Purpose"], values="Trips")
    names = [dict(zip(("State", "Region", "Purpose"), key, strict=True)) for key in table.columns]
    return table.to_numpy(), names


def base_forecasts(folder: Path, S: Array, series: Array, horizon: int = 8) -> dict[str, Array]:
    """Nixtla's AutoETS (ZZA, season 4) of every series, "base" (horizon, n), its "residuals" (quarters, n), and what
    Nixtla's MinTrace makes of it: "ols", "wls_var", "mint_shrink", and with "+" without negative numbers.

    Their packages are made for an environment of their own: what they say is kept in the folder.
    """
    kept = folder / "tourism_base.npz"
    if not kept.exists():
        try:
            from hierarchicalforecast.methods import MinTrace
            from statsforecast.models import AutoETS
        except ImportError as error:
            raise SystemExit(
                f"{kept} is missing, and {error}: pip install statsforecast hierarchicalforecast."
            ) from None
        made = [AutoETS(season_length=4, model="ZZA").forecast(y=y, h=horizon, fitted=True) for y in series.T]
        base, fitted = (np.stack([own[part] for own in made], 1) for part in ("mean", "fitted"))
        given = {"S": S.astype(float), "y_insample": series.T, "y_hat_insample": fitted.T}
        theirs = {
            name + "+" * sign: MinTrace(name, nonnegative=sign).fit_predict(y_hat=base.T.copy(), **given)["mean"].T
            for name in METRICS
            for sign in (False, True)
        }
        np.savez(kept, base=base, residuals=series - fitted, **theirs)
    return dict(np.load(kept))


def shrunk_covariance(residuals: Array, ridge: float = 2e-8) -> Array:
    """MinT's covariance of residuals (t, n): correlations shrunk towards 0 by Schäfer and Strimmer's share."""
    t, _ = residuals.shape
    centred = residuals - residuals.mean(0)
    scaled = centred / residuals.std(0, ddof=1)
    covariance, correlation = centred.T @ centred / (t - 1), scaled.T @ scaled / (t - 1)
    spread = (scaled**2).T @ scaled**2 - (scaled.T @ scaled) ** 2 / t
    np.fill_diagonal(spread, 0.0)
    off = correlation - np.diag(np.diag(correlation))
    share = float(np.clip(spread.sum() * t / (t - 1) ** 3 / (off**2).sum(), 0, 1))
    shrunk = (1 - share) * covariance + share * np.diag(np.diag(covariance))
    return np.asarray(shrunk + ridge * np.eye(len(shrunk)))


METRICS: dict[str, Callable[[Array], Array | None]] = {  # W of (x - base)ᵀ W (x - base), from residuals
    "ols": lambda residuals: None,
    "wls_var": lambda residuals: 1 / (residuals**2).mean(0),
    "mint_shrink": lambda residuals: _symmetric(np.linalg.inv(shrunk_covariance(residuals))),
}


def _symmetric(matrix: Array) -> Array:
    return np.asarray((matrix + matrix.T) / 2)


def reconciliations(S: Array, levels: list[tuple[str, ...]], found: dict[str, Array], truth: Array) -> list[Row]:
    P, base = rh.reconciled(S), found["base"]
    positive = P & rh.nonnegative(len(S))
    bottom = base[:, [i for i, level in enumerate(levels) if level == SPEC[-1]]]
    rows = [_judged("base", base, levels, truth), _judged("bottom-up", bottom @ S.T, levels, truth)]
    for name, metric in METRICS.items():
        W = metric(found["residuals"])
        rows.append(_judged(name, rh.project(P, base, weights=W), levels, truth))
        without = {f"{name}, non-negative": rh.project(positive, base, weights=W)}
        if name + "+" in found:
            without[f"{name}, non-negative, Nixtla"] = found[name + "+"]
        rows += [_judged(label, x, levels, truth) | _beside_nnls(S, base, W, x) for label, x in without.items()]
    return rows


def _judged(name: str, x: Array, levels: list[tuple[str, ...]], truth: Array) -> Row:
    """Root mean square errors: of each series over the horizon, their mean over a level; the first total."""
    each = np.sqrt(((x - truth) ** 2).mean(0))
    own = {title: float(each[[level == parts for level in levels]].mean()) for title, parts in LEVELS.items()}
    used = [level in LEVELS.values() for level in levels]
    return (
        {"method": name} | own | {"Overall": float(each[used].mean()), "least": float(x.min()), "first": float(x[0, 0])}
    )


def _beside_nnls(S: Array, base: Array, W: Array | None, x: Array) -> Row:
    """The objective (x - base)ᵀ W (x - base), relative to that of SciPy's non-negative least squares."""
    from scipy.optimize import nnls

    root = np.eye(len(S)) if W is None else np.diag(np.sqrt(W)) if W.ndim == 1 else np.linalg.cholesky(W).T
    best = sum(nnls(root @ S, root @ y, maxiter=100_000)[1] ** 2 for y in base)
    own = float((((x - base) @ root.T) ** 2).sum())
    return {"objective": own, "beside NNLS": own / best - 1}


# -- trained through the layer -----------------------------------------------------------------------------------------

LAGS, HORIZON, WIDTH = 12, 8, 64
EPOCHS, RATE, WINDOWS = 10, 1e-3, 9  # chosen on quarters 65 to 72; windows in a batch


class Forecaster(nn.Module):
    """One network for every series: the last twelve quarters → corrections of seasonal means, in the series' units.

    ``into`` takes all forecasts of a quarter, in units of ``scale``, to what comes out.
    """

    def __init__(self, scale: Tensor, into: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.scale, self.into = scale, into
        layers = (nn.Linear(LAGS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, HORIZON))
        self.body = nn.Sequential(*layers).to(scale)
        nn.init.zeros_(layers[-1].weight)  # starts as the seasonal mean
        nn.init.zeros_(layers[-1].bias)

    def forward(self, x: Tensor) -> Tensor:
        """Shape: (windows, LAGS, n) → (windows, HORIZON, n)"""
        unit = x[:, -4:].mean(1, keepdim=True) + 0.05 * self.scale
        z = (x / unit).mT
        years = z.unflatten(-1, (-1, 4))
        seasonal = (years - years.mean(-1, keepdim=True)).mean(-2) + z[..., -4:].mean(-1, keepdim=True)
        return self.into((seasonal.repeat(1, 1, HORIZON // 4) + self.body(z)).mT * unit / self.scale)


def forecaster(past: Tensor, into: Callable[[Tensor], Tensor], seed: int, epochs: int = EPOCHS) -> Forecaster:
    """Trained on all windows of the past (quarters, n): the mean root mean square error over the series."""
    torch.manual_seed(seed)
    network, span = Forecaster(past.mean(0), into), LAGS + HORIZON
    windows = past.unfold(0, span, 1).mT
    adam = torch.optim.Adam(network.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, epochs * -(-len(windows) // WINDOWS))
    for _ in range(epochs):
        for batch in torch.randperm(len(windows)).split(WINDOWS):
            adam.zero_grad()
            missed = network(windows[batch, :LAGS]) - windows[batch, LAGS:]
            (missed.square().mean(1) + 1e-9).sqrt().mean().backward()
            adam.step()
            schedule.step()
    return network.eval()


LEARNED = ("network", "network, reconciled after training", "network, trained through the layer")


def learned(S: Array, levels: list[tuple[str, ...]], every: Array, todo: Todo) -> Iterator[Row]:
    """Errors over the last eight quarters of each way to train and seed; reconciled ones without negative numbers."""
    past, truth = torch.as_tensor(every[:-HORIZON]), every[-HORIZON:]
    P, scale = rh.reconciled(S) & rh.nonnegative(len(S)), past.mean(0)
    layer = rh.MapInto(P, units=(0.0, scale.numpy()), dtype=torch.float64)
    for seed, name in todo(*LEARNED):
        network = forecaster(past, layer if name == LEARNED[2] else lambda c: c * scale, seed)
        with torch.no_grad():
            x = network(past[None, -LAGS:])[0].numpy()
        if name == LEARNED[1]:
            x = rh.project(P, x, weights=scale.numpy() ** -2)  # as the layer
        yield _judged(name, x, levels, truth) | {"seed": seed, "violation": float(P.violation(x).max())}
