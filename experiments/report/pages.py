"""The report as pages: one self-contained HTML file, and Markdown with its figures beside it."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from experiments.report.style import pyplot, rendered
from experiments.report.tables import Table
from experiments.results import explained, replace

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; font-size: 0.85rem; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid #ddd; padding: 0.3rem 0.7rem; text-align: right; }
th:first-child, td:first-child, .words { text-align: left; min-width: 8rem; }
img { max-width: 100%; }
figcaption, .settings { color: #555; font-size: 0.85rem; }
figure { margin: 1.5rem 0; }
summary { cursor: pointer; color: #0059b3; margin: 1rem 0; }
@media (prefers-color-scheme: dark) {
  body { background: #151515; color: #ddd; }
  th, td { border-color: #444; }
  figcaption, .settings { color: #aaa; }
  summary { color: #6cb2eb; }
  img { filter: brightness(0.86); }
}
@media (max-width: 45rem) { figure { overflow-x: auto; } figure img { max-width: none; width: 45rem; } }
"""

WORDS = ("method", "trained", "way")  # columns of text, which begin at the left


@dataclass
class Figure:
    """A picture with its name (of the file) and its caption; photographs are of pixels, and no SVG."""

    name: str
    caption: str
    drawing: Any
    photographs: bool = False

    def __post_init__(self) -> None:
        pyplot().close(self.drawing)  # pyplot keeps every figure open; this one is ours

    @cached_property
    def png(self) -> bytes:
        return rendered(self.drawing)


@dataclass
class Section:
    """A heading, what stands below it, and in which order: text, table, figures; folded: opened by a click."""

    title: str
    text: list[str] = field(default_factory=list)
    table: Table = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    folded: bool = False


def write(out: Path, title: str, sections: list[Section]) -> Path:
    """Write report.html, report.md and figures/ below ``out``; returns the HTML file."""
    with explained(out):
        (out / "figures").mkdir(parents=True, exist_ok=True)
        for section in sections:
            for figure in section.figures:
                png = figure.png
                replace(out / "figures" / f"{figure.name}.png", lambda new, png=png: new.write_bytes(png))
        markdown, page = as_markdown(title, sections), as_html(title, sections)
        replace(out / "report.md", lambda new: new.write_text(markdown, encoding="utf-8"))
        replace(out / "report.html", lambda new: new.write_text(page, encoding="utf-8"))
    return out / "report.html"


def as_html(title: str, sections: list[Section]) -> str:
    """One file with its pictures inside."""
    parts = [f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{html.escape(title)}</title>"]
    parts.append("<meta name='viewport' content='width=device-width, initial-scale=1'>")
    parts.append(f"<style>{STYLE}</style><h1>{html.escape(title)}</h1>")
    parts += [part for section in sections for part in _html_section(section)]
    return "\n".join(part for part in parts if part) + "\n"


def _html_section(section: Section) -> Iterator[str]:
    title = html.escape(section.title)
    yield f"<details><summary>{title}</summary>" if section.folded else f"<h2>{title}</h2>"
    yield from (f"<p>{_unbroken(text)}</p>" for text in section.text)
    yield _html_table(section.table)
    for figure in section.figures:
        data, caption = base64.b64encode(figure.png).decode(), html.escape(figure.caption)
        image = f"<img alt='{caption}' src='data:image/png;base64,{data}'>"
        yield f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
    yield "</details>" if section.folded else ""


def _html_table(table: Table) -> str:
    if not table:
        return ""
    kinds = {name: " class='words'" if name in WORDS else "" for name in table[0]}
    head = "".join(f"<th{kinds[name]}>{html.escape(name)}</th>" for name in table[0])
    cells = ("".join(f"<td{kinds[name]}>{_unbroken(v)}</td>" for name, v in row.items()) for row in table)
    rows = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><tr>{head}</tr>{rows}</table>"


def _unbroken(text: str) -> str:
    """A number stays on one line with its unit and its deviation."""
    return re.sub(r"(?<=\d) (?=%|±|s\b)|(?<=±) ", "&nbsp;", html.escape(text))


def as_markdown(title: str, sections: list[Section]) -> str:
    """The same, with pictures as files."""
    parts = [f"# {title}"]
    for section in sections:
        heading = f"<details><summary>{section.title}</summary>" if section.folded else f"## {section.title}"
        parts += [heading, *section.text]
        if section.table:
            parts.append(markdown_table(section.table))
        parts += [f"![{figure.caption}](figures/{figure.name}.png)\n\n*{figure.caption}*" for figure in section.figures]
        parts += ["</details>"] if section.folded else []
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    """Rows of text as a Markdown table."""
    names = list(table[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(row[name].replace("|", "\\|") for name in names) + " |" for row in table]
    return "\n".join(lines)
