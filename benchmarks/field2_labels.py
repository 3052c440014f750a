"""Labels in a hierarchy: the data sets and the networks of C-HMCNN (Giunchiglia and Lukasiewicz, NeurIPS 2020).

A class is at most as probable as each of its parents: a partial order. Their layer takes the maximum over the
descendants of a class, with a loss of its own (restated here from the paper's formulas). Ours takes the nearest
point of the order among logits; where the order is a tree, also weights of its rays among log-probabilities.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import rayhull as rh

Array = np.ndarray[Any, Any]
Row = dict[str, Any]
ROOTS = ("root", "GO0003674", "GO0005575", "GO0008150")  # every sample has them: not evaluated
DECAY, DROPOUT = 1e-5, 0.7  # as published
BATCH, RATE = 32, 4e-4  # theirs: 4 at 1e-4, at 1e-5 for other data sets than genes, which takes several times as long
PATIENCE, LONGEST = 20, 320_000  # epochs without a better score on the validation file; samples seen


def key(row: Row) -> tuple[Any, Any]:
    return row.get("method"), row.get("seed")


@dataclass(frozen=True)
class Todo:
    """Seeds wanted, of which methods (None: all), and the rows that there are."""

    seeds: int
    known: Sequence[Row] = ()
    methods: Sequence[str] | None = None

    def __call__(self, *methods: str) -> Iterator[tuple[int, str]]:
        """The runs that are left."""
        there = {key(row) for row in self.known}
        wanted = [name for name in methods if self.methods is None or name in self.methods]
        return ((seed, name) for seed in range(self.seeds) for name in wanted if (name, seed) not in there)

    @property
    def known_rate(self) -> float | None:
        return next((row["rate"] for row in self.known if "rate" in row), None)


@dataclass(frozen=True)
class Source:
    """Files of one data set, training ones first, with the network's width and epochs and the score, as published."""

    files: tuple[str, ...]
    test: str
    hidden: int
    epochs: int
    published: float
    digest: str  # the first digits of the SHA-256 of all files, one after the other
    batch: int = BATCH  # the rate is proportional to it


def _genes(name: str, hidden: int, epochs: int, published: float, digest: str) -> Source:
    files, batch = (f"{name}.train.arff", f"{name}.valid.arff"), 64 if name.endswith("GO") else BATCH
    return Source(files, f"{name}.test.arff", hidden, epochs, published, digest, batch)


SOURCES = {
    "cellcycle_FUN": _genes("cellcycle_FUN", 500, 106, 0.255, "e3c3423159cba18d"),
    "derisi_FUN": _genes("derisi_FUN", 500, 67, 0.195, "f7266c137133c008"),
    "eisen_FUN": _genes("eisen_FUN", 500, 110, 0.306, "351cdc1d63058f1c"),
    "gasch1_FUN": _genes("gasch1_FUN", 1000, 42, 0.286, "55c1ae0d9d524ae4"),
    "gasch2_FUN": _genes("gasch2_FUN", 500, 123, 0.258, "12b272a1b0af5df0"),
    "seq_FUN": _genes("seq_FUN", 2000, 13, 0.292, "8459bed976008b46"),
    "spo_FUN": _genes("spo_FUN", 250, 115, 0.215, "324230613b3e8789"),
    "cellcycle_GO": _genes("cellcycle_GO", 1000, 62, 0.413, "8cc08ec0238f2ec8"),
    "derisi_GO": _genes("derisi_GO", 500, 91, 0.370, "ef5b09f79fa02c14"),
    "eisen_GO": _genes("eisen_GO", 500, 123, 0.455, "33cb33b4c902979e"),
    "gasch1_GO": _genes("gasch1_GO", 500, 122, 0.436, "6e06efeb30734a47"),
    "gasch2_GO": _genes("gasch2_GO", 500, 177, 0.414, "6cdcbca057ed3cf4"),
    "seq_GO": _genes("seq_GO", 9000, 45, 0.446, "b34b32e35f316d53"),
    "spo_GO": _genes("spo_GO", 500, 103, 0.382, "04af30e0f907a1b6"),
    "diatoms": Source(("Diatoms_train.arff",), "Diatoms_test.arff", 2000, 474, 0.758, "a72f3b9680a49a6f"),
    "enron": Source(("Enron_corr_trainvalid.arff",), "Enron_corr_test.arff", 1000, 133, 0.756, "83b74c25d7ff0ca6"),
    "imclef07a": Source(("ImCLEF07A_Train.arff",), "ImCLEF07A_Test.arff", 1000, 592, 0.956, "68958b38275bbaa6", 64),
    "imclef07d": Source(("ImCLEF07D_Train.arff",), "ImCLEF07D_Test.arff", 1000, 588, 0.927, "2cdf9235c9fb525a", 64),
}


