"""The methods and studies: what is called hard is inside, and each study ends with the numbers it promises."""

from __future__ import annotations

import pytest
import torch

import rayhull as rh
from experiments import cli, digits, inference, methods
from experiments.report.collect import collect
from experiments.report.sections import ranked
from experiments.results import read_json, read_lines
from experiments.schedules import Schedule
from experiments.studies import load, projection, steps, timing, vae, vertices
from experiments.studies.projection import ProjectionSettings
from experiments.studies.timing import TimingSettings
from experiments.studies.vae import VaeSettings
from experiments.studies.vertices import VerticesSettings

SMALL = ["--dataset", "mnist-small", "--samples", "256", "--epochs", "1", "--threads", "1", "--quiet"]
P = projection.paper_set()
FULL_SIZE = [name for name in methods.METHODS if name != "optnet"]


@pytest.fixture(scope="module")
def images():
    return digits.load("mnist-small")


def settings(name: str, **options) -> ProjectionSettings:
    return ProjectionSettings(method=name, box_delay=0, **options)


@pytest.mark.parametrize("name", [name for name in FULL_SIZE if methods.method_class(name).hard])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_hard_methods_deliver_points_of_the_set_at_any_scale(name, scale):
    torch.manual_seed(0)
    method = methods.build(name, 784, P, settings(name)).eval()
    x = method.deliver(method(scale * torch.randn(32, 784)))
    assert x.shape == (32, 28, 28)
    assert P.contains(x).all()


def test_constrained_is_inside_with_no_tolerance_at_all(images):
    method = methods.build("constrained", 784, P, settings("constrained")).eval()
    assert P.contains_exactly(method(images.test[:200].flatten(1))).all()


@pytest.mark.parametrize("name", [name for name in FULL_SIZE if name != "optimum"])
def test_every_method_has_gradients_for_all_of_its_parameters(name, images):
    torch.manual_seed(0)
    task = projection.build(settings(name), images.validation[:64])
    task.train()(images.train[:64]).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in task.parameters())


@pytest.mark.parametrize(("generators", "corner", "ray"), [("ours", 6, 49), ("cddlib", 0, 1)])
def test_the_generators_of_the_papers_layer_run_through_one_pixel_of_their_tile(generators, corner, ray):
    method = methods.build("paper", 1552, P, settings("paper", generators=generators)).eval()  # a feature a generator
    torch.nn.init.eye_(method.layer.linear.weight)
    x = method(torch.eye(1552))
    assert P.contains(x).all()
    assert (x[:, corner::7, corner::7].flatten(1).count_nonzero(1) == 1).all()
    pixels, times = x.flatten(1).count_nonzero(1).unique(return_counts=True)
    assert dict(zip(pixels.tolist(), times.tolist(), strict=True)) == {2: 1536, ray: 16}


@pytest.mark.parametrize("name", FULL_SIZE)
def test_the_loss_of_a_soft_method_is_also_that_of_its_nearest_points(name, images):
    torch.manual_seed(0)
    task = projection.build(settings(name), images.validation[:64]).eval()
    with torch.no_grad():
        measures = task.evaluate()
        inside = rh.project(P, task.network(task.validation))
    assert ("projected_loss" in measures) == (not task.method.hard)
    if not task.method.hard:
        expected = torch.nn.functional.mse_loss(inside, task.validation)
        assert measures["projected_loss"] == pytest.approx(float(expected))
        assert measures["projected_loss"] > 0.35  # a point of the set: never below the optimum


@pytest.mark.parametrize(("name", "options"), [("optimum", {}), ("constrained", {"start": "identity"})])
def test_the_optimum_and_an_identity_start_have_the_papers_lower_bound(images, name, options):
    task = projection.build(settings(name, **options), images.validation).eval()
    with torch.no_grad():
        assert task.evaluate()["val_loss"] == pytest.approx(0.35555, abs=5e-6)


@pytest.mark.parametrize(("name", "delay"), [("paper", "box_delay"), ("constrained", "free_epochs")])
def test_what_is_delayed_waits_in_training_and_holds_at_evaluation(name, delay):
    torch.manual_seed(0)
    method = methods.build(name, 784, P, ProjectionSettings(method=name, **{delay: 2}))
    torch.nn.init.normal_(method.layer.linear.weight)
    features = torch.randn(64, 784)
    method.epoch_begins(2)
    assert method.train()(features).abs().max() > 1.1
    assert P.contains(method.eval()(features)).all()
    method.epoch_begins(3)
    assert P.contains(method.train()(features)).all()


