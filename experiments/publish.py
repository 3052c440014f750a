"""What README and docs quote: for each study one small JSON file of numbers and curves, and one sheet of pictures.

New results join those that were published before. Seeds of the same settings count together, wherever they were run; a
seed that was published before counts once, and anew where all of its group have been run again. Tables and figures of
the page are made from these files alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.errors import ResultsError
from experiments.report import collected, sections_of
from experiments.report.collect import collect
from experiments.report.groups import Group, name_apart
from experiments.report.pages import markdown_table
from experiments.report.pooling import together
from experiments.report.related import related
from experiments.report.style import rendered
from experiments.report.tables import computed, gap
from experiments.results import explained, read_json, replace, write_json
from experiments.studies import TIMED
from experiments.studies.projection import OPTIMUM

PUBLISHED = Path(__file__).parent.parent / "results" / "published"
KEPT = {"image": 5, "x": 5, "sample": 25}  # how many pictures of each kind
SIDE = 28


def publish(out: Path, to: Path) -> list[Path]:
    """Add the finished runs below ``out`` to ``to``/STUDY.json and ``to``/STUDY.png; returns these files."""
    before = read(to)
    written = []
    collected(out, unfinished=False)  # refuses a folder without results
    with explained(to):
        to.mkdir(parents=True, exist_ok=True)
        for study, groups in collect(out, unfinished=False, known=partial(seeds_known, before)).items():
            written += _write(to, study, joined(before.get(study, []), groups))
    return written


def retire(to: Path, study: str, labels: Sequence[str]) -> list[Path]:
    """Take rows of ``study`` out of what is published, by their labels: what other runs have taken the place of."""
    groups = read(to).get(study, [])
    unknown = set(labels) - {group.label for group in groups}
    if unknown:
        raise ResultsError(f"{study} has no published row {sorted(unknown)}: the labels are those of its table.")
    return _write(to, study, name_apart([group for group in groups if group.label not in labels]))


def seeds_known(before: Mapping[str, Sequence[Group]], group: Group) -> set[int]:
    """Seeds of ``group`` that were published already; none where all that were published have been run again."""
    twins = [old for old in before.get(group.study, []) if _key(old) == _key(group)]
    published = {seed for twin in twins for seed in twin.seeds}
    return set() if published <= set(group.seeds) else published & set(group.seeds)


def joined(old: Sequence[Group], new: Sequence[Group]) -> list[Group]:
    """Both, the same settings once: all seeds together, or the new ones where these are the same; new pictures."""
    kept = {_key(group): group for group in old}
    for group in new:
        key = _key(group)
        twin = kept.get(key)
        if twin is not None:
            group.pictures = group.pictures or twin.pictures
            group.numbers = together(twin, group) or group.numbers
        kept[key] = group
    return name_apart(list(kept.values()))


def _key(group: Group) -> str:
    """What makes two groups one; a new measurement of times takes the place of one with fewer or more repeats."""
    counts = ("repeats", "solver_repeats") if group.study in TIMED else ()
    settings = [(name, value) for name, value in group.settings.items() if name not in counts]
    return repr((group.note, sorted(settings, key=str)))


def _write(to: Path, study: str, groups: Sequence[Group]) -> list[Path]:
    rows: list[np.ndarray] = []
    entries = [_entry(group, rows) for group in groups]
    write_json(to / f"{study}.json", {"study": study, "groups": entries})
    if not rows:
        return [to / f"{study}.json"]
    _write_sheet(to / f"{study}.png", rows)
    return [to / f"{study}.json", to / f"{study}.png"]


def _entry(group: Group, rows: list[np.ndarray]) -> dict[str, Any]:
    """One group as it is published; its pictures, if they have the sheet's size, are added to ``rows`` of the sheet."""
    places = {}
    for kind, most in KEPT.items():
        if kind in group.pictures and group.pictures[kind].shape[1:] == (SIDE, SIDE):
            places[kind] = {"row": len(rows), "count": min(most, len(group.pictures[kind]))}
            rows.append(group.pictures[kind][:most])
    above = gap(group, OPTIMUM) if group.study == "projection" else None
    extra = {"gap_percent": above.saved()} if above else {}
    named = {"label": group.label} if "method" in group.settings else {}
    return {**named, "settings": group.settings, **group.numbers, **extra, **({"pictures": places} if places else {})}