PLACE = "github.com/EGiunchiglia/C-HMCNN, HMC_data (all files in one folder)"


def read(folder: Path, source: Source) -> tuple[list[Labelled], Labelled]:
    """The training files and the test of a data set, after a look at their hash."""
    paths = [folder / name for name in (*source.files, source.test)]
    for path in paths:
        if not path.exists():
            raise SystemExit(f"{path} is missing: it is in {PLACE}.")
    found = hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
    if not found.startswith(source.digest):
        raise SystemExit(f"{paths[0].name}, ... have the hash {found[:16]}, expected {source.digest}: another version.")
    *train, test = (read_arff(path) for path in paths)
    return train, test


# -- files -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Labelled:
    """Features X (n, k) and labels Y (n, c) of samples, and edges (child, parent) between the classes."""

    X: Array
    Y: Array
    names: list[str]
    edges: list[tuple[int, int]]

    @cached_property
    def above(self) -> list[tuple[int, int]]:
        """Pairs of a class and one of its descendants, or itself."""
        parents: dict[int, list[int]] = {}
        for child, parent in self.edges:
            parents.setdefault(child, []).append(parent)
        return [(up, c) for c in range(len(self.names)) for up in _all_above(c, parents)]

    @property
    def evaluated(self) -> Array:
        return np.array([name not in ROOTS for name in self.names])


def _all_above(c: int, parents: dict[int, list[int]]) -> list[int]:
    seen, left = {c}, [c]
    while left:
        more = [p for p in parents.get(left.pop(), ()) if p not in seen]
        seen.update(more)
        left += more
    return sorted(seen)


def read_arff(path: Path) -> Labelled:
    """A file of features, the last of which is a set of classes of the hierarchy that its header states."""
    lines = iter(path.read_text().splitlines())
    columns: list[list[str] | None] = []  # the categories of a column, None for numbers
    links: list[tuple[str, str]] = []
    for line in lines:
        words = line.split(None, 2)
        if line.upper().startswith("@DATA"):
            break
        if not line.upper().startswith("@ATTRIBUTE"):
            continue
        if words[1] == "class":
            links = list(_links(words[2].split("hierarchical", 1)[1].strip()))
        else:
            columns.append(None if words[2].strip().lower() == "numeric" else words[2].strip()[1:-1].split(","))
    names = sorted({name for link in links for name in link})
    number = {name: k for k, name in enumerate(names)}
    edges = sorted({(number[child], number[parent]) for child, parent in links})
    samples = [line.split("%")[0].strip().split(",") for line in lines if line.strip()]
    X = np.array([[v for own, cell in zip(columns, row, strict=False) for v in _values(own, cell)] for row in samples])
    X = np.where(np.isnan(X), np.nanmean(X, 0), X)  # file by file, as theirs
    Y = np.zeros((len(samples), len(names)), bool)
    found = Labelled(X, Y, names, edges)
    ancestors: dict[int, list[int]] = {}
    for up, c in found.above:
        ancestors.setdefault(c, []).append(up)
    for y, row in zip(Y, samples, strict=True):
        for label in row[len(columns)].strip().split("@"):
            y[ancestors[number[label.replace("/", ".")]]] = True
    return found


def _links(text: str) -> Iterator[tuple[str, str]]:
    """(child, parent): of GO's terms as stated, of paths a/b/c each to the one before, the first to a root."""
    for branch in text.split(","):
        parts = branch.split("/")
        if any(part.startswith("GO") for part in parts):
            yield parts[1], parts[0]
        else:
            paths = ["root", *(".".join(parts[: k + 1]) for k in range(len(parts)))]
            yield from zip(paths[1:], paths[:-1], strict=True)