def test_a_share_of_the_training_loss_judges_the_free_point():
    torch.manual_seed(0)
    method = methods.build("constrained", 784, P, settings("constrained", free_loss=0.25))
    torch.nn.init.normal_(method.layer.linear.weight)
    features, target, fit = torch.randn(64, 784), torch.zeros(64, *P.shape), torch.nn.functional.mse_loss
    x = method.train()(features)
    assert P.contains(x).all()
    u = method.layer.unconstrained(features)
    expected = 0.75 * fit(x, target) + 0.25 * fit(u, target)
    assert fit(u, target) > 2 * fit(x, target)
    torch.testing.assert_close(method.training_loss(x, target, fit), expected)
    assert method.eval().training_loss(x, target, fit) == fit(x, target)


def test_a_penalty_is_zero_inside_the_set_and_grows_outside():
    method = methods.build("penalty", 784, P, settings("penalty"))
    inside = torch.as_tensor(P.sample(4, seed=0)).float()
    fit = torch.nn.functional.mse_loss
    assert method.training_loss(inside, inside, fit) == pytest.approx(0, abs=1e-9)
    assert method.training_loss(2 - inside, 2 - inside, fit) > 1


def test_multipliers_grow_while_something_is_violated():
    method = methods.build("lagrangian", 784, P, settings("lagrangian"))
    x = torch.ones(4, 28, 28)
    method.train().training_loss(x, x, torch.nn.functional.mse_loss)
    assert (method.row_multipliers > 0).sum() == 8  # the dark tiles


def test_a_large_set_is_refused_by_optnet_with_the_study_to_use():
    with pytest.raises(ValueError, match="run the study optnet"):
        methods.build("optnet", 784, P, settings("optnet"))


def test_a_constrained_decoder_gives_images_of_the_set_for_every_latent_point(images):
    for name in ("paper", "constrained"):
        task = vae.build(VaeSettings(method=name, box_delay=0), images.validation[:8]).eval()
        assert P.contains(task.generate(10 * torch.randn(64, 2))).all()


def test_the_divergence_is_zero_for_the_prior_itself():
    assert vae.divergence(torch.zeros(3, 2), torch.zeros(3, 2)).tolist() == [0, 0, 0]


def test_a_vae_run_judges_its_samples(tmp_path, monkeypatch):
    monkeypatch.setattr(vae, "PRIOR_SAMPLES", 300)
    assert cli.main(["run", "vae", "--method", "constrained", "--out", str(tmp_path), *SMALL]) == 0
    summary = read_json(tmp_path / "vae/constrained/seed-0/summary.json")
    assert summary["inside_exactly"] == 1
    assert {"test_elbo", "plain_accuracy", "plain_score", "inside_accuracy"} <= set(summary)


@pytest.mark.parametrize(
    ("study", "method"),
    [
        ("simplex", "softmax"),
        ("simplex", "projection"),
        ("vertices", "vertices-softmax"),
        ("vertices", "shrink"),
        ("shapes", "constrained"),
        ("classifiers", "ttp"),
    ],
)
def test_each_small_study_runs_and_is_inside(tmp_path, study, method):
    options = [*SMALL[2:], "--dimension", "4"] if study == "vertices" else SMALL[2:]
    assert cli.main(["run", study, "--method", method, "--out", str(tmp_path), *options]) == 0
    assert read_json(tmp_path / study / method / "seed-0" / "summary.json")["violation"] < 1e-5


def test_the_learned_projection_on_other_images_has_their_own_optimum(tmp_path):
    for method in ("optimum", "ttp"):
        assert cli.main(["run", "fashion", "--method", method, "--out", str(tmp_path), *SMALL]) == 0
    rows = {group.method: row for group, row in zip(*_fashion(tmp_path), strict=True)}
    assert rows["optimum"]["gap to the optimum"] == "0.00 %"
    assert float(rows["ttp"]["gap to the optimum"].split()[0]) > 0
    assert "paper" not in rows["ttp"]


def _fashion(out):
    groups = ranked(collect(out)["fashion"])
    return groups, load("fashion").section(groups).table


def test_a_training_step_of_every_method_is_timed_at_both_sizes(tmp_path):
    brief = ["--repeats", "2", "--solver-repeats", "0", "--batch-size", "16", "--quiet"]
    assert cli.main(["run", "steps", "--out", str(tmp_path), *brief]) == 0
    folder = tmp_path / "steps" / "all" / "seed-0"
    timed = [(line["model"], line["method"], len(line["seconds"])) for line in read_lines(folder / "metrics.jsonl")]
    assert timed == [(size, name, 2) for size in ("28 x 28", "8 x 8") for name in steps.FULL]


