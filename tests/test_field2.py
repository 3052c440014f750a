"""Other people's tables, on small samples of our own making."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

import rayhull as rh
from benchmarks import field2, field2_labels, field2_page, field2_tourism
from benchmarks.field_control import snarenet
from benchmarks.field_dispatch import dispatch_problem, matpower_case
from benchmarks.field_problems import control_problem

RULES = "ordering y_0 y_1 y_2\ny_0 - 2y_1 >= 0\ny_1 >= 0\n\ny_2 - y_0 >= 0\n"
CASE = """function mpc = three_buses
mpc.baseMVA = 100.0;
mpc.bus = [  % number, type, demand, ...
	1	3	0	0	0	0	1	1	0	230	1	1.1	0.9;
	2	1	90	0	0	0	1	1	0	230	1	1.1	0.9;
	3	1	60	0	0	0	1	1	0	230	1	1.1	0.9;
];
mpc.gen = [
	1	0	0	0	0	1	100	1	200	0	0	0	0	0	0	0	0	0	0	0	0;
	2	0	0	0	0	1	100	1	100	0	0	0	0	0	0	0	0	0	0	0	0;
];
mpc.branch = [
	1	2	0	0.1	0	50	0	0	0	0	1	-30	30;
	2	3	0	0.1	0	80	0	0	0	0	1	-30	30;
	1	3	0	0.1	0	80	0	0	0	0	1	-30	30;
];
mpc.gencost = [
	2	0	0	3	0	10	0;
	2	0	0	3	0	20	0;
];
"""


def test_rules_of_pishield_are_a_set_in_the_order_of_its_variables() -> None:
    P = field2.pishield_set(RULES)
    assert P.shape == (3,)
    assert [2, 1, 3] in P
    assert [1, 1, 3] not in P
    assert [2, 1, 1] not in P


def test_a_correction_is_judged_by_how_far_it_moves_and_what_it_leaves() -> None:
    P = field2.pishield_set(RULES)
    made = torch.tensor([[0.0, 1.0, -1.0], [4.0, 1.0, 5.0]], dtype=torch.float64)
    theirs = torch.tensor([[2.0, 1.0, 2.0], [4.0, 1.0, 5.0]], dtype=torch.float64)
    rows = {row["method"]: row for row in field2.corrections(P, made, theirs)}
    assert rows["as generated"]["largest violation"] == 2.0
    assert rows["PiShield, as stored"]["mean distance"] == pytest.approx(np.sqrt(4 + 9) / 2)
    assert rows["rayhull, rh.project"]["mean distance"] < rows["PiShield, as stored"]["mean distance"]
    assert rows["rayhull, a layer in float32"]["mean distance"] == pytest.approx(
        rows["rayhull, rh.project"]["mean distance"], rel=1e-5
    )
    assert "PiShield, as stored" in field2_page.botnet(list(rows.values()))


def test_a_missing_file_and_another_version_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="tourism.csv is missing: it is in github.com/Nixtla"):
        field2.wanted(tmp_path, "tourism.csv")
    (tmp_path / "tourism.csv").write_text("another")
    with pytest.raises(SystemExit, match="has the hash .* expected 927d39d9ba51eaca"):
        field2.wanted(tmp_path, "tourism.csv")


def test_a_pickle_that_holds_more_than_tensors_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tensors.pkl").write_bytes(pickle.dumps({"original": torch.ones(2, 3)}))
    with (tmp_path / "tensors.pkl").open("rb") as file:
        assert torch.equal(field2._TensorsAlone(file).load()["original"], torch.ones(2, 3))
    (tmp_path / "other.pkl").write_bytes(pickle.dumps(Path("x")))
    with (tmp_path / "other.pkl").open("rb") as file, pytest.raises(pickle.UnpicklingError, match="is no tensor"):
        field2._TensorsAlone(file).load()


def test_reconciled_forecasts_are_nearest_points_and_equal_the_optimum() -> None:
    names = [{"State": s, "Region": s + r, "Purpose": p} for s in "AB" for r in "ab" for p in ("Work", "Fun")]
    S, levels = field2_tourism.hierarchy_of(names)
    assert S.shape == (1 + 2 + 2 + 4 + 4 + 8, 8)
    random = np.random.default_rng(0)
    truth = random.random((3, 8)) @ S.T
    found = {
        "base": truth + 0.5 * random.standard_normal(truth.shape),
        "residuals": random.standard_normal((30, len(S))),
    }
    found["ols+"] = np.maximum(found["base"], 0)
    rows = {row["method"]: row for row in field2_tourism.reconciliations(S, levels, found, truth)}
    for name in field2_tourism.METRICS:
        assert abs(rows[f"{name}, non-negative"]["beside NNLS"]) < 1e-9
        assert rows[f"{name}, non-negative"]["least"] >= -1e-12
    bottom = np.linalg.lstsq(S, found["base"].T, rcond=None)[0]
    assert rows["ols"]["first"] == pytest.approx((S @ bottom)[0, 0])
    assert "ols, non-negative, Nixtla" in rows
    text = field2_page.tourism(list(rows.values())) + field2_page.objectives(list(rows.values()))
    assert "*ols, published*" in text


def test_a_shrunk_covariance_lies_between_the_sample_and_its_diagonal() -> None:
    residuals = np.random.default_rng(0).standard_normal((12, 20))
    sample, shrunk = np.cov(residuals.T), field2_tourism.shrunk_covariance(residuals, ridge=0.0)
    assert np.allclose(np.diag(shrunk), np.diag(sample))
    off = ~np.eye(20, dtype=bool)
    share = shrunk[off] / sample[off]
    assert np.allclose(share, share[0])
    assert 0 < share[0] < 1
    assert np.linalg.eigvalsh(shrunk).min() > 0


def test_the_quadratic_program_is_that_of_the_paper() -> None:
    problem = field2.homeomorphic_problem()
    assert problem.P.shape == (200,)
    assert float(problem.optimum(problem.splits["test"][:8]).mean()) == pytest.approx(-55.5, abs=2.0)


@pytest.mark.filterwarnings("ignore")  # PYPOWER's
def test_a_matpower_file_becomes_a_dispatch_whose_optimum_is_a_linear_program() -> None:
    pytest.importorskip("pypower")
    problem = dispatch_problem("three", matpower_case(CASE), spread=(1.0, 1.0))
    x = problem.splits["test"][:1]
    assert float(problem.optimum(x)) == pytest.approx(10 * 105 + 20 * 45)  # 50 go from 1 to 2, the limit
    free = torch.tensor([[150.0, 0.0]], dtype=torch.float64)
    y = rh.project(problem.P, free, **problem.sides(x))
    assert torch.allclose(y, torch.tensor([[105.0, 45.0]], dtype=torch.float64))


def test_the_page_has_what_was_computed() -> None:
    run = {"gap": 0.001, "outside": 0.0, "equality": 1e-14}
    steep = run | {"geometric mean": 0.02, "largest gap": 0.5, "inequality": 0.0, "cost": 123.4, "largest share": 0.03}
    tables = {"QP 200": [run, run], "case57": [run], "case300": [steep]}
    text = field2_page.page(tables | {"SnareNet nonconvex": [steep], "SnareNet control, seed 8": [steep]})
    assert "3.0000 %" in text
    assert "0.0200 (0.0200 .. 0.0200)" in text
    assert "| seed 8 | 123.4 (123.4 .. 123.4)" in text
    assert "0.1000 (0.1000 .. 0.1000) %" in text
    assert "Homeomorphic Projection*, published" in text
    assert "botnet" not in text


TREE = """@RELATION genes
@ATTRIBUTE one numeric
@ATTRIBUTE two {a,b}
@ATTRIBUTE class hierarchical 1,1/1,1/2,2
@DATA
0.5,a,1/1@2 % a gene
?,b,1/2
1.5,a,2
"""


def test_a_file_of_labels_has_every_class_with_those_above_it(tmp_path: Path) -> None:
    (tmp_path / "genes.arff").write_text(TREE)
    found = field2_labels.read_arff(tmp_path / "genes.arff")
    assert found.names == ["1", "1.1", "1.2", "2", "root"]
    assert {(found.names[c], found.names[p]) for c, p in found.edges} == {
        ("1", "root"), ("2", "root"), ("1.1", "1"), ("1.2", "1"),
    }  # fmt: skip
    assert found.X.tolist() == [[0.5, 1, 0], [1.0, 0, 1], [1.5, 1, 0]]
    assert [[found.names[k] for k in np.flatnonzero(y)] for y in found.Y] == [
        ["1", "1.1", "2", "root"], ["1", "1.2", "root"], ["2", "root"],
    ]  # fmt: skip
    assert found.evaluated.tolist() == [True, True, True, True, False]
    with pytest.raises(SystemExit, match="is missing: it is in"):
        field2_labels.read(tmp_path, field2_labels.SOURCES["enron"])


def test_terms_of_go_have_the_parents_that_are_stated() -> None:
    assert list(field2_labels._links("root/GO1,GO1/GO2,GO3/GO2")) == [("GO1", "root"), ("GO2", "GO1"), ("GO2", "GO3")]


def test_average_precision_counts_equal_scores_together() -> None:
    labels = np.array([1, 0, 1, 0])
    assert field2_labels.average_precision(np.array([0.9, 0.8, 0.7, 0.1]), labels) == pytest.approx((1 + 2 / 3) / 2)
    assert field2_labels.average_precision(np.full(4, 0.5), labels) == pytest.approx(0.5)


def test_every_head_learns_labels_and_obeys_the_hierarchy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "genes.arff").write_text(TREE)
    data = field2_labels.read_arff(tmp_path / "genes.arff")
    source = field2_labels.Source(("genes.arff",), "genes.arff", 16, 150, 1.0, "")
    monkeypatch.setattr(field2_labels, "RATE", 1e-2)
    monkeypatch.setattr(field2_labels, "PATIENCE", 60)
    rows = list(field2_labels.scores(source, [data, data], data, field2_labels.Todo(1)))
    assert [row["method"] for row in rows] == list(field2_labels.HEADS)
    assert all(row["score"] > 0.9 and row["violation"] == 0 for row in rows)
    *_, row = field2_page.labels({"enron": rows}).splitlines()
    assert [cell.strip() for cell in row.split("|")][2] == "0.756"
    assert not list(field2_labels.scores(source, [data, data], data, field2_labels.Todo(1, rows)))


def test_epochs_are_those_of_the_best_score_on_the_validation_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "genes.arff").write_text(TREE)
    data = field2_labels.read_arff(tmp_path / "genes.arff")
    source = field2_labels.Source(("genes.arff",), "genes.arff", 16, 150, 1.0, "")
    scores = iter([0.1, 0.3, 0.2, 0.3, 0.7])  # stopped two epochs after the best, the last is of the next run
    monkeypatch.setattr(field2_labels, "average_precision", lambda p, y: next(scores))
    monkeypatch.setattr(field2_labels, "PATIENCE", 2)
    assert field2_labels.trained(field2_labels.Order, source, [data], data, seed=0)[:2] == (2, 0.3)
    known = [{"method": name, "seed": 0, "epochs": 4} for name in field2_labels.HEADS]
    row = next(iter(field2_labels.scores(source, [data, data], data, field2_labels.Todo(2, known))))
    assert (row["seed"], row["epochs"], row["score"]) == (1, 4, 0.7)


def test_a_fifth_of_a_single_training_file_validates(tmp_path: Path) -> None:
    (tmp_path / "genes.arff").write_text(TREE + "0.1,b,2\n0.2,b,1\n")
    data = field2_labels.read_arff(tmp_path / "genes.arff")
    (train,), valid = field2_labels.held_out([data])
    assert sorted([*train.X[:, 0], *valid.X[:, 0]]) == sorted(data.X[:, 0])
    assert (train.Y.shape, valid.Y.shape) == ((4, 5), (1, 5))
    assert field2_labels.held_out([data, valid]) == ([data], valid)


@pytest.mark.parametrize("head", [field2_labels.Chain, field2_labels.Order])
def test_our_heads_start_from_the_shares_of_the_classes(tmp_path: Path, head: type) -> None:
    (tmp_path / "genes.arff").write_text(TREE)
    data, share = field2_labels.read_arff(tmp_path / "genes.arff"), np.array([0.6, 0.3, 0.2, 0.5, 0.9])
    network = head(4, data, share)
    assert np.allclose(network(torch.zeros(1, 4)).detach().numpy(), share, atol=2e-3)


def test_the_rays_of_a_graph_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "genes.arff").write_text(TREE)
    data = field2_labels.read_arff(tmp_path / "genes.arff")
    graph = field2_labels.Labelled(data.X, data.Y, data.names, [*data.edges, (1, 3)])
    source = field2_labels.Source(("genes.arff",), "genes.arff", 16, 150, 1.0, "")
    rows = field2_labels.scores(source, [graph, graph], graph, field2_labels.Todo(1))
    assert [row["method"] for row in rows] == [name for name in field2_labels.HEADS if name != field2_labels.RAYS]


def test_forecasts_that_are_trained_through_the_layer_add_up() -> None:
    names = [{"State": s, "Region": s + r, "Purpose": p} for s in "AB" for r in "ab" for p in ("Work", "Fun")]
    S, levels = field2_tourism.hierarchy_of(names)
    random, t = np.random.default_rng(0), np.arange(40)[:, None]
    trips = np.maximum(0, 2 + np.sin(np.pi / 2 * t) + 0.3 * random.standard_normal((40, 8)))
    rows = list(field2_tourism.learned(S, levels, trips @ S.T, field2_labels.Todo(1)))
    assert [row["method"] for row in rows] == list(field2_tourism.LEARNED)
    free, after, through = (row["violation"] for row in rows)
    assert free > 1e-3 > 1e-9 > max(after, through)
    assert rows[2]["Total"] < 8
    assert "trained through the layer" in field2_page.learned(rows)


def test_three_obstacles_are_three_rows_in_the_plane() -> None:
    problem = control_problem(20, snarenet(8))
    x = problem.splits["train"]
    assert problem.sides(x)["A"].shape == (len(x), 3, 2)
    assert problem.worst is not None
    y = rh.project(problem.P, torch.zeros(len(x), 2, dtype=torch.float64), **problem.sides(x))
    assert float(((problem.sides(x)["A"] @ y.unsqueeze(-1)).squeeze(-1) - problem.sides(x)["b"]).max()) < 1e-9


def test_a_finished_row_takes_the_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field2.harness, "RESULTS", tmp_path)
    monkeypatch.setattr(field2, "PATH", tmp_path / "field2.json")
    for gap in (1.0, 2.0):
        field2.add("case57", {"method": "ours", "seed": 0, "rate": 0.1, "gap": gap})
    field2.add("botnet", {"method": "theirs"})
    assert list(field2.load()) == ["botnet", "case57"]
    assert [row["gap"] for row in field2.load()["case57"]] == [2.0]
    todo = field2_labels.Todo(2, field2.load()["case57"])
    assert list(todo("ours", "theirs")) == [(0, "theirs"), (1, "ours"), (1, "theirs")]
    assert todo.known_rate == 0.1


def test_runs_that_are_left_are_those_of_the_methods_that_are_asked_for() -> None:
    assert [*field2_labels.Todo(2, [{"method": "a", "seed": 0}], ["a"])("a", "b")] == [(1, "a")]