def _values(categories: list[str] | None, cell: str) -> list[float]:
    if categories is None:
        return [np.nan if cell == "?" else float(cell)]
    return [float(cell == own) for own in categories]


def standardised(train: list[Labelled], test: Labelled) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Features of all training files and of the test, in units of the former; labels."""
    X, Y = (np.concatenate([getattr(own, part) for own in train]) for part in ("X", "Y"))
    mean, std = X.mean(0), X.std(0)
    std[std == 0] = 1.0
    made = ((X - mean) / std, Y, (test.X - mean) / std, test.Y)
    return tuple(torch.as_tensor(v, dtype=torch.float32) for v in made)  # type: ignore[return-value]


# -- heads: hidden features → logits, the loss of a batch --------------------------------------------------------------


class Chain(nn.Module):
    """Log-probabilities below 0 in the order, as weights of the rays of that cone; binary cross-entropy.

    A ray is a class with all below it, at -1 each (a layer by ``method="rays"`` has them at length 1, and large classes
    learn slowly): its weight is minus the log-probability of the class given its parent.
    """

    rays: Tensor

    def __init__(self, hidden: int, labels: Labelled, share: Array) -> None:
        super().__init__()
        P = rh.ordered(labels.edges, len(share)) & rh.Polyhedron(upper=np.zeros(len(share)))
        rays = np.asarray(P.generators().rays, float)
        self.linear = nn.Linear(hidden, len(rays))
        self.register_buffer("rays", torch.as_tensor(rays, dtype=self.linear.weight.dtype))
        weights = np.linalg.solve(rays.T, np.log(share)).clip(1e-3)
        _start(self.linear, np.log(np.expm1(weights)))

    def log_probabilities(self, h: Tensor) -> Tensor:
        return nn.functional.softplus(self.linear(h)) @ self.rays

    def forward(self, h: Tensor) -> Tensor:
        return self.log_probabilities(h).exp()

    def loss(self, h: Tensor, y: Tensor, which: Tensor) -> Tensor:
        x, y = self.log_probabilities(h)[:, which].clamp(max=-1e-6), y[:, which]
        return -(y * x + (1 - y) * torch.log(-torch.expm1(x))).mean()


class Order(nn.Module):
    """The nearest point of the order among logits; binary cross-entropy."""

    def __init__(self, hidden: int, labels: Labelled, share: Array) -> None:
        super().__init__()
        self.head = rh.Constrained(hidden, rh.ordered(labels.edges, len(share)), units=(0.0, 1.0))
        _start(self.head.linear, np.log(share / (1 - share)))

    def forward(self, h: Tensor) -> Tensor:
        logits: Tensor = self.head(h)
        return logits.double().sigmoid().to(logits)  # in single precision it falls by an ulp here and there

    def loss(self, h: Tensor, y: Tensor, which: Tensor) -> Tensor:
        return nn.functional.binary_cross_entropy_with_logits(self.head(h)[:, which], y[:, which])


@torch.no_grad()
def _start(linear: nn.Linear, bias: Array) -> None:
    """From the classes' shares of the training data: random logits break most of the order, and few classes learn."""
    linear.bias.copy_(torch.as_tensor(bias))


class Largest(nn.Module):
    """C-HMCNN(h): the maximum over the descendants; of a class that holds, over those that hold, in the loss."""

    up: Tensor
    down: Tensor

    def __init__(self, hidden: int, labels: Labelled) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden, len(labels.names))
        for name, numbers in zip(("up", "down"), zip(*labels.above, strict=True), strict=True):
            self.register_buffer(name, torch.tensor(numbers))

    def _largest(self, p: Tensor) -> Tensor:
        return torch.zeros_like(p).scatter_reduce(1, self.up.expand(len(p), -1), p[:, self.down], "amax")

    def forward(self, h: Tensor) -> Tensor:
        return self._largest(self.linear(h).sigmoid())

    def loss(self, h: Tensor, y: Tensor, which: Tensor) -> Tensor:
        p = self.linear(h).sigmoid()
        out = (1 - y) * self._largest(p) + y * self._largest(y * p)
        return nn.functional.binary_cross_entropy(out[:, which], y[:, which])


# -- training ----------------------------------------------------------------------------------------------------------