@pytest.mark.parametrize("name", steps.FULL)
def test_a_step_that_is_timed_trains_the_network(name, images):
    step = steps.Step(name, images.train, P, steps.StepSettings(batch_size=8))
    before = [p.detach().clone() for p in step.task.parameters()]
    step()
    assert any(not torch.equal(old, new) for old, new in zip(before, step.task.parameters(), strict=True))


def test_the_error_that_reaches_the_coefficients_is_that_of_the_softmax_over_vertices():
    torch.manual_seed(0)
    square, points = vertices.polytope(2), torch.tensor([[3.0, 0.5]])
    chosen = VerticesSettings(method="vertices-softmax", dimension=2)
    task = vertices.Probed(vertices.Weighted(128, square, chosen), vertices.trunk(2), (points, points)).eval()
    with torch.no_grad():
        w = task.method.layer.linear(task.trunk(points))[0].softmax(0)
        V = torch.as_tensor(square.generators().vertices, dtype=torch.float32)
        e = w @ V - rh.project(square, points)[0]
        expected = ((w * (V @ e) - w * (w @ V @ e)).norm() / e.norm()).item()
    assert task.passed() == pytest.approx(expected, rel=1e-5)
    with torch.no_grad():
        assert task.evaluate()["passed"] == task.passed()


def test_optnet_agrees_with_our_projection():
    pytest.importorskip("qpth")
    from experiments.methods.optnet import QuadraticProgram

    small = rh.checkerboard((8, 8), tiles=(4, 4)) & rh.box(-1, 1)
    u = torch.randn(5, 8, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(QuadraticProgram(small)(u), rh.project(small, u), atol=1e-4, rtol=0)


def test_everything_that_is_timed_as_constrained_gives_points_of_the_set(images):
    brief = TimingSettings(512, dataset="mnist-small", compiled=False, training_epochs=0)
    for model, inputs in (("projection", images.test[:3]), ("vae", torch.randn(3, 2))):
        for cases, _ in timing.groups(model, brief, images):
            for case in cases:
                inside = P.contains(case.call(inputs), atol=1e-4 if "OSQP" in case.label else None)
                assert inside.all() == (case.label != "unconstrained"), case.label


def test_the_ordinary_layer_is_timed_though_evaluation_is_strict(images):
    brief = TimingSettings(512, dataset="mnist-small", training_epochs=0)
    task = inference.trained("projection", "constrained", brief, images)
    assert task.method.layer.strict
    inference.forward_pass(task)
    assert not task.method.layer.strict


@pytest.mark.parametrize(
    ("kind", "factor", "cooldown"), [("plateau", 0.1, 0), ("halving", 0.5, 5), ("halving-all", 0.5, 5)]
)
def test_a_plateau_schedule_cuts_where_torch_would(kind, factor, cooldown):
    ours, theirs = (torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=1.0) for _ in range(2))
    schedule = Schedule(ours, kind, 100)
    reference = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, factor=factor, patience=5, cooldown=cooldown, eps=0)
    losses = 1 / torch.arange(1, 201) ** 0.1 + 0.05 * torch.rand(200, generator=torch.Generator().manual_seed(0))
    for loss in losses.tolist():
        schedule.after_epoch(loss)
        reference.step(loss)
        assert schedule.rate() == pytest.approx(theirs.param_groups[0]["lr"], rel=1e-12)
    assert schedule.rate() < 0.2


def test_the_published_codes_schedule_never_stops_and_ends_where_torchs_does():
    ours, theirs = (torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=1e-4) for _ in range(2))
    schedule = Schedule(ours, "halving-all", 500)
    reference = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, factor=0.5, patience=5, cooldown=5)
    for _ in range(500):
        schedule.after_epoch(1.0)
        reference.step(1.0)
    assert schedule.rate() == pytest.approx(theirs.param_groups[0]["lr"], rel=1e-12)
    assert schedule.rate() < 1e-7
    assert not schedule.has_stopped


def test_the_cosine_schedule_ends_at_zero():
    optimizer = torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = Schedule(optimizer, "cosine", 50)
    rates = []
    for _ in range(50):
        rates.append(schedule.rate())
        schedule.after_step()
    assert max(rates) == 1.0
    assert schedule.rate() == pytest.approx(0, abs=1e-12)
