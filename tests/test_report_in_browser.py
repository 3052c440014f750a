"""The report in a real browser: every picture is shown, nothing is loaded from elsewhere, nothing sticks out."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from experiments.report.pages import Figure, Section, as_html
from experiments.report.style import pyplot

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
]
MEASURE = """<script>addEventListener("load", () => {
  const pictures = [...document.images];
  document.title = JSON.stringify([
    pictures.length,
    pictures.filter(p => p.naturalWidth == 0).length,
    performance.getEntriesByType("resource").filter(r => !r.name.startsWith("data:")).length,
    document.documentElement.scrollWidth - document.documentElement.clientWidth,
  ]);
})</script>"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")


def page(pictures):
    figure, axes = pyplot().subplots(figsize=(14, 3))
    axes.plot([0, 1], [1, 0])
    table = [{f"a rather long name of column {k}": f"{k} ± 0.1 %" for k in range(12)}]
    figures = [Figure(f"picture-{k}", "A line, falling.", figure) for k in range(pictures)]
    return as_html("A report", [Section("Section", ["Text & more."], table, figures)])


def measured(text, folder):
    (folder / "report.html").write_text(text + MEASURE, encoding="utf-8")
    shown = subprocess.run(
        [BROWSER, *QUIET, f"--user-data-dir={folder / 'profile'}", "--window-size=1000,800", "--dump-dom",
         (folder / "report.html").as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return [int(v) for v in re.search(r"<title>\[(.*?)\]</title>", shown.stdout)[1].split(",")]


def test_every_picture_is_shown_and_nothing_sticks_out(tmp_path):
    assert measured(page(pictures=2), tmp_path) == [2, 0, 0, 0]


def test_a_damaged_picture_would_be_noticed(tmp_path):
    damaged = page(pictures=2).replace("base64,iVBOR", "base64,iVBOX", 1)
    assert measured(damaged, tmp_path)[:2] == [2, 1]