def _write_sheet(path: Path, rows: Sequence[np.ndarray]) -> None:
    """Pictures in [-1, 1] as grey pixels, a line for each kind of each group."""
    from PIL import Image

    sheet = np.zeros((SIDE * len(rows), SIDE * max(map(len, rows))), np.uint8)
    for place, pictures in enumerate(rows):
        line = np.concatenate(list(pictures.reshape(-1, SIDE, SIDE)), axis=1)
        sheet[SIDE * place : SIDE * (place + 1), : line.shape[1]] = np.clip(np.rint(127.5 * (line + 1)), 0, 255)
    replace(path, lambda new: Image.fromarray(sheet).save(new, format="png", optimize=True))


def read(published: Path) -> dict[str, list[Group]]:
    """What was published, by study."""
    studies = {}
    for path in sorted(Path(published).glob("*.json")):
        content = read_json(path)
        sheet = _read_sheet(path.with_suffix(".png"))
        groups = [_group(content["study"], entry, sheet) for entry in content["groups"]]
        studies[content["study"]] = name_apart(groups)
    return studies


def _group(study: str, entry: dict[str, Any], sheet: np.ndarray | None) -> Group:
    numbers = {
        key: value for key, value in entry.items() if key not in ("label", "settings", "pictures", "gap_percent")
    }
    places = entry.get("pictures", {}) if sheet is not None else {}
    pictures = {kind: _cut(sheet, **place) for kind, place in places.items()}
    return Group(study, entry["settings"], numbers, pictures)


def _cut(sheet: Any, row: int, count: int) -> np.ndarray:
    """Some pictures of a sheet. Shape: (count, 28, 28)."""
    line = sheet[SIDE * row : SIDE * (row + 1), : SIDE * count]
    return np.stack(np.split(line, count, axis=1)) / 127.5 - 1


def _read_sheet(path: Path) -> np.ndarray | None:
    if not path.exists():
        return None
    from PIL import Image

    with Image.open(path) as image:
        return np.asarray(image, float)


def fill(document: Path, published: Path) -> None:
    """Put each study's table between ``<!-- STUDY -->`` and ``<!-- end -->``; ``computed`` and ``related`` likewise."""
    text, known = document.read_text(encoding="utf-8"), _known(published)
    written = {study: section.table for study, section in sections_of(known).items()}
    written |= {"computed": computed(known), "related": related(known, OPTIMUM)}
    for name, table in written.items():
        first, last = f"<!-- {name} -->\n", "<!-- end -->"
        if first in text:
            head, rest = text.split(first, 1)
            text = f"{head}{first}{markdown_table(table)}\n{last}{rest.split(last, 1)[1]}"
    with explained(document.parent):
        replace(document, lambda new: new.write_text(text, encoding="utf-8"))


def draw(published: Path, folder: Path, kinds: Sequence[str] = ("svg",)) -> list[Path]:
    """The figures of every study in ``folder``: curves as SVG or PDF, photographs always as PNG."""
    written = []
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for section in sections_of(_known(published)).values():
            for figure in section.figures:
                for kind in ("png",) if figure.photographs else kinds:
                    written.append(folder / f"{figure.name}.{kind}")
                    content = rendered(figure.drawing, kind)
                    replace(written[-1], lambda new, content=content: new.write_bytes(content))
    return written


def _known(published: Path) -> dict[str, list[Group]]:
    known = read(published)
    if not known:
        raise ResultsError(f"nothing is published in {published}: python -m experiments publish --out RESULTS.")
    return known