def average_precision(scores: Array, labels: Array) -> float:
    """The area under the precision-recall curve of all entries together, by its steps."""
    order = np.argsort(-scores.ravel(), kind="stable")
    s, y = scores.ravel()[order], labels.ravel()[order]
    last = np.append(s[1:] != s[:-1], True)  # entries of the same score come together
    hits = np.cumsum(y)[last]
    precision, recall = hits / (np.flatnonzero(last) + 1), hits / y.sum()
    return float((np.diff(recall, prepend=0.0) * precision).sum())


def epochs_of(head: nn.Module, X: Tensor, Y: Tensor, which: Tensor, source: Source) -> Iterator[nn.Module]:
    """The network of the paper, two hidden layers with dropout, after each epoch of Adam."""
    hidden = (nn.Linear(X.shape[1], source.hidden), nn.Linear(source.hidden, source.hidden))
    body = nn.Sequential(*(part for own in hidden for part in (own, nn.ReLU(), nn.Dropout(DROPOUT))))
    network = nn.Sequential(body, head)
    adam = torch.optim.Adam(network.parameters(), lr=RATE * source.batch / BATCH, weight_decay=DECAY, fused=True)
    while True:
        network.train()
        for batch in torch.randperm(len(X)).split(source.batch):
            adam.zero_grad()
            head.loss(body(X[batch]), Y[batch], which).backward()  # type: ignore[operator]
            adam.step()
        yield network.eval()


Head = Callable[[int, Labelled, Array], nn.Module]


def trained(
    make: Head, source: Source, train: list[Labelled], test: Labelled, seed: int, epochs: int | None = None
) -> tuple[int, float, Tensor]:
    """A network after some epochs: their number, its score on the test and its probabilities.

    Without a number of epochs, that of the best score, and the score.
    """
    X, Y, inputs, labels = standardised(train, test)
    which = torch.as_tensor(np.flatnonzero(test.evaluated))
    share = ((Y.sum(0) + 1) / (len(Y) + 2)).double().numpy()
    torch.manual_seed(seed)
    best, score = 0, 0.0
    for epoch, network in enumerate(epochs_of(make(source.hidden, test, share), X, Y, which, source), 1):
        if epochs in (None, epoch):
            with torch.no_grad():
                p = network(inputs)
            now = average_precision(p[:, which].numpy(), labels[:, which].numpy())
            best, score = (epoch, now) if now > score else (best, score)
        if epoch == (epochs or min(best + PATIENCE, LONGEST // len(X))):
            break
    return best, score, p


RAYS = "rayhull, rays"  # of a tree they are as many as its classes; those of a graph are too many
HEADS: dict[str, Head] = {
    "rayhull": Order,
    RAYS: Chain,
    "C-HMCNN, restated": lambda hidden, labels, share: Largest(hidden, labels),
}


def held_out(train: list[Labelled]) -> tuple[list[Labelled], Labelled]:
    """Training and validation files; of a single file a fifth validates."""
    if len(train) > 1:
        return train[:-1], train[-1]
    (every,) = train
    order = np.random.default_rng(0).permutation(len(every.X))
    valid, rest = np.split(order, [len(order) // 5])
    first, last = (replace(every, X=every.X[own], Y=every.Y[own]) for own in (rest, valid))
    return [first], last


def scores(source: Source, train: list[Labelled], test: Labelled, todo: Todo) -> Iterator[Row]:
    """A row for each head and seed: the score on the test, and the largest violation of the order.

    Epochs: the best ones on the validation file, of a network with seed 0 that learned from the training file alone.
    """
    P = rh.ordered(test.edges, len(test.names))
    epochs = {row["method"]: row["epochs"] for row in todo.known}
    is_tree = len({child for child, _ in test.edges}) == len(test.edges)
    for seed, name in todo(*(name for name in HEADS if is_tree or name != RAYS)):
        if name not in epochs:
            epochs[name], *_ = trained(HEADS[name], source, *held_out(train), seed=0)
        begin = time.process_time()
        _, score, p = trained(HEADS[name], source, train, test, seed, epochs[name])
        own = {"method": name, "seed": seed, "epochs": epochs[name], "training, s": time.process_time() - begin}
        yield own | {"score": score, "violation": float(P.violation(p).max())}
