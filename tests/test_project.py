"""The project as others expect it: one version everywhere, workflows that name what exists, a dated changelog."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import rayhull as rh

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def commands(workflow: Path) -> list[str]:
    """Every ``run:`` of a workflow."""
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    return [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]


def test_the_version_is_the_same_everywhere():
    changelog, citation = ((ROOT / name).read_text(encoding="utf-8") for name in ("CHANGELOG.md", "CITATION.cff"))
    version, date = re.search(r"^## \[(\d[^]]*)\] - (\d{4}-\d\d-\d\d)$", changelog, re.MULTILINE).groups()
    assert version == rh.__version__
    assert f"version: {version}\ndate-released: {date}" in citation
    assert f'version: "{version}"' in (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    assert f"Version {version}," in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_oldest_torch_is_the_one_that_a_release_is_rehearsed_with():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (floor,) = [name.partition(">=")[2] for name in project["dependencies"] if name.startswith("torch")]
    pinned = re.search(
        r'^TORCH = "torch==([\d.]+)\+cpu"', (ROOT / "release.py").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert pinned[1] == f"{floor}.0"
    assert f"pytorch >={floor}\n" in (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_targets_and_files_that_exist(workflow):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in commands(workflow):
        for targets in re.findall(r"^make ([a-z -]+)", command, re.MULTILINE):
            assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets.split())
        for name in re.findall(r"tests/\w+\.py", command):
            assert (ROOT / name).exists(), name


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_every_job_has_a_machine_and_pinned_actions(workflow):
    yaml = pytest.importorskip("yaml")
    content = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    assert content["permissions"] == {"contents": "read"}
    for job in content["jobs"].values():
        assert "runs-on" in job
        assert set(job.get("needs", "").split()) <= set(content["jobs"])
        assert all(re.fullmatch(r"[\w/-]+@v[\d.]+", step["uses"]) for step in job["steps"] if "uses" in step)


def test_continuous_integration_covers_what_the_package_claims():
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    claimed = {c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r"Python :: 3\.\d+$", c)}
    assert (
        claimed
        == set(jobs["test"]["strategy"]["matrix"]["python"])
        == set(jobs["windows"]["strategy"]["matrix"]["python"])
    )
    assert {"lint", "slow", "sanitize", "docs", "page", "without-a-compiler"} <= set(jobs)
